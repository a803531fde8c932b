"""The half of the conformance suite that holds torch and the device: runs one test at a time, as it is told."""
