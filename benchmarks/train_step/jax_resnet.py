"""ResNet-18's train step in plain JAX, with channels last, as JAX's own models have them. Imports no torch."""

import jax
import jax.numpy as jnp
from jax_common import cross_entropy, linear, sgd_step, zeros_like
from sizes import RESNET, RESNET_BLOCKS


def first_state(arrays):
    """A torch state_dict, as numpy, with its weights the way JAX takes them, and the running statistics."""
    p, buffers = {}, {}
    for name, value in arrays.items():
        order = {4: (2, 3, 1, 0), 2: (1, 0)}.get(value.ndim)
        p[name] = jnp.array(value.transpose(order) if order else value)
        # The weights of one dimension are those of the batch normalizations.
        if name.endswith(".weight") and value.ndim == 1:
            norm = name.removesuffix(".weight")
            buffers[norm] = (jnp.zeros_like(p[name]), jnp.ones_like(p[name]))
    return p, zeros_like(p), buffers


def convolve(p, name, x, stride=1):
    kernel = p[f"{name}.weight"]
    edge = kernel.shape[0] // 2
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), ((edge, edge), (edge, edge)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normalize(p, buffers, name, x):
    mean = x.mean((0, 1, 2))
    variance = jnp.square(x - mean).mean((0, 1, 2))
    count = x.size // x.shape[-1]
    old_mean, old_variance = buffers[name]
    unbiased = variance * (count / (count - 1))
    buffers[name] = (0.9 * old_mean + 0.1 * mean, 0.9 * old_variance + 0.1 * unbiased)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def block(p, buffers, name, x, stride):
    y = jax.nn.relu(normalize(p, buffers, f"{name}.norm1", convolve(p, f"{name}.conv1", x, stride)))
    y = normalize(p, buffers, f"{name}.norm2", convolve(p, f"{name}.conv2", y))
    if f"{name}.shortcut.0.weight" in p:
        x = normalize(p, buffers, f"{name}.shortcut.1", convolve(p, f"{name}.shortcut.0", x, stride))
    return jax.nn.relu(y + x)


def loss(p, buffers, images, labels):
    buffers = dict(buffers)
    # The batches are those of torch, with channels first.
    x = convolve(p, "network.stem.0", images.transpose(0, 2, 3, 1))
    x = jax.nn.relu(normalize(p, buffers, "network.stem.1", x))
    number = 0
    for stage, count in enumerate(RESNET_BLOCKS):
        for place in range(count):
            x = block(p, buffers, f"network.blocks.{number}", x, 2 if stage > 0 and place == 0 else 1)
            number += 1
    return cross_entropy(linear(p, "network.head", x.mean((1, 2))), labels), jax.lax.stop_gradient(buffers)


def train_step():
    return sgd_step(loss, RESNET)
