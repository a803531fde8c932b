"""Writes the StableHLO of the GPT-2 train step in plain JAX, bfloat16 weights and states, lowered for a TPU.

python jax_program.py FILE
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train_step"))

import jax
import jax.numpy as jnp
from jax_gpt import shapes_of, train_step
from sizes import GPT2


def main():
    p = shapes_of(GPT2, jnp.bfloat16)
    batch = jax.ShapeDtypeStruct((GPT2.batch, GPT2.length), jnp.int32)
    state = (p, p, p, jax.ShapeDtypeStruct((), jnp.float32))
    lowered = train_step(GPT2).trace(state, batch, batch).lower(lowering_platforms=("tpu",))
    Path(sys.argv[1]).write_text(lowered.as_text())


if __name__ == "__main__":
    main()
