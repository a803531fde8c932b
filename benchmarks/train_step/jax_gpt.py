"""The GPT's train step in plain JAX: a pytree of arrays, jit, the state donated. Imports no torch."""

import jax
import jax.numpy as jnp
from jax_common import adamw_state, adamw_step, cross_entropy, linear
from sizes import Config


def parameters_of(arrays):
    """A torch state_dict, as numpy, with its matrices the way JAX multiplies: (inputs, outputs)."""
    made = {}
    for name, value in arrays.items():
        linear = value.ndim == 2 and not name.startswith(("tokens", "positions"))
        made[name] = jnp.array(value.T if linear else value)
    return made


def shapes_of(config, dtype):
    """The parameters' shapes only, for a program that is compiled and not run."""
    wide, of = config.width, lambda *shape: jax.ShapeDtypeStruct(shape, dtype)
    made = {"tokens.weight": of(config.vocabulary, wide), "positions.weight": of(config.length, wide)}
    for layer in range(config.layers):
        for name, size in (("qkv", (wide, 3 * wide)), ("out", (wide, wide)), ("up", (wide, 4 * wide))):
            made[f"blocks.{layer}.{name}.weight"] = of(*size)
            made[f"blocks.{layer}.{name}.bias"] = of(size[1])
        made[f"blocks.{layer}.down.weight"] = of(4 * wide, wide)
        made[f"blocks.{layer}.down.bias"] = of(wide)
        for name in ("norm1", "norm2"):
            made[f"blocks.{layer}.{name}.weight"] = of(wide)
            made[f"blocks.{layer}.{name}.bias"] = of(wide)
    made["norm.weight"], made["norm.bias"] = of(wide), of(wide)
    made["head.weight"] = of(wide, config.vocabulary)
    return made


def norm(p, name, x):
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    normal = ((wide - mean) * jax.lax.rsqrt(variance + 1e-5)).astype(x.dtype)
    return normal * p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(p, name, x, heads):
    batch, length, width = x.shape
    parts = jnp.split(linear(p, f"{name}.qkv", x), 3, axis=-1)
    q, k, v = (t.reshape(batch, length, heads, width // heads) for t in parts)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // heads) ** -0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    scores = jnp.where(causal, scores.astype(jnp.float32), -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    return linear(p, f"{name}.out", jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))


def loss(p, tokens, targets, config):
    x = p["tokens.weight"][tokens] + p["positions.weight"]
    for layer in range(config.layers):
        name = f"blocks.{layer}"
        x = x + attention(p, name, norm(p, f"{name}.norm1", x), config.heads)
        up = linear(p, f"{name}.up", norm(p, f"{name}.norm2", x))
        x = x + linear(p, f"{name}.down", jax.nn.gelu(up, approximate=True))
    return cross_entropy((norm(p, "norm", x) @ p["head.weight"]).astype(jnp.float32), targets)


def first_state(arrays):
    return adamw_state(parameters_of(arrays))


def train_step(config=None):
    """The jitted step: (state, tokens, targets) -> (state, loss)."""
    config = config or Config()
    return adamw_step(lambda p, tokens, targets: loss(p, tokens, targets, config))
