"""The cases are about the simulator, and an op that runs on the CPU instead is a failure."""

import os

# Before the first use of the device.
os.environ.setdefault("TORCH_TPU_PLATFORM", "sim")
os.environ.setdefault("TORCH_TPU_FALLBACK", "error")
