"""Which law of scaling costs least over a week and keeps its limits.

python3 auto_scaling_analyzer.py              a chat model under a week of traffic, laws as documented
python3 auto_scaling_analyzer.py --help       every word; docs/autoscale.md says what they mean
"""

import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "src"))

from gpufleet.cli import main

LOAD = ("llama-3.1-8b", "--rate", "40/s", "--in", "1000", "--out", "200", "--slo", "ttft.p95<1s,tpot.p95<50ms")
WEEK = ("--trace", str(REPOSITORY / "examples" / "week.csv"), "--documented")


def example() -> int:
    """Plan for the busiest hour, then play the laws on a week."""
    with tempfile.TemporaryDirectory() as folder:
        plan = str(Path(folder) / "plan.json")
        return main(["plan", "serve", *LOAD, "--out-file", plan]) or main(["autoscale", plan, *WEEK])


if __name__ == "__main__":
    sys.exit(main(["autoscale", *sys.argv[1:]]) if sys.argv[1:] else example())
