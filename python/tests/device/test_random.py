"""Seeds and states of the devices' generators."""

import pytest
import torch

from .conftest import Program


def test_a_seed_gives_the_same_numbers() -> None:
    def draw() -> list[torch.Tensor]:
        return [torch.rand(5, device="tpu"), torch.randn(3, device="tpu"), torch.randperm(6, device="tpu")]

    torch.manual_seed(3)
    first = draw()
    for reseed in (torch.manual_seed, torch.tpu.manual_seed, torch.tpu.manual_seed_all):
        reseed(3)
        assert all(map(torch.equal, draw(), first))
        assert torch.tpu.initial_seed() == 3
    assert not torch.equal(torch.rand(5, device="tpu"), first[0])
    torch.tpu.manual_seed(-1)
    assert torch.tpu.initial_seed() == 2**64 - 1


def test_a_state_brings_the_numbers_back() -> None:
    torch.rand(3, device="tpu")
    state, states = torch.tpu.get_rng_state(), torch.tpu.get_rng_state_all()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    x = torch.rand(5, device="tpu")
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.rand(5, device="tpu"), x)
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(torch.rand(5, device="tpu"), x)
    torch.tpu.set_rng_state(state, "tpu:0")
    assert torch.equal(torch.rand(5, device="tpu"), x)
    with pytest.raises(RuntimeError, match=r"RNG state must be a torch\.ByteTensor of 16 bytes"):
        torch.tpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))


@pytest.mark.parametrize("options", [{"device_type": "tpu"}, {}, {"devices": [0], "device_type": "tpu"}])
def test_fork_rng_leaves_no_trace(options: dict) -> None:
    torch.manual_seed(5)
    want = torch.rand(4, device="tpu"), torch.rand(4)
    torch.manual_seed(5)
    with torch.random.fork_rng(**options):
        torch.manual_seed(77)
        torch.rand(9, device="tpu")
        torch.rand(9)
    assert torch.equal(torch.rand(4, device="tpu"), want[0])
    assert torch.equal(torch.rand(4), want[1])


def test_random_seeds_differ() -> None:
    torch.tpu.seed()
    one = torch.tpu.initial_seed()
    torch.tpu.seed_all()
    assert torch.tpu.initial_seed() != one


def test_generators_are_objects_of_torch() -> None:
    assert len(torch.tpu.default_generators) == torch.tpu.device_count()
    generator = torch.tpu.default_generators[0]
    assert generator.device == torch.device("tpu:0")
    generator.manual_seed(11)
    x = torch.rand(3, device="tpu")
    own = torch.Generator("tpu").manual_seed(11)
    assert torch.equal(torch.rand(3, device="tpu", generator=own), x)
    copy = own.clone_state()
    assert torch.equal(torch.rand(3, device="tpu", generator=own), torch.rand(3, device="tpu", generator=copy))
    with pytest.raises(IndexError):
        torch.tpu.default_generators[9]


def test_a_generator_of_the_cpu_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'tpu' device type for generator but found 'cpu'"):
        torch.rand(2, device="tpu", generator=torch.Generator())


def test_a_seed_before_the_start_is_kept(program: Program) -> None:
    program("""
        import torch
        for seed in (torch.manual_seed, torch.tpu.manual_seed, torch.tpu.manual_seed_all):
            seed(7)
            assert not torch.tpu.is_initialized()
        x = torch.rand(3, device="tpu")
        assert torch.tpu.is_initialized()
        torch.manual_seed(7)
        assert torch.equal(torch.rand(3, device="tpu"), x)
    """)
