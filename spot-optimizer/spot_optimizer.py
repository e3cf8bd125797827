"""What a job with a deadline costs on spot, and by which rules it is on time.

python3 spot_optimizer.py              48 hours of work within 72 on an A10G
python3 spot_optimizer.py --help       every word; docs/spot.md says what they mean
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "src"))

from gpufleet.cli import main

EXAMPLE = ("--work", "48h", "--deadline", "72h", "--machine", "aws:g5.xlarge")

if __name__ == "__main__":
    sys.exit(main(["spot", *(sys.argv[1:] or EXAMPLE)]))
