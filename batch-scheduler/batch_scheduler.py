"""When and where jobs run that share GPUs and have deadlines.

python3 batch_scheduler.py              a week of a laboratory
python3 batch_scheduler.py --help       every word; docs/schedule.md says what they mean
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "src"))

from gpufleet.cli import main

EXAMPLE = (str(REPOSITORY / "examples" / "jobs" / "lab-week.yaml"), "--at-once")

if __name__ == "__main__":
    sys.exit(main(["schedule", *(sys.argv[1:] or EXAMPLE)]))
