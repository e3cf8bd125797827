"""What each term is worth: errors on models left out of the fit, with all terms and without each in turn.

`python tools/calibrate terms --measurements measurements` fits every engine again without each term, predicts each
model by a fit that did not see it, and writes `terms.csv` beside the other tables of what was left out.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tools.calibrate.engines import FILES, GROUPINGS, ROOT, WAS_LEFT_OUT, error_percent, left_out_residuals
from tools.calibrate.eras import Residual
from tools.calibrate.serving_rows import AS_SHIPPED, NO_LIMITS, Point, Substitutes, read_points, unchanged

from gpufleet.domain.calibration import Formulas
from gpufleet.domain.engine import EngineProfile

TABLE = "terms.csv"
EVERYTHING = "all terms"
SHOWN = ("tpot", "ttft", "rate")
ALIKE = 1e6


@dataclass(frozen=True)
class Term:
    """A term by its name, and what stands in its place when it is off."""

    name: str
    instead: Substitutes = AS_SHIPPED
    point: Callable[[Point], Point] = unchanged


def without(*names: str) -> Substitutes:
    """Engines that lack these figures."""

    def lacking(engine: EngineProfile) -> EngineProfile:
        return replace(engine, constants={n: f for n, f in engine.constants.items() if n not in names})

    return Substitutes(engine=lacking)


def at_zero(name: str) -> Substitutes:
    """Engines with a figure of nothing."""

    def lacking(engine: EngineProfile) -> EngineProfile:
        own = {name: replace(engine.constants[name], value=0.0)} if name in engine.constants else {}
        return replace(engine, constants={**engine.constants, **own})

    return Substitutes(engine=lacking)


def quantising_apart(engine: EngineProfile) -> EngineProfile:
    """An engine that fuses no quantisation."""
    return replace(engine, fused_quantisation={})


def choosing_evenly(formulas: Formulas) -> Formulas:
    """Experts that are all as popular."""
    shape = replace(formulas.routing.popularity_shape, value=ALIKE)
    return replace(formulas, routing=replace(formulas.routing, popularity_shape=shape))


def of_hosts_alike(formulas: Formulas) -> Formulas:
    """Hosts of older machines that take as long as those of newer ones."""
    steps = formulas.engine_steps
    return replace(formulas, engine_steps=replace(steps, older_host_ratio=replace(steps.older_host_ratio, value=1.0)))


def at_its_defaults(point: Point) -> Point:
    """A row whose engine was started without limits and mixed chunks; its KV format stays."""
    return replace(point, limits=NO_LIMITS)


def never_held_back(point: Point) -> Point:
    """A row whose engine looks for requests in every step and gathers none."""
    return replace(point, client=replace(point.client, poll_interval_steps=1.0, gather_steps=0.0, batch_wait_steps=0.0))


def without_first_wave(point: Point) -> Point:
    """A row of clients that never started together."""
    return replace(point, client=replace(point.client, waves=np.inf))


TERMS = (
    Term(EVERYTHING),
    Term("experts differ in popularity", Substitutes(formulas=choosing_evenly)),
    Term("small kernels inside measured calls are not added", without("position_passes", "router_passes")),
    Term("quantisation fused by engine and format", Substitutes(engine=quantising_apart)),
    Term("shared experts beside routed ones", without("shared_beside_tokens")),
    Term("expert kernels by version", without("general_experts")),
    Term("tiles of few rows an expert are full", without("few_rows_ratio")),
    Term("hosts of older machines are as fast", Substitutes(formulas=of_hosts_alike)),
    Term("steps with prompts wait for their launches (vLLM)", without("busy_launch_ratio")),
    Term("launches of prompts take what those of single tokens do", Substitutes(held=("prefill_launch_ratio",))),
    Term("no rank waits for the slowest", Substitutes(held=("reduction_overhead_s",))),
    Term("requests reach all ranks at once", Substitutes(held=("rank_overhead_s",))),
    Term("older engines reduce by NCCL", without("reduces_by_nccl")),
    Term("clients stay in step (SGLang)", at_zero("synchrony_ratio")),
    Term("clients start together", point=without_first_wave),
    Term("engines look for requests or gather them", point=never_held_back),
    Term("limits and mixed chunks that scripts start engines with", point=at_its_defaults),
)


def rows_of(term: Term, points: Sequence[Point]) -> list[dict[str, object]]:
    """Errors by quantity where a term is off."""
    changed = [term.point(p) for p in points]
    residuals = left_out_residuals(changed, GROUPINGS["model"](changed), instead=term.instead)
    of = {q: [r for r in residuals if r.quantity == q] for q in SHOWN}
    return [{"term": term.name, "quantity": q, **errors_of(group)} for q, group in of.items()]


def errors_of(residuals: Sequence[Residual]) -> Mapping[str, object]:
    """How many figures, and how far they are off."""
    errors = error_percent(residuals)
    return {
        "rows": len(errors),
        "median_error_percent": round(float(np.median(errors)), 2),
        "mean_error_percent": round(float(errors.mean()), 2),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this command."""
    parser.add_argument("--measurements", type=Path, default=ROOT / "measurements")


def run(arguments: argparse.Namespace) -> None:
    """Fit without each term in turn and write the table."""
    points = read_points([arguments.measurements / name for name in FILES])
    rows = [row for term in TERMS for row in rows_of(term, points)]
    with (WAS_LEFT_OUT / TABLE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(str(value) for value in row.values()))
