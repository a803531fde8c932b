"""Runs the same function on CPU torch and on tpu, and compares what comes of it."""

import torch
from torch.utils._pytree import tree_flatten, tree_map


def on_tpu(value):
    """The tensor with the same strides on the device; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    moved = value.detach().to("tpu")
    if not value.is_contiguous() and value.numel():
        storage = torch.empty(value.untyped_storage().nbytes() // value.element_size(), dtype=value.dtype)
        storage.copy_(value.detach().as_strided(storage.shape, (1,), 0))
        moved = storage.to("tpu").as_strided(value.shape, value.stride(), value.storage_offset())
    return moved.requires_grad_(value.requires_grad)


def check(fn, *args):
    """`fn` of the arguments on tpu gives what it gives on the CPU: values, dtypes, sizes, strides."""
    want, want_spec = tree_flatten(fn(*args))
    got, got_spec = tree_flatten(fn(*tree_map(on_tpu, args)))
    assert got_spec == want_spec
    for g, w in zip(got, want, strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w or (g != g and w != w), f"{g} is not {w}"
            continue
        assert g.device.type == "tpu", f"the result is on {g.device}"
        assert g.stride() == w.stride(), f"strides {g.stride()}, not {w.stride()}"
        torch.testing.assert_close(g.cpu(), w, equal_nan=True)
