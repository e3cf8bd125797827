"""Where a service stands whose users are far apart.

python3 multi_region_analyzer.py              a chat model for users in Europe and the United States
python3 multi_region_analyzer.py --help       every word; docs/regions.md says what they mean
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "src"))

from gpufleet.cli import main

LOAD = ("--rate", "50/s", "--in", "1000", "--out", "200")
EXAMPLE = ("llama-3.1-8b", *LOAD, "--users", "eu=60%,us=40%")

if __name__ == "__main__":
    sys.exit(main(["regions", *(sys.argv[1:] or EXAMPLE)]))
