"""Starting, forking, spawning and ending processes."""

from pathlib import Path

from .conftest import Program

REFUSED = (
    "Cannot re-initialize TPU in forked subprocess. "
    "To use TPU with multiprocessing, you must use the 'spawn' start method"
)


def test_import_is_quiet_and_starts_nothing(program: Program) -> None:
    done = program("""
        import sys, torch
        assert torch.tpu.__name__ and not torch.tpu.is_initialized()
        assert not {"torch._dynamo", "sympy", "torch._inductor", "jax"} & set(sys.modules)
        torch.ones(3, device="tpu").sum().item()
    """)
    assert done.stdout == done.stderr == ""


def test_import_costs_little(program: Program) -> None:
    """Processor time, since other processes may keep the machine busy; the best of three."""
    code = """
        import time, torch
        start = time.process_time()
        from torch_tpu._autoload import autoload
        autoload()
        print(time.process_time() - start)
    """
    best = min(float(program(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout) for _ in range(3))
    assert best < 0.3


def test_the_plugins_log_level_is_the_users(program: Program) -> None:
    code = "import os, torch; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    # The tests' own process may have set it.
    unset = "import os; os.environ.pop('TF_CPP_MIN_LOG_LEVEL', None); " + code
    assert program(unset).stdout == "3\n"
    assert program(unset, TORCH_TPU_PLATFORM="tpu").stdout == "1\n"
    assert program(code, TF_CPP_MIN_LOG_LEVEL="0").stdout == "0\n"


def test_a_fork_after_the_start_is_refused(program: Program) -> None:
    done = program("""
        import multiprocessing as mp, torch
        x = torch.ones(3, device="tpu")
        def child(queue):
            torch.manual_seed(1)
            assert torch.ones(2).sum() == 2
            assert torch.tpu.is_available() and not torch.tpu.is_initialized()
            calls = [lambda: torch.ones(2, device="tpu"), lambda: x + 1, lambda: x.cpu(), lambda: repr(x),
                     lambda: torch.ones(2).to("tpu"), torch.tpu.synchronize, torch.tpu.current_device, torch.tpu.init]
            for call in calls:
                try:
                    queue.put(repr(call()))
                except RuntimeError as e:
                    queue.put(str(e))
            queue.put(None)
        context = mp.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        for line in iter(lambda: queue.get(timeout=100), None):
            print(line)
        process.join(100)
        assert process.exitcode == 0, process.exitcode
        assert (x + 1).tolist() == [2, 2, 2]
    """)
    assert done.stdout.splitlines() == [REFUSED] * 8


def test_a_forked_child_ends_cleanly(program: Program) -> None:
    program("""
        import os, sys, torch
        x = torch.ones(3, device="tpu")
        pid = os.fork()
        if pid == 0:
            del x
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    """)


def test_a_fork_before_the_start_is_allowed(program: Program) -> None:
    program("""
        import os, sys, torch
        torch.manual_seed(3)
        pid = os.fork()
        x = torch.ones(3, device="tpu") + 1
        assert x.tolist() == [2, 2, 2]
        if pid:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """)


def test_spawn_works(program: Program, tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        "import torch\n"
        "def work(rank, queue):\n"
        "    queue.put((rank, torch.full((3,), float(rank), device='tpu').sum().item()))\n"
        "if __name__ == '__main__':\n"
        "    x = torch.ones(1, device='tpu')\n"
        "    queue = torch.multiprocessing.get_context('spawn').SimpleQueue()\n"
        "    torch.multiprocessing.spawn(work, args=(queue,), nprocs=2)\n"
        "    assert sorted(queue.get() for _ in range(2)) == [(0, 0.0), (1, 3.0)]\n"
    )
    program(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")


def test_exit_codes_are_clean(program: Program) -> None:
    work = "import torch, sys; x = torch.ones(3, device='tpu', requires_grad=True); (x * 2).sum().backward()\n"
    for end, code in (("", 0), ("sys.exit(7)", 7), ("raise ValueError('the end')", 1)):
        done = program(work + end, check=False)
        assert done.returncode == code, done.stderr
        assert done.stderr == "" or "ValueError: the end" in done.stderr


def test_a_process_that_ends_while_programs_compile(program: Program) -> None:
    done = program("""
        import torch
        torch.tpu.eager_mode("fused")
        x = torch.ones(8, 8, device="tpu")
        for _ in range(3):
            for n in range(2, 12):
                y = x
                for _ in range(n):
                    y = (y * 1.01).sin() @ x
                y.sum().item()
        print("end")
    """)
    assert (done.stdout, done.stderr) == ("end\n", "")


def test_a_tensor_sent_to_another_process_is_refused_clearly(program: Program) -> None:
    done = program("""
        import io, pickle, torch
        import torch.multiprocessing as mp
        if __name__ == "__main__":
            queue = mp.get_context("spawn").SimpleQueue()
            queue.put(torch.ones(2))
            assert queue.get().tolist() == [1, 1]
            for x in (torch.ones(2, device="tpu"), torch.nn.Parameter(torch.ones(2, device="tpu"))):
                try:
                    queue.put(x)
                except RuntimeError as e:
                    print(e)
                assert pickle.loads(pickle.dumps(x)).device.type == "tpu"
    """)
    line = "a tensor on tpu:0 cannot be shared with another process: a TPU's memory belongs to one. "
    assert done.stdout == 2 * (line + 'Send tensor.cpu(), and move it there with .to("tpu")\n')
