"""Answers rows of measurement files with gpufleet, as `gpufleet accuracy` asks them: one JSON object a line.

`benchmarks/against_aiconfigurator.py` starts it. A question is {"number", "kind", "cells"}.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

from gpufleet.accuracy.inference_throughput import score_throughput
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving_points import score_serving_point
from gpufleet.inputs.measurements import MeasurementRow

SCORERS = {"serving_points": score_serving_point, "inference_throughput": score_throughput}


def main() -> None:
    models = ModelFinder()
    for line in sys.stdin:
        question = json.loads(line)
        begin = time.perf_counter()
        found = answer(question["kind"], question["cells"], models)
        found |= {"number": question["number"], "seconds": time.perf_counter() - begin}
        print(json.dumps(found), flush=True)


def answer(kind: str, cells: Mapping[str, str], models: ModelFinder) -> dict[str, object]:
    """Every quantity that the row states with its range, in the units of its file; or why there is no answer."""
    found: dict[str, object] = {}
    for figure in SCORERS[kind](MeasurementRow(1, cells), kind, models).figures:
        if figure.predicted is None:
            found["reason"] = figure.reason
        else:
            found |= {figure.quantity: figure.predicted, f"{figure.quantity}_range": (figure.low, figure.high)}
    return found


if __name__ == "__main__":
    main()
