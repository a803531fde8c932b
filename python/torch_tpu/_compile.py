"""torch.compile(backend="tpu"): captured graphs through AOTAutograd, run by the eager lowerings."""

from collections.abc import Callable
from typing import Any


def tpu(gm: Any, example_inputs: list[Any], **_options: Any) -> Callable[..., Any]:
    """The backend that torch._dynamo calls with a captured graph and its inputs."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.compilers import nop

    compiler = aot_autograd(
        fw_compiler=nop,
        bw_compiler=nop,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return compiler(gm, example_inputs)
