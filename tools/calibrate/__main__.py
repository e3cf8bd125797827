"""`python tools/calibrate COMMAND`: fits the shipped calibration to measurements."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.calibrate import (
    engines,
    kernels,
    network_latency,
    own_stacks,
    price_drift,
    run_ranges,
    runtimes,
    spot_availability,
    terms,
    training_memory,
)

COMMANDS = {
    "engines": engines,
    "kernels": kernels,
    "network-latency": network_latency,
    "own-stacks": own_stacks,
    "price-drift": price_drift,
    "run-ranges": run_ranges,
    "runtimes": runtimes,
    "spot-availability": spot_availability,
    "terms": terms,
    "training-memory": training_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/calibrate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, description=module.__doc__))
    arguments = parser.parse_args()
    COMMANDS[arguments.command].run(arguments)


if __name__ == "__main__":
    main()
