"""The cheapest mix that survives every loss, as far as the time allows, with what is not proved.

A loss leaves u_w of x_w. Where u does not carry all buckets, the programme is told what u has to be worth and solved
again. Failures of any k machines are as many losses as there are choices: only those that kill a mix are written down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.balance import balanced, mix_of
from gpufleet.optimize.mixes.greedy import keeps_all, mended, rounded, searched
from gpufleet.optimize.mixes.program import PROVED_GAP, Answer, Program, is_installed
from gpufleet.optimize.mixes.relaxation import relaxation
from gpufleet.optimize.mixes.survival import Survival, every_fatal, every_missed, every_pair, survivals
from gpufleet.records import dataclass

NEAR, GIVES_WAY, OF_TIME_TO_END = 1e-3, 1e-6, 0.1


@dataclass(frozen=True)
class Relaxed:
    """How far limits of a problem that nothing keeps have to give way, by their names, at the least in all."""

    excess: dict[str, float]
    mix: Mix


def solve_mix(problem: MixProblem, left_s: Callable[[], float], hint: Mix | None = None) -> Mix | None:
    """The cheapest mix that the time allows, with what no mix costs less than; None where none was found.

    `left_s` tells the seconds that are left. `hint`: a mix that keeps everything. Without OR-Tools or time the best
    that is found at once; where clouds have shares that takes longest, and the programme begins without it.
    """
    relaxed, tests, hint = relaxation(problem), survivals(problem), priced(problem, hint)
    if relaxed is None:
        return None
    has_losses = bool(problem.losses or problem.spare_machines)
    is_programmed = is_installed() and left_s() > 0
    needs_start = (hint is None or has_losses) and not (problem.shares and is_programmed)
    best = cheaper(hint, rounded(problem, relaxed, tests) if needs_start else None)
    least = relaxed.usd_per_hour + problem.least_sending_usd_per_hour
    if is_programmed:
        best, least = programmed(problem, tests, left_s, best, least)
    if best is None:
        return None
    is_greedy = best.is_greedy and not is_installed()
    even = balanced(problem, best) if best is hint else best
    return replace(even, least_usd_per_hour=min(least, best.usd_per_hour), is_greedy=is_greedy)


def priced(problem: MixProblem, mix: Mix | None) -> Mix | None:
    """A mix at what it costs here, sending included."""
    return mix and replace(mix, usd_per_hour=problem.cost_usd_per_hour(mix.machines, mix.share))


def cheaper(one: Mix | None, other: Mix | None) -> Mix | None:
    """The cheaper of two mixes, the first of equals."""
    there = [mix for mix in (one, other) if mix is not None]
    return min(there, key=lambda mix: mix.usd_per_hour, default=None)


def programmed(
    problem: MixProblem, tests: list[Survival], left_s: Callable[[], float], best: Mix | None, least: float
) -> tuple[Mix | None, float]:
    """The best mix by the programme, and what none costs less than, from those known before.

    Where there are losses, units are chosen by worths alone, since these then say more than the split of the buckets.
    """
    has_losses = bool(problem.losses or problem.spare_machines)
    program = Program(problem, is_split=not has_losses, most_usd_per_hour=np.inf if best is None else best.usd_per_hour)
    for loss, worth in every_pair(problem, tests) if has_losses else ():
        program.survive(loss, worth)
    cost, kept_s = program.cost(), OF_TIME_TO_END * left_s()
    while not is_proved(best, least):
        answer = program.solved(cost, left_s() - kept_s, best)
        if answer is None:
            break
        least = max(least, answer.least)
        best = cheaper(best, surviving(problem, tests, answer, is_searched=left_s() > kept_s or best is None))
        if left_s() <= kept_s or not survive_more(program, tests, answer.units):
            break
    return best, least


def is_proved(mix: Mix | None, least: float) -> bool:
    """Whether no mix costs less, but for rounding."""
    return mix is not None and mix.usd_per_hour <= least * (1 + PROVED_GAP)


def surviving(problem: MixProblem, tests: list[Survival], answer: Answer, *, is_searched: bool) -> Mix | None:
    """An answer as a mix, with units more where it does not survive everything; None where that is forbidden."""
    if next(every_fatal(problem, tests, answer.units), None) is None:
        return mix_of(problem, answer.machines, answer.units, 0.0)
    if not is_searched:
        return None
    units = searched(problem, answer.units, tests, is_whole=True)
    if units is None or not keeps_all(problem, units):
        return None
    return mix_of(problem, problem.machines_of(units), units, 0.0)


def survive_more(program: Program, tests: list[Survival], units: FloatArray) -> bool:
    """Whether a programme was told of losses that these units do not survive, and of all worths that they miss."""
    fatal = list(every_fatal(program.problem, tests, units))
    missed = every_missed(program.problem, tests, units) if fatal else ()
    return sum(program.survive(loss, worth) for loss, worth in (*fatal, *missed)) > 0


def least_relaxation(problem: MixProblem, limit_s: float) -> Relaxed | None:
    """By how much limits, quotas and shares have to give way, as little as possible; None where none of them is why.

    What counts is the sum of what each gives way relative to itself, then the cost.
    """
    if not np.all(np.isfinite(problem.load_units).any(axis=1)):
        return None
    program, tests = Program(problem, is_elastic=True), survivals(problem)
    relative = program.given_way()
    least = None if relative is None else elastic_answer(program, tests, relative, limit_s)
    if least is None:
        return None
    program.hold(relative, least.objective)
    answer = elastic_answer(program, tests, program.cost(), limit_s) or least
    units = mended(problem, answer.units, tests)
    machines = np.maximum(answer.machines, problem.machines_of(units))
    return Relaxed(excess(problem, machines), mix_of(problem, machines, units, 0.0))


def elastic_answer(program: Program, tests: list[Survival], objective: Any, limit_s: float) -> Answer | None:
    """The least objective of what survives everything, as far as the time allows."""
    last = None
    while (answer := program.solved(objective, limit_s - program.spent_s)) is not None:
        last = answer
        if not survive_more(program, tests, answer.units) or program.spent_s >= limit_s:
            break
    return last


def excess(problem: MixProblem, machines: FloatArray) -> dict[str, float]:
    """By how much machines break limits, by name, each in its own unit; how many can be had are "machines <offer>"."""
    over = {f"machines {o}": float(n) for o, n in enumerate(machines - problem.most_machines)}
    over |= {limit.name: float(limit.beyond(machines[None, :])[0]) for limit in problem.limits}
    over |= {share.name: float(share.beyond(machines[None, :])[0]) for share in problem.shares}
    return {name: beyond for name, beyond in over.items() if beyond > GIVES_WAY}


def nearest_shares(problem: MixProblem, left_s: Callable[[], float]) -> tuple[float, Mix] | None:
    """The least tolerance of all shares that some mix keeps, and the cheapest that does; None where shares are not why.

    Halved down to a thousandth of the whole, as far as the time allows.
    """
    low, high, best = 0.0, 1.0, solve_mix(with_tolerance(problem, 1.0), left_s)
    while best is not None and high - low > NEAR and left_s() > 0:
        middle = (low + high) / 2
        found = solve_mix(with_tolerance(problem, middle), left_s)
        low, high, best = (low, middle, found) if found is not None else (middle, high, best)
    return None if best is None else (high, best)


def with_tolerance(problem: MixProblem, tolerance_ratio: float) -> MixProblem:
    """The problem with another tolerance of its shares."""
    return replace(problem, shares=tuple(replace(s, tolerance_ratio=tolerance_ratio) for s in problem.shares))
