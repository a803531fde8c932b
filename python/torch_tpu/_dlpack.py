"""DLPack. A tpu buffer has no address that another library could read, so it is exported as a copy on the host.

`torch.from_dlpack` of a tpu tensor is the exception: torch can share it with itself.
"""

import functools
from typing import Any

import torch

_CPU = (1, 0)


def _export(tensor: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """The host copy to export, when that is what the consumer may have."""
    if options.get("copy") is False:
        raise BufferError("Can't export a tpu tensor without copying it: its memory is not addressable from the host.")
    wanted = options.get("dl_device")
    if wanted is not None and (int(wanted[0]), int(wanted[1])) != _CPU:
        raise BufferError(f"Can't export a tpu tensor to DLPack device {tuple(map(int, wanted))}: only to the CPU.")
    options.update(copy=None, dl_device=None)
    return tensor.cpu()


def install() -> None:
    """Wraps torch's functions; for other devices what they do stays the same."""
    tensor_class: Any = torch.Tensor
    if getattr(tensor_class.__dlpack__, "_torch_tpu", False):
        return
    export, device_of, load, pack = (
        tensor_class.__dlpack__,
        tensor_class.__dlpack_device__,
        torch.utils.dlpack.from_dlpack,
        torch.utils.dlpack.to_dlpack,
    )

    @functools.wraps(export)
    def __dlpack__(self: torch.Tensor, **options: Any) -> object:
        if self.device.type != "tpu":
            return export(self, **options)
        return export(_export(self, options), **options)

    @functools.wraps(device_of)
    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type != "tpu":
            return device_of(self)
        return (torch.utils.dlpack.DLDeviceType.kDLCPU, 0)

    @functools.wraps(load)
    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> torch.Tensor:
        if not isinstance(ext_tensor, torch.Tensor) or ext_tensor.device.type != "tpu":
            return load(ext_tensor, device=device, copy=copy)
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        target = ext_tensor.device if device is None else torch.device(device)
        if copy is False and target != ext_tensor.device:
            raise ValueError(f"cannot move DLPack tensor from device {ext_tensor.device} to {target} without copying.")
        shared = ext_tensor.detach()
        return shared.to(target, copy=True) if copy else shared.to(target)

    @functools.wraps(pack)
    def to_dlpack(tensor: torch.Tensor) -> object:
        return pack(tensor.cpu() if tensor.device.type == "tpu" else tensor)

    __dlpack__._torch_tpu = True  # type: ignore[attr-defined]
    tensor_class.__dlpack__, tensor_class.__dlpack_device__ = __dlpack__, __dlpack_device__
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = to_dlpack
