"""What the configuration of the migration analyzer holds, whether it is valid, and what to run next.

python3 config_viewer.py                 everything; asks where there is a terminal
python3 config_viewer.py instances sets  some sections
python3 config_viewer.py --copy DIR      a copy of the files, to be edited

Needs nothing but Python 3.10 or later.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(folder) for folder in [Path(__file__).resolve().parent.parent / "src"] if folder.is_dir()]

from gpufleet.compat.classic.viewer import main

if __name__ == "__main__":
    sys.exit(main())
