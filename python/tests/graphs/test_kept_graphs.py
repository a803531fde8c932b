"""What AOTAutograd makes of a graph is kept between processes, and computes the same there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, math, torch, torch_tpu
from torch._dynamo.utils import counters
from torch_tpu import _buckets, cache
from torch._higher_order_ops.scan import scan

_buckets.PADDING = math.nan
seen = []
original = _buckets.Padded.of
_buckets.Padded.of = staticmethod(lambda module: seen.append(original(module)) or seen[-1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.LayerNorm(4)).to("tpu")
fast = torch.compile(model, backend="tpu")
x = torch.randn(3, 4, device="tpu")
out = []
for _ in range(2):
    loss = fast(x).square().sum()
    out += [loss.item(), *(g.sum().item() for g in torch.autograd.grad(loss, list(model.parameters())))]
softmax = torch.compile(lambda x: (x.softmax(0) * x.shape[0]).sum(0) + x[-1])
with torch.no_grad():
    for n in (3, 5, 6, 7, 9, 12, 13):
        out += softmax(torch.linspace(-1, 1, 4 * n).view(n, 4).to("tpu")).tolist()
holding = torch.compile(lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device))
out += holding(x).flatten().tolist()
running = torch.compile(lambda x: scan(lambda c, y: (c * 0.5 + y, c + y), torch.zeros_like(x[0]), x)[1])
out += running(x).flatten().tolist()
found = counters["aot_autograd"]
names = ("autograd_cache_hit", "autograd_cache_miss", "autograd_cache_saved", "autograd_cache_bypass")
print(json.dumps({"out": out, "padded": [p is not None for p in seen], "misses": cache.stats()["misses"],
                  **{name: found[name] for name in names}}))
"""


def run(folder: Path, **env: str) -> dict:
    kept = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "graphs"), "TORCH_TPU_CACHE_DIR": str(folder / "programs")}
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **kept, **env})
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("without", [{"TORCH_TPU_CACHE_DIR": ""}, {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}])
def test_a_second_process_traces_no_graph_again(tmp_path: Path, without: dict) -> None:
    first, second = run(tmp_path), run(tmp_path)
    # Of the model one, and two of the function whose lengths differ; not those with a tensor and with a scan.
    assert first["autograd_cache_saved"] == second["autograd_cache_hit"] == 3
    assert second["autograd_cache_miss"] == 1 and second["misses"] == 0
    assert first["padded"] == second["padded"] and any(first["padded"])
    # Where nothing is to be kept, nothing is.
    third = run(tmp_path, **without)
    assert third["autograd_cache_hit"] == third["autograd_cache_saved"] == 0
    assert first["out"] == second["out"] == third["out"]
