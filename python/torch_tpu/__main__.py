"""`python -m torch_tpu`."""

import sys

from torch_tpu._cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
