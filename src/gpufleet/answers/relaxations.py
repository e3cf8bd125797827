"""What would have to give way where nothing serves, in words and figures."""

from __future__ import annotations

import math

from gpufleet.domain.slo import Limit
from gpufleet.optimize.flips import INPUT, OUTPUT, RATE
from gpufleet.optimize.helping import BUDGET, MACHINES, Help, helping_changes
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.report.words import at_least_ms, in_ms
from gpufleet.results.plan import Relaxation
from gpufleet.units import in_full

DIGITS = 3


def relaxations(question: AnyQuestion, solution: AnySolution) -> list[Relaxation]:
    """Changes after which something serves: each alone, or else the smallest two, or else objectives together."""
    return [row for found in helping_changes(question, solution) for row in rows_of(question, found)]


def rows_of(question: AnyQuestion, found: Help) -> list[Relaxation]:
    """A change of one quantity or of two."""
    who = who_serves(found)
    limits = {limit.label: limit for limit in question.demand.workload.slo.limits}
    return [
        limit_row(limits[name], limits[name].limit_s * ratio, who, len(found.by) > 1)
        if name in limits
        else other_row(question, name, ratio, found, who)
        for name, ratio in found.by.items()
    ]


def who_serves(found: Help) -> str:
    """Machines that serve, with their cost."""
    return f"{found.instance_count}x {found.offer.cloud} {found.offer.instance} (${found.usd_per_hour:,.2f}/h)"


def limit_row(limit: Limit, seconds: float, who: str, together: bool) -> Relaxation:
    """An objective that gives way."""
    return Relaxation(
        limit=limit.label,
        asked_s=limit.limit_s,
        needed_s=seconds,
        asked=in_ms(limit.limit_s),
        needed=at_least_ms(seconds),
        candidate=who,
        together=together,
    )


def other_row(question: AnyQuestion, name: str, ratio: float, found: Help, who: str) -> Relaxation:
    """Something else that gives way."""
    asked, needed = asked_and_needed(question, name, ratio, found)
    return Relaxation(limit=name, asked=asked, needed=needed, candidate=who, together=len(found.by) > 1)


def asked_and_needed(question: AnyQuestion, name: str, ratio: float, found: Help) -> tuple[str, str]:
    """What was asked of a quantity that is no objective, and what it would have to be."""
    workload, purse = question.demand.workload, question.purse.most_usd_per_hour
    if name == BUDGET:
        return f"${purse:,.2f}/h", f"${math.ceil(found.usd_per_hour * 100) / 100:,.2f}/h"
    if name == MACHINES:
        return "what can be had", f"{found.instance_count}"
    now = {RATE: workload.rate_requests_per_s, INPUT: workload.input_tokens, OUTPUT: workload.output_tokens}[name]
    unit = "/s" if name == RATE else ""
    return f"{in_full(now)}{unit}", f"{in_full(rounded_down(now / ratio))}{unit}"


def rounded_down(value: float) -> float:
    """Three digits, no more than the value.

    >>> rounded_down(1234.5), rounded_down(0.98765)
    (1230.0, 0.987)
    """
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale
