"""Runs the same JAX programs on the simulated v6e:2x2 and on JAX's own CPU, and compares the numbers.

    python jax_on_shim.py path/to/libpjrt_cpu_shim.so

Needs `pip install jax`, and the CPU plugin where the shim finds it (or in TORCH_TPU_CPU_PLUGIN). Exits non-zero when a
number differs by more than the tolerance of its check, when a device is not what it should be, or when a side fails.
"""

import json
import os
import subprocess
import sys
import tempfile

SIDES = {
    "shim": {"JAX_PLATFORMS": "tpu_sim", "TORCH_TPU_SIM_TOPOLOGY": "v6e:2x2"},
    "cpu": {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
}


def programs():
    """Name, tolerance, function of no arguments, for every check."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    x = jnp.linspace(-2.0, 2.0, 64, dtype=jnp.float32).reshape(8, 8)

    def loss(w):
        hidden = jnp.tanh(x @ w)
        return jnp.mean(jax.nn.softmax(hidden @ w.T, axis=-1) ** 2)

    mesh = Mesh(np.array(jax.devices()), ("d",))
    spec = PartitionSpec("d")
    sharded = jax.device_put(jnp.arange(16.0), NamedSharding(mesh, spec))

    def summed(block):
        return block * jax.lax.psum(block.sum(), "d") + jax.lax.axis_index("d")

    donating = jax.jit(lambda a, b: (a + b, (a * b).sum()), donate_argnums=0)

    yield "jit", 1e-6, lambda: jax.jit(lambda v: jnp.sin(v) @ v.T + v.sum())(x)
    yield "grad", 1e-6, lambda: jax.grad(loss)(x * 0.1)
    yield "scan", 1e-6, lambda: jax.lax.scan(lambda c, v: (c * 0.5 + v, c.sum()), x[0], x)[1]
    yield "random_bits", 0, lambda: jax.random.bits(jax.random.key(7), (32,)).astype(jnp.float32)
    yield "random_normal", 1e-5, lambda: jax.random.normal(jax.random.key(3), (4, 5))
    yield "random_permutation", 0, lambda: jax.random.permutation(jax.random.key(1), 17)
    yield "cholesky", 1e-5, lambda: jnp.linalg.cholesky(x @ x.T + 10 * jnp.eye(8))
    yield "donation", 1e-6, lambda: donating(x + 1, x)[0]
    yield "sharded_jit", 1e-6, lambda: jax.jit(lambda v: (v * v).sum() + v)(sharded)
    yield "shard_map_psum", 1e-6, lambda: jax.shard_map(summed, mesh=mesh, in_specs=spec, out_specs=spec)(sharded)


def run_side(side, result):
    import jax
    import numpy as np

    devices = jax.devices()
    assert len(devices) == 4, devices
    if side == "shim":
        assert {d.device_kind for d in devices} == {"TPU v6 lite"}, devices
        assert [tuple(d.coords) for d in devices] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
        assert devices[0].memory_stats()["bytes_limit"] == 33546041344
        assert jax.default_backend() == "tpu_sim"
    values = {name: np.asarray(run()).tolist() for name, _, run in programs()}
    if side == "shim":
        before = devices[0].memory_stats()["bytes_in_use"]
        held = jax.device_put(np.zeros(1 << 20, np.float32), devices[0])
        held.block_until_ready()
        assert devices[0].memory_stats()["bytes_in_use"] == before + (4 << 20)
        del held
        assert devices[0].memory_stats()["bytes_in_use"] == before
    with open(result, "w") as file:
        json.dump(values, file)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--side":
        run_side(sys.argv[2], sys.argv[3])
        return 0
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    import numpy as np

    shim = os.path.abspath(sys.argv[1])
    values = {}
    with tempfile.TemporaryDirectory() as folder:
        for side, settings in SIDES.items():
            env = {**os.environ, **settings}
            if side == "shim":
                env["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"tpu_sim:{shim}"
            result = os.path.join(folder, side)
            subprocess.run([sys.executable, __file__, "--side", side, result], env=env, check=True)
            with open(result) as file:
                values[side] = json.load(file)
    # The tolerances come from the list of programs, which can be read without running any.
    os.environ.update(SIDES["cpu"])
    bad = 0
    for name, tolerance, _ in programs():
        ours, theirs = (np.asarray(values[side][name]) for side in ("shim", "cpu"))
        same = ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        error = np.abs(ours - theirs).max() if ours.shape == theirs.shape else float("nan")
        print(f"{'same' if same else 'DIFFERENT':10} {name:20} largest difference {error:.3g}")
        bad += not same
    print(f"{len(values['cpu']) - bad} of {len(values['cpu'])} programs give the same numbers")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
