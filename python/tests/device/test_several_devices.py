"""Four simulated devices. How many a process has is fixed at its start, so these run in one of their own."""

from .conftest import Program

FOUR = {"TORCH_TPU_SIM_TOPOLOGY": "v6e:2x2"}


def test_tensors_are_copied_between_devices(program: Program) -> None:
    program(
        """
        import torch
        assert torch.tpu.device_count() == torch.accelerator.device_count() == 4
        coords = [torch.tpu.get_device_properties(i).coords for i in range(4)]
        assert coords == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
        a = torch.arange(4.0, device="tpu:1")
        for i in range(4):
            b = a.to(f"tpu:{i}", non_blocking=True) + 1
            assert b.device == torch.device("tpu", i) and b.tolist() == [1, 2, 3, 4]
        z = torch.zeros(4, 2, device="tpu:3")
        z[:, 1].copy_(a.half())
        assert z.tolist() == [[0, 0], [0, 1], [0, 2], [0, 3]]
        assert torch.tpu.memory_allocated(1) >= 16 and torch.tpu.memory_allocated(2) == 0
        assert torch.tpu.can_device_access_peer(0, 1) and not torch.tpu.can_device_access_peer(1, 1)
        for other in (torch.ones(4, device="tpu:2"), torch.ones((), device="tpu:2"), torch.ones(4)):
            try:
                a + other
            except RuntimeError as e:
                assert "Expected all tensors to be on the same device" in str(e), e
            else:
                raise AssertionError("devices were mixed")
        assert (a + torch.ones(())).device.index == 1
        p = torch.nn.Parameter(a)
        p.data = p.data.to("tpu:2")
        assert p.device.index == 2
        for i in range(4):
            torch.tpu.synchronize(i)
        """,
        **FOUR,
    )


def test_the_current_device_is_a_context_of_each_thread(program: Program) -> None:
    program(
        """
        import threading, torch
        def current():
            assert torch.ones(1, device="tpu").device.index == torch.ones(1).tpu().device.index
            assert torch.accelerator.current_device_index() == torch.tpu.current_device()
            return torch.ones(1, device="tpu").device.index
        with torch.tpu.device(2):
            assert current() == 2
            with torch.tpu.device_of(torch.ones(1, device="tpu:1")):
                assert current() == 1
            with torch.tpu.device(None), torch.accelerator.device_index(3):
                assert current() == 3
            assert current() == 2
        assert current() == 0
        torch.tpu.set_device("tpu:1")
        assert current() == 1
        torch.accelerator.set_device_index(3)
        assert current() == 3
        torch.tpu.set_device(torch.device("tpu", 0))
        found = {}
        def work(i):
            torch.tpu.set_device(i)
            w = torch.ones(3, 3, device="tpu", requires_grad=True)
            for _ in range(3):
                (w @ w).sum().backward()
            found[i] = current(), w.grad.device.index, w.grad.sum().item()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert found == {i: (i, i, 162.0) for i in range(4)}, found
        assert current() == 0

        stream = torch.tpu.Stream("tpu:1")
        with torch.tpu.stream(stream):
            assert current() == 1 and torch.tpu.current_stream() == stream
            assert torch.tpu.current_stream(2) == torch.tpu.default_stream(2)
        assert current() == 0 and torch.tpu.current_stream(1) == torch.tpu.default_stream(1) != stream
        """,
        **FOUR,
    )


def test_gradients_random_numbers_and_files_know_their_device(program: Program) -> None:
    program(
        """
        import io, torch
        first, second = torch.nn.Linear(2, 2).to("tpu:1"), torch.nn.Linear(2, 2).to("tpu:2")
        second(first(torch.ones(1, 2, device="tpu:1")).to("tpu:2")).sum().to("tpu:3").backward()
        assert [p.grad.device.index for m in (first, second) for p in m.parameters()] == [1, 1, 2, 2]

        torch.manual_seed(3)
        draws = [torch.rand(2, device=f"tpu:{i}").tolist() for i in range(4)]
        assert draws == draws[:1] * 4
        states = torch.tpu.get_rng_state_all()
        assert len(states) == len(torch.tpu.default_generators) == 4
        later = torch.rand(2, device="tpu:1")
        torch.tpu.set_rng_state_all(states)
        with torch.random.fork_rng(devices=[1]):
            torch.rand(9, device="tpu:1")
        assert torch.equal(torch.rand(2, device="tpu:1"), later)
        torch.tpu.manual_seed(9)
        assert [g.initial_seed() for g in torch.tpu.default_generators] == [9, 3, 3, 3]

        file = io.BytesIO()
        torch.save([torch.full((2,), float(i), device=f"tpu:{i}") for i in range(4)], file)
        def where(location):
            file.seek(0)
            loaded = torch.load(file, map_location=location)
            assert [t[0].item() for t in loaded] == [0, 1, 2, 3]
            return [str(t.device) for t in loaded]
        assert where(None) == ["tpu:0", "tpu:1", "tpu:2", "tpu:3"]
        assert where("tpu:2") == ["tpu:2"] * 4
        assert where({"tpu:1": "tpu:3"}) == ["tpu:0", "tpu:3", "tpu:2", "tpu:3"]
        """,
        **FOUR,
    )
