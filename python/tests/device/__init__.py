"""Tests of torch.tpu and what torch does around a device."""
