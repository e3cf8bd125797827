"""A policy as data: what `gpufleet spot --rules` wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import ValidationError

from gpufleet.ask.spot.job_shape import SpotRule, SpotRules
from gpufleet.domain.spot import NAMES, AgedHazards, DeadlineJob, SlackRules
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.records import dataclass
from gpufleet.results.base import SCHEMA_VERSION
from gpufleet.units import MB

WHAT, EXPECTED, LARGEST_BYTES = "a policy", "what 'gpufleet spot ... --rules FILE' writes", 5 * MB


@dataclass(frozen=True, eq=False)
class HeldRules:
    """A policy that can be followed: thresholds, the job at its worst, and the tick."""

    rules: SlackRules
    worst: DeadlineJob
    tick_s: float


def read_spot_rules(path: str | Path) -> HeldRules:
    """The policy of a file."""
    content = parse_json(read_text_file(path, WHAT, LARGEST_BYTES), f"{WHAT} {str(path)!r}", EXPECTED)
    try:
        return held_rules(SpotRules.model_validate(content))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{str(path)!r} is not {WHAT}: {place}: {first['msg']}", expected=EXPECTED) from error
    except (ValueError, IndexError) as error:
        raise UsageError(f"{str(path)!r} is not {WHAT}: {error}", expected=EXPECTED) from error


def held_rules(written: SpotRules) -> HeldRules:
    """Thresholds as a table again; rules of spot that is there are those of waiting where none is written."""
    if written.schema_version != SCHEMA_VERSION:
        raise ValueError(f"its form is {written.schema_version!r}, this is {SCHEMA_VERSION!r}")
    if not written.tick_s > 0 or not written.deadline_s > 0:
        raise ValueError("tick_s and deadline_s are times")
    edges = sorted({rule.from_s for rule in written.rules})
    if not edges or edges[0] != 0:
        raise ValueError("no rule begins at 0 s")
    left_s = np.array([point.left_s for point in written.rules[0].on_demand_below])
    slack = np.zeros((len(NAMES), 2 * len(edges), len(left_s)))
    for rule in written.rules:
        state = edges.index(rule.from_s) + len(edges) * rule.has_machine
        slack[NAMES.index(rule.running), state] = thresholds_of(rule, left_s)
    nobody = tuple(0.0 for _ in edges)
    rules = SlackRules(AgedHazards(written.tick_s, tuple(edges[1:]), nobody, nobody), left_s, slack)
    worst = DeadlineJob(written.work_s, written.deadline_s, written.restart_s, written.loss_s)
    return HeldRules(rules, worst, written.tick_s)


def thresholds_of(rule: SpotRule, left_s: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """The thresholds of a rule, at the same times left as those of the others."""
    if [point.left_s for point in rule.on_demand_below] != left_s.tolist() or len(left_s) < 2:
        raise ValueError("rules have thresholds at the same two times left or more")
    return [point.slack_s for point in rule.on_demand_below]
