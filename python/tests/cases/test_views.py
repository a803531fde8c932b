"""Views, in-place writes and aliasing: what one name writes, every name of the storage reads."""

import torch
from torch import nn

from cases.util import raises, same


@same
def test_chain_of_views_writes_to_the_base(dev):
    base = torch.zeros(4, 6, device=dev)
    base.t()[1:5].unflatten(0, (2, 2))[1, 0].add_(3)
    base.view(2, 2, 6).select(1, 1).diagonal().mul_(2).sub_(1)
    return base


@same
def test_masks_and_indices_write_through_a_view(dev):
    base = torch.arange(12.0, device=dev).view(3, 4)
    view = base[:, ::2]
    view[view > 5] = -1
    view[torch.tensor([0, 2], device=dev), torch.tensor([1, 0], device=dev)] += 100
    base[1:].masked_fill_(base[1:] < 0, 7)
    return base, view


@same
def test_copy_between_overlapping_parts(dev):
    x = torch.arange(8, device=dev)
    x[2:6].copy_(x[3:7].clone())
    y = torch.arange(6.0, device=dev).view(2, 3)
    y[0], y[1] = y[1].clone(), y[0].clone()
    y.copy_(y.flip(1))
    return x, y


@same
def test_transposing_in_place_moves_no_other_name(dev):
    x = torch.arange(6, device=dev).view(2, 3)
    other = x.view(6)
    x.t_().add_(10)
    x.unsqueeze_(0).transpose_(1, 2)
    z = x.squeeze_()
    return x, other, z is x, x.is_contiguous()


@same
def test_transfers_of_strided_tensors(dev):
    host = torch.arange(24.0).view(2, 3, 4)
    back = torch.zeros(3, 2, 4)
    back.transpose(0, 1).copy_(host.to(dev))
    up = torch.zeros(4, 3, 2, device=dev)
    up.permute(2, 1, 0).copy_(host)
    parts = torch.zeros(2, 6, device=dev)
    parts[:, 1::2] = host[:, 0, 1:]
    return (
        host.permute(2, 0, 1).to(dev, copy=True),
        host[:, 1:, ::2].to(dev, copy=True),
        host.expand(2, 2, 3, 4).to(dev, copy=True),
        back,
        up,
        parts,
    )


@same
def test_as_strided_with_an_offset(dev):
    x = torch.arange(12.0, device=dev)
    windows = x.as_strided((4, 3), (2, 1), 1)
    x.as_strided((3,), (4,), 2).zero_()
    return windows, windows.sum(1), x, windows.storage_offset(), x.unfold(0, 4, 3)


@same
def test_out_that_is_a_view(dev):
    base = torch.zeros(3, 4, device=dev)
    torch.add(torch.ones(3, device=dev), 1, out=base[:, 1])
    torch.mm(torch.ones(2, 2, device=dev), torch.eye(2, device=dev), out=base[1:, 2:])
    torch.cumsum(torch.ones(4, device=dev), 0, out=base[0])
    return base


@same
def test_resize_and_set(dev):
    x = torch.arange(6.0, device=dev)
    x.resize_(2, 2)
    y = torch.empty(0, device=dev).set_(x)
    y.add_(1)
    source = torch.arange(5.0, device=dev)
    z = torch.empty(0, device=dev).set_(source.untyped_storage(), 1, (2, 2), (2, 1))
    return x, y, z, x.untyped_storage().nbytes(), y.data_ptr() == x.data_ptr()


@same
def test_view_as_another_dtype(dev):
    x = torch.tensor([1.0, -2.0], device=dev)
    bits = x.view(torch.int32)
    bits[0] = 0x40400000
    halves = torch.tensor([[1, 2, 3, 4]], dtype=torch.int16, device=dev).view(torch.int32)
    return x, bits, halves, x.view(torch.uint8).shape, raises(lambda: x[:1].view(torch.float64))


@same
def test_complex_parts_alias(dev):
    z = torch.tensor([1 + 2j, 3 - 4j], device=dev)
    z.real.mul_(10)
    z.imag[1] = 9
    torch.view_as_real(z)[0, 1] = -5
    return z, torch.view_as_real(z), z.abs()


@same
def test_split_and_unbind_write_to_the_base(dev):
    x = torch.zeros(6, 2, device=dev)
    first, second = x.split([2, 4])
    first += 1
    for k, row in enumerate(second.unbind()):
        row.fill_(k)
    x.chunk(3, 1)[-1].neg_()
    x.narrow(0, 1, 2).swapaxes(0, 1)[0] = 50
    return x


@same
def test_channels_last_survives_ops(dev):
    x = torch.arange(16.0, device=dev).view(1, 2, 2, 4).to(memory_format=torch.channels_last)
    y = nn.functional.relu(x - 3) * x
    return (
        y,
        y.is_contiguous(memory_format=torch.channels_last),
        torch.empty_like(y).stride(),
        y.contiguous().stride(),
        torch.cat([y, y], 1).stride(),
    )


@same
def test_strides_of_results_follow_the_inputs(dev):
    x = torch.arange(6.0, device=dev).view(2, 3).t()
    y = torch.arange(24.0, device=dev).view(2, 3, 4).permute(2, 0, 1)
    return x + 1, torch.ones_like(x), x.clone(), x + torch.ones(2, device=dev), y.exp(), y.sum(1), y.to(torch.int32)


@same
def test_writes_after_a_copy_do_not_leak(dev):
    x = torch.arange(4.0, device=dev)
    copies = [x.clone(), x.to(dev, copy=True), x.contiguous(), x.reshape(2, 2), x.flatten(), x.float()]
    x.add_(1)
    return copies, [c.data_ptr() == x.data_ptr() for c in copies]


@same
def test_versions_and_gradients_through_in_place_views(dev):
    x = torch.ones(4, device=dev, requires_grad=True)
    y = x * 2
    y[1:3].mul_(5)
    y[0] = 7
    y.pow(2).sum().backward()
    w = torch.ones(2, device=dev, requires_grad=True)
    z = w.exp()
    z.add_(1)
    return x.grad, y._version > 0, raises(lambda: z.sum().backward()), raises(lambda: w.add_(1))


@same
def test_expanded_targets_are_refused(dev):
    x = torch.zeros(3, 1, device=dev).expand(3, 2)
    return (
        raises(lambda: x.copy_(torch.ones(3, 2, device=dev))),
        raises(lambda: x.__setitem__(0, torch.ones(2, device=dev))),
    )


@same
def test_swapping_data_and_detached_names(dev):
    a, b = torch.zeros(2, device=dev), torch.ones(2, device=dev)
    view = a[:1]
    a.data, b.data = b.data, a.data
    a.detach().add_(5)
    view.sub_(1)
    return a, b, view


@same
def test_rolling_and_flipping_copy(dev):
    x = torch.arange(6, device=dev).view(2, 3)
    rolled, flipped, turned = x.roll(1, 1), x.flip(0, 1), x.rot90()
    x.zero_()
    return rolled, flipped, turned
