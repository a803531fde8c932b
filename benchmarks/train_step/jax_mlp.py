"""The MLP's train step in plain JAX. Imports no torch."""

import jax
import jax.numpy as jnp
from jax_common import cross_entropy, linear, sgd_step, zeros_like
from sizes import MLP, MLP_WIDTHS

# The linear layers' numbers in the nn.Sequential, between flattening and activations.
LAYERS = range(1, 2 * len(MLP_WIDTHS) + 2, 2)


def first_state(arrays):
    """A torch state_dict, as numpy, with its matrices the way JAX multiplies: (inputs, outputs)."""
    p = {name: jnp.array(value.T if value.ndim == 2 else value) for name, value in arrays.items()}
    return p, zeros_like(p), {}


def loss(p, buffers, images, labels):
    x = images.reshape(len(images), -1)
    for layer in LAYERS:
        x = linear(p, f"network.{layer}", x)
        if layer != LAYERS[-1]:
            x = jax.nn.relu(x)
    return cross_entropy(x, labels), buffers


def train_step():
    return sgd_step(loss, MLP)
