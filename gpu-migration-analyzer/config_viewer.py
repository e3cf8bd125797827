"""What the configuration of the migration analyzer holds, whether it is valid, and what to run next.

python3 config_viewer.py                 everything; asks where there is a terminal
python3 config_viewer.py instances sets  some sections
python3 config_viewer.py --copy DIR      a copy of the files, to be edited

Needs nothing but Python 3.10 or later.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path[:0] = [str(folder) for folder in [Path(__file__).resolve().parent.parent / "src"] if folder.is_dir()]
if sys.version_info < (3, 10):  # noqa: UP036 (whoever runs this file may have any Python)
    sys.stderr.write(f"error: Python 3.10 or later is needed, found {sys.version_info[0]}.{sys.version_info[1]}\n")
    sys.exit(2)
if find_spec("gpufleet") is None:
    sys.stderr.write("error: the folder 'src' of the repository is missing beside this one; copy both of them\n")
    sys.exit(2)

from gpufleet.compat.classic.viewer import main

if __name__ == "__main__":
    sys.exit(main())
