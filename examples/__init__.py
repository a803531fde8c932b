"""Models in plain PyTorch that train on `device="tpu"`."""
