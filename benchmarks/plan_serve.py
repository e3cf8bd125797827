"""How long `gpufleet plan serve` takes, and how many configurations it rates in a second.

`python benchmarks/plan_serve.py` prints wall times from process start (median of five runs), configurations rated
inside the search, and each of them relative to a matrix product of fixed size timed in the same run, so that figures
of different machines can be compared. Commands run from bytecode, as those of an installed package do: a first run,
which is not timed, compiles it where it is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from gpufleet.api.serve_questions import serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import ServeRequest
from unit_of_work import median_s, timed_unit_s

MODEL = "llama-3.3-70b"
SLO = "ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s"
PLAN = ["plan", "serve", MODEL, "--rate", "50/s", "--in", "1000", "--out", "300", "--slo", SLO]
WITH_BYTECODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
REQUEST = ServeRequest(MODEL, 50.0, 1000, 300, SLO)


def main() -> int:
    """Print one line per figure; 1 if the command fails."""
    unit_s = timed_unit_s()
    for words in (PLAN, [*PLAN, "--flips"], ["--help"]):
        if not report_command(words, unit_s):
            return 1
    report_search("standard search (vLLM, the checkpoint's precision)", REQUEST, unit_s)
    wide = replace(REQUEST, engine="all", allow_lower_precision=True)
    report_search("wide search (all engines, fp8, nvfp4 and int4 too)", wide, unit_s)
    return 0


def report_command(words: Sequence[str], unit_s: float) -> bool:
    """Wall time of the command from process start; says what went wrong where it fails."""
    name = "gpufleet " + " ".join([*words[:2], *words[len(PLAN) :]])
    command = [sys.executable, "-m", "gpufleet", *words]
    first = subprocess.run(command, capture_output=True, text=True, check=False, env=WITH_BYTECODE)
    if first.returncode:
        print(f"{name} failed with exit code {first.returncode}: {first.stderr.strip()[:300]}", file=sys.stderr)
        return False
    seconds = median_s(lambda: subprocess.run(command, capture_output=True, check=True, env=WITH_BYTECODE))
    print(f"{name}: {seconds:.3f} s from process start, {seconds / unit_s:.1f} units")
    return True


def report_search(name: str, request: ServeRequest, unit_s: float) -> None:
    """Configurations rated by the search, and how many in a second."""
    catalog = load_catalog()
    question, _ = serve_question(request, shipped_architecture(MODEL), catalog)
    calibration = calibration_of(catalog)
    solution = solve_serve(question, calibration)
    seconds = median_s(lambda: solve_serve(question, calibration))
    print(describe(name, question, solution.num_configurations, seconds, unit_s))


def describe(name: str, question: WriterQuestion, configurations: int, seconds: float, unit_s: float) -> str:
    """One line about a search."""
    rate = configurations / seconds
    return (
        f"{name}: {configurations:,} configurations, {len(question.offers):,} offers, {seconds * 1e3:.0f} ms, "
        f"{rate:,.0f} configurations/s, {rate * unit_s:,.0f} per unit"
    )


if __name__ == "__main__":
    sys.exit(main())
