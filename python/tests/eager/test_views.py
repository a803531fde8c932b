"""Views and in-place writes: random programs give on tpu what they give on the CPU."""

import random

import pytest
import torch

DTYPES = [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64]


def fill(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-9, 9, shape, generator=generator)
    return values.to(dtype)


def view_step(t, rng):
    """One random view of `t`, as a function to be applied on both devices."""
    choices = ["alias"]
    if t.dim():
        d = rng.randrange(t.dim())
        n = t.size(d)
        choices += ["transpose", "permute", "unsqueeze", "flatten", "narrow", "step", "expand", "unfold", "split"]
        if n:
            choices += ["select"]
        if t.dim() >= 2:
            choices += ["diagonal"]
    kind = rng.choice(choices)
    if kind == "transpose":
        e = rng.randrange(t.dim())
        return lambda x: x.transpose(d, e)
    if kind == "permute":
        order = rng.sample(range(t.dim()), t.dim())
        return lambda x: x.permute(order)
    if kind == "unsqueeze":
        return lambda x: x.unsqueeze(d)
    if kind == "flatten" and t.is_contiguous():
        return lambda x: x.view(-1)
    if kind == "narrow" and n:
        start = rng.randrange(n)
        length = rng.randint(0 if rng.random() < 0.1 else 1, n - start)
        return lambda x: x.narrow(d, start, length)
    if kind == "step" and n > 1:
        start, step = rng.randrange(n), rng.randint(1, 3)
        return lambda x: x.movedim(d, 0)[start::step].movedim(0, d)
    if kind == "select":
        i = rng.randrange(n)
        return lambda x: x.select(d, i)
    if kind == "diagonal":
        a, b = rng.sample(range(t.dim()), 2)
        offset = rng.randint(-1, 1)
        return lambda x: x.diagonal(offset, a, b)
    if kind == "expand" and t.size(0) == 1:
        return lambda x: x.expand(3, *x.shape[1:])
    if kind == "unfold" and n > 1:
        size, step = rng.randint(1, n), rng.randint(1, 3)
        return lambda x: x.unfold(d, size, step)
    if kind == "split" and n % 2 == 0 and n and t.is_contiguous():
        return lambda x: x.view(*x.shape[:d], 2, x.size(d) // 2, *x.shape[d + 1 :])
    return lambda x: x.view_as(x)


def overlaps(t):
    return (
        any(s == 0 and n > 1 for n, s in zip(t.shape, t.stride(), strict=True))
        or len(
            set(
                torch.arange(t.untyped_storage().nbytes() // t.element_size())
                .as_strided(t.shape, t.stride(), t.storage_offset())
                .flatten()
                .tolist()
            )
        )
        != t.numel()
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_of_views_and_writes(seed):
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    base = fill(shape, dtype, seed)
    pool = [(base, base.to("tpu"))]
    for step in range(12):
        c, d = rng.choice(pool)
        f = view_step(c, rng)
        c, d = f(c), f(d)
        assert c.shape == d.shape and c.stride() == d.stride() and c.storage_offset() == d.storage_offset()
        torch.testing.assert_close(d.cpu(), c, rtol=0, atol=0)
        pool.append((c, d))
        if rng.random() < 0.5 and not overlaps(c):
            value = fill(c.shape, dtype, 1000 * seed + step)
            if rng.random() < 0.5 and dtype not in (torch.bool,):
                c.add_(value)
                d.add_(value.to("tpu"))
            else:
                c.copy_(value)
                d.copy_(value if rng.random() < 0.5 else value.to("tpu"))
        for c, d in pool:
            torch.testing.assert_close(d.cpu(), c, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int16, torch.float64, torch.complex64, torch.bool])
def test_views_of_another_dtype_read_and_write_the_same_bytes(dtype):
    c = torch.arange(16, dtype=torch.float32)
    if dtype == torch.bool:
        c = torch.tensor([0, 1, 1, 0], dtype=torch.uint8)
    d = c.to("tpu")
    torch.testing.assert_close(d.view(dtype).cpu(), c.view(dtype), rtol=0, atol=0, equal_nan=True)
    for t in (c, d):
        t.view(dtype)[1:3] = 1
    torch.testing.assert_close(d.cpu(), c, rtol=0, atol=0, equal_nan=True)


def test_real_and_imaginary_parts_are_views():
    c = torch.complex(torch.arange(6.0), -torch.arange(6.0)).view(2, 3)
    d = c.to("tpu")
    for t in (c, d):
        t.real[0] = 9
        torch.view_as_real(t)[1, :, 1] += 2
        t.t().conj()[1].imag.mul_(3)
    torch.testing.assert_close(d.cpu(), c)
    torch.testing.assert_close(d.conj().cpu(), c.conj())
    torch.testing.assert_close((d.conj() * 2).cpu(), c.conj() * 2)


def test_where_a_slice_starts_does_not_recompile():
    import torch_tpu

    x = torch.arange(64.0, device="tpu").view(8, 8)
    out = torch.zeros(8, device="tpu")
    for i in range(2, 4):
        out[i] = x[i].sum()
        out[i] += x[i, i]
    before = torch_tpu.cache.stats()["misses"]
    for i in range(4, 8):
        out[i] = x[i].sum()
        out[i] += x[i, i]
    assert torch_tpu.cache.stats()["misses"] == before
    expected = torch.arange(64.0).view(8, 8)
    torch.testing.assert_close(out.cpu()[2:], (expected.sum(1) + expected.diagonal())[2:])


def test_growing_keeps_what_was_there_and_reads_the_rest_as_zeros():
    c, d = torch.arange(4.0), torch.arange(4.0).to("tpu")
    d.resize_(2, 3)
    c.resize_(2, 3)
    torch.testing.assert_close(d.cpu().flatten()[:4], c.flatten()[:4])
    d[1, 2] = 5
    assert d[1, 2].item() == 5 and d[0, 0].item() == 0


def test_writing_to_overlapping_memory_is_refused_as_on_the_cpu():
    for device in ("cpu", "tpu"):
        x = torch.zeros(2, device=device).expand(3, 2)
        for write in (lambda x: x.add_(1), lambda x: x.copy_(torch.ones(3, 2))):
            with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
                write(x)


PARTIAL_OVERLAPS = {
    "out": lambda x: torch.add(x[:8], 1, out=x[2:]),
    "copy_": lambda x: x[2:].copy_(x[:8]),
    "add_": lambda x: x[2:].add_(x[:8]),
    "comparison": lambda x: torch.maximum(x[:8], x[1:9], out=x[2:]),
    "transposed": lambda x: x[:9].view(3, 3).mul_(x[:9].view(3, 3).t()),
    # These read what they write, so the operand itself is refused too.
    "cat": lambda x: torch.cat((x[:5], x[5:]), out=x),
    "gather": lambda x: torch.gather(x, 0, torch.arange(10, device=x.device), out=x),
    "index_select": lambda x: torch.index_select(x, 0, torch.arange(10, device=x.device), out=x),
    "take": lambda x: torch.take(x, torch.arange(10, device=x.device), out=x),
    "index_add_": lambda x: x.index_add_(0, torch.arange(2, device=x.device), x[4:6]),
    "index_copy_": lambda x: x.index_copy_(0, torch.arange(2, device=x.device), x[4:6]),
    "scatter_": lambda x: x.scatter_(0, torch.arange(2, device=x.device), x[4:6]),
}


@pytest.mark.parametrize("name", PARTIAL_OVERLAPS)
def test_writing_to_a_part_of_an_operand_is_refused_as_on_the_cpu(name):
    for device in ("cpu", "tpu"):
        x = torch.arange(10.0, device=device)
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            PARTIAL_OVERLAPS[name](x)
        assert torch.equal(x.cpu(), torch.arange(10.0))


def test_writing_to_an_operand_itself_or_beside_it_is_not_refused():
    for device in ("cpu", "tpu"):
        x = torch.arange(10.0, device=device)
        x[:5].add_(x[5:])
        x[:5].mul_(x[:5])
        torch.sub(x[5:], 1, out=x[5:])
        x[:5].copy_(x[:5])
        torch.scatter(x, 0, torch.zeros(1, dtype=torch.int64, device=device), x[:1].clone(), out=x)
        assert x.tolist() == [25.0, 49.0, 81.0, 121.0, 169.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def test_results_that_overlap_are_refused_where_the_cpu_refuses_them():
    for device in ("cpu", "tpu"):
        x = torch.arange(6.0, device=device)
        with pytest.raises(ValueError, match="must not overlap"):
            torch.aminmax(x, out=(out := torch.zeros((), device=device), out))


@pytest.mark.parametrize("wrong", [{"padding": -1}, {"stride": -1}, {"dilation": -1}])
def test_convolutions_refuse_negative_arguments_in_the_cpus_words(wrong):
    said = []
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError) as raised:
            torch.nn.functional.conv2d(
                torch.ones(1, 1, 4, 4, device=device), torch.ones(1, 1, 2, 2, device=device), **wrong
            )
        said.append(str(raised.value))
    assert said[0] in said[1]
