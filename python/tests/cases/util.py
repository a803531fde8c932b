"""Runs one small program on the CPU and on tpu; both must come to the same."""

from collections.abc import Callable

import torch


def raises(run: Callable[[], object]) -> str:
    """The class of the error that `run` raises, or that there is none."""
    try:
        run()
    except Exception as error:  # the classes are compared, whichever they are
        return f"raises {type(error).__name__}"
    return "no error"


def runtime(dev: str):
    """The module with the device's runtime functions: `torch` for the CPU."""
    return torch if dev == "cpu" else getattr(torch, dev)


def compiled(run: Callable, dev: str, **options) -> Callable:
    """`run` compiled by the device's own backend."""
    torch._dynamo.reset()
    return torch.compile(run, backend="aot_eager" if dev == "cpu" else dev, **options)


def agree(want, got, at="result", exact=False):
    """Types, dtypes, sizes, strides and values are equal: to the bit, or to torch.testing's bounds for floats."""
    if isinstance(want, torch.Tensor):
        assert isinstance(got, torch.Tensor), f"{at}: {got!r} is no tensor"
        same = (want.dtype, want.shape, want.layout, want.requires_grad)
        assert (got.dtype, got.shape, got.layout, got.requires_grad) == same, f"{at}: want {want}, got {got.cpu()}"
        want, got = want.detach(), got.detach()
        if want.layout == torch.strided:
            assert got.stride() == want.stride(), f"{at}: want strides {want.stride()}, got {got.stride()}"
        bounds = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(
            got.cpu(),
            want.cpu(),
            equal_nan=True,
            msg=lambda text: f"{at}: want {want}, got {got.cpu()}\n{text}",
            **bounds,
        )
    elif isinstance(want, dict):
        assert list(got) == list(want), f"{at}: want keys {list(want)}, got {list(got)}"
        for key in want:
            agree(want[key], got[key], f"{at}[{key!r}]", exact)
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want), f"{at}: want {type(want)}, got {type(got)}"
        assert len(got) == len(want), f"{at}: want {len(want)} items, got {len(got)}"
        for place, pair in enumerate(zip(want, got, strict=True)):
            agree(*pair, f"{at}[{place}]", exact)
    elif isinstance(want, float) and isinstance(got, float) and not exact:
        agree(torch.tensor(want), torch.tensor(got), at)
    else:
        assert type(got) is type(want), f"{at}: want {want!r}, got {got!r}"
        assert got == want or got != got, f"{at}: want {want!r}, got {got!r}"


def same(case: Callable) -> Callable[[], None]:
    """A test that `case("tpu")` comes to what `case("cpu")` comes to."""
    return _test(case, exact=False)


def same_bits(case: Callable) -> Callable[[], None]:
    """A test that `case("tpu")` comes to what `case("cpu")` comes to, and floats to the last bit."""
    return _test(case, exact=True)


def _test(case, exact):
    def test():
        outcomes = []
        for dev in ("cpu", "tpu"):
            torch.manual_seed(0)
            outcomes.append(case(dev))
        agree(*outcomes, exact=exact)

    # Not functools.wraps: pytest would take `dev` for a fixture.
    test.__name__, test.__doc__, test.__module__ = case.__name__, case.__doc__, case.__module__
    return test
