"""The examples run from the checkout, on the simulator, where an op without a lowering is an error."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TORCH_TPU_PLATFORM", "sim")
os.environ["TORCH_TPU_FALLBACK"] = "error"
