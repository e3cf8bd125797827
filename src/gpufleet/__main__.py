"""`python -m gpufleet` is the command `gpufleet`."""

import sys

from gpufleet.cli import main

sys.exit(main())
