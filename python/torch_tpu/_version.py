"""The version; the same as the Cargo workspace's, which `tools/dev lint` checks."""

__version__ = "0.1.0"
