"""The parts of tools/dev. Standard library only: this code runs before anything is installed."""
