"""What the JAX models share: the jitted train step with its state donated. Imports no torch."""

import jax
import jax.numpy as jnp

LEARNING_RATE = 1e-3
BETA1, BETA2 = 0.9, 0.999
EPSILON, DECAY = 1e-8, 0.01


def linear(p, name, x):
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def cross_entropy(logits, targets):
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()


def zeros_like(p):
    return {name: jnp.zeros_like(value) for name, value in p.items()}


def adamw(p, g, m, v, count):
    m = m + (1 - BETA1) * (g - m)
    v = BETA2 * v + (1 - BETA2) * g * g
    size = (LEARNING_RATE / (1 - BETA1**count)).astype(p.dtype)
    root = jnp.sqrt(1 - BETA2**count).astype(p.dtype)
    p = p * (1 - LEARNING_RATE * DECAY) - size * m / (jnp.sqrt(v) / root + EPSILON)
    return p, m, v


def adamw_state(p):
    return p, zeros_like(p), zeros_like(p), jnp.zeros((), jnp.float32)


def adamw_step(loss):
    """The jitted step of loss(p, inputs, targets): (state, inputs, targets) -> (state, loss)."""

    def step(state, inputs, targets):
        p, m, v, count = state
        value, gradients = jax.value_and_grad(loss)(p, inputs, targets)
        count = count + 1
        made = {name: adamw(p[name], gradients[name], m[name], v[name], count) for name in p}
        p, m, v = ({name: parts[i] for name, parts in made.items()} for i in range(3))
        return (p, m, v, count), value

    return jax.jit(step, donate_argnums=0)


def sgd_step(loss, of):
    """As above, of a loss(p, buffers, inputs, targets) that gives new buffers too, as `of` (sizes.py) trains."""

    def step(state, inputs, targets):
        p, momentum, buffers = state
        (value, buffers), g = jax.value_and_grad(loss, has_aux=True)(p, buffers, inputs, targets)
        momentum = {name: of.momentum * momentum[name] + g[name] + of.decay * p[name] for name in p}
        p = {name: p[name] - of.learning_rate * momentum[name] for name in p}
        return (p, momentum, buffers), value

    return jax.jit(step, donate_argnums=0)


def allow_donation(platform):
    """Has JAX donate on a platform that it does not know: its list holds the ones it was made for."""
    from jax._src.interpreters import mlir

    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)
