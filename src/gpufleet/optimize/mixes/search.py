"""The cheapest mix that survives every loss, as far as the effort allows, with what is not proved.

A loss leaves u_w of x_w. Where u does not carry all buckets, the programme is told what u has to be worth and solved
again. Failures of any k machines are as many losses as there are choices: only those that kill a mix are written down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.balance import mix_of, on_units
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.greedy import keeps_all, mended, rounded, searched
from gpufleet.optimize.mixes.program import PROVED_GAP, Answer, Program, is_installed
from gpufleet.optimize.mixes.relaxation import relaxation
from gpufleet.optimize.mixes.survival import Survival, every_fatal, every_missed, every_pair, survivals
from gpufleet.records import dataclass

NEAR, GIVES_WAY, OF_EFFORT_TO_END = 1e-3, 1e-6, 0.1
ITERATIONS_PER_WORTH = 10
"""What finding a worth and telling it takes, in iterations of the solver."""
LEAST_SAVING_USD_PER_HOUR = 1e-4
"""What a mix has to save over a known one to be looked for."""


@dataclass(frozen=True)
class Relaxed:
    """How far limits of a problem that nothing keeps have to give way, by their names, at the least in all."""

    excess: dict[str, float]
    mix: Mix


@dataclass(frozen=True)
class Sought:
    """A mix, where one was found, and what no mix costs less than."""

    mix: Mix | None
    least_usd_per_hour: float


def solve_mix(problem: MixProblem, effort: Effort) -> Mix | None:
    """The cheapest mix that the effort allows, with what no mix costs less than; None where none was found."""
    return cheaper_mix(problem, effort).mix


def cheaper_mix(problem: MixProblem, effort: Effort, known_usd_per_hour: float = np.inf) -> Sought:
    """A mix that costs less than one that is known, or any, as far as the effort allows.

    The known one need not carry the loads of this problem. Without OR-Tools, or where no mix is known and the programme
    has no answer, the best that is rounded and searched.
    """
    relaxed, most = relaxation(problem), known_usd_per_hour - LEAST_SAVING_USD_PER_HOUR
    least = np.inf if relaxed is None else relaxed.usd_per_hour + problem.least_sending_usd_per_hour
    if relaxed is None or least >= most:
        return Sought(None, known_usd_per_hour)
    tests, best = survivals(problem), None
    if is_installed() and not effort.is_over:
        best, least = programmed(problem, tests, effort, least, most)
    if best is None and not (is_installed() and np.isfinite(most)):
        best = rounded(problem, relaxed, tests)
    if best is None or best.usd_per_hour > most:
        return Sought(None, known_usd_per_hour if least >= most else least)
    least = min(least, best.usd_per_hour)
    return Sought(replace(best, least_usd_per_hour=least, is_greedy=best.is_greedy and not is_installed()), least)


def cheaper(one: Mix | None, other: Mix | None) -> Mix | None:
    """The cheaper of two mixes, the first of equals."""
    there = [mix for mix in (one, other) if mix is not None]
    return min(there, key=lambda mix: mix.usd_per_hour, default=None)


def programmed(
    problem: MixProblem,
    tests: list[Survival],
    effort: Effort,
    least: float,
    most_usd_per_hour: float,
) -> tuple[Mix | None, float]:
    """The best mix by the programme, and what none costs less than, from what was known to be the least.

    `most_usd_per_hour`: dearer mixes are not looked for; where there is no cheaper one, none costs less than that.
    Where there are losses, units are chosen by worths alone, since these then say more than the split of the buckets.
    """
    has_losses = bool(problem.losses or problem.spare_machines)
    program, best = Program(problem, is_split=not has_losses, most_usd_per_hour=most_usd_per_hour), None
    for loss, worth in every_pair(problem, tests) if has_losses else ():
        program.survive(loss, worth)
    cost, effort = program.cost(), effort.part(1 - OF_EFFORT_TO_END)
    if np.isfinite(most_usd_per_hour):
        program.hold(cost, most_usd_per_hour)
    while not is_proved(best, least):
        answer = program.solved(cost, effort, best)
        if answer is None:
            least = most_usd_per_hour if program.is_infeasible and best is None else least
            break
        least = max(least, answer.least)
        tests = tests if has_losses else survivals(on_units(problem, answer.units))
        best = cheaper(best, surviving(problem, tests, answer, is_searched=not effort.is_over or best is None))
        if not survive_more(program, tests, answer.units, effort) or effort.is_over:
            break
    return best, least


def is_proved(mix: Mix | None, least: float) -> bool:
    """Whether no mix costs less, but for rounding."""
    return mix is not None and mix.usd_per_hour <= least * (1 + PROVED_GAP)


def surviving(problem: MixProblem, tests: list[Survival], answer: Answer, *, is_searched: bool) -> Mix | None:
    """An answer as a mix, with units more where it does not survive everything; None where that is forbidden."""
    if next(every_fatal(problem, tests, answer.units), None) is None:
        return mix_of(problem, answer.machines, answer.units)
    if not is_searched:
        return None
    units = searched(problem, answer.units, tests, is_whole=True)
    if units is None or not keeps_all(problem, units):
        return None
    return mix_of(problem, problem.machines_of(units), units)


def survive_more(program: Program, tests: list[Survival], units: FloatArray, effort: Effort) -> bool:
    """Whether a programme was told of losses that these units do not survive, and of all worths that they miss."""
    fatal = list(every_fatal(program.problem, tests, units))
    missed = every_missed(program.problem, tests, units) if fatal else ()
    told = sum(program.survive(loss, worth) for loss, worth in (*fatal, *missed))
    effort.spend(told * ITERATIONS_PER_WORTH)
    return told > 0


def least_relaxation(problem: MixProblem, effort: Effort) -> Relaxed | None:
    """By how much limits, quotas and shares have to give way, as little as possible; None where none of them is why.

    What counts is the sum of what each gives way relative to itself, then the cost.
    """
    if not np.all(np.isfinite(problem.load_units).any(axis=1)):
        return None
    program, tests = Program(problem, is_elastic=True), survivals(problem)
    relative = program.given_way()
    least = None if relative is None else elastic_answer(program, tests, relative, effort)
    if least is None:
        return None
    program.hold(relative, least.objective)
    answer = elastic_answer(program, tests, program.cost(), effort) or least
    units = mended(problem, answer.units, tests)
    machines = np.maximum(answer.machines, problem.machines_of(units))
    return Relaxed(excess(problem, machines), mix_of(problem, machines, units))


def elastic_answer(program: Program, tests: list[Survival], objective: Any, effort: Effort) -> Answer | None:
    """The least objective of what survives everything, as far as the effort allows."""
    last = None
    while (answer := program.solved(objective, effort)) is not None:
        last = answer
        if not survive_more(program, tests, answer.units, effort) or effort.is_over:
            break
    return last


def excess(problem: MixProblem, machines: FloatArray) -> dict[str, float]:
    """By how much machines break limits, by name, each in its own unit; how many can be had are "machines <offer>"."""
    over = {f"machines {o}": float(n) for o, n in enumerate(machines - problem.most_machines)}
    over |= {limit.name: float(limit.beyond(machines[None, :])[0]) for limit in problem.limits}
    over |= {share.name: float(share.beyond(machines[None, :])[0]) for share in problem.shares}
    return {name: beyond for name, beyond in over.items() if beyond > GIVES_WAY}


def nearest_shares(problem: MixProblem, effort: Effort) -> tuple[float, Mix] | None:
    """The least tolerance of all shares that some mix keeps, and the cheapest that does; None where shares are not why.

    Halved down to a thousandth of the whole, as far as the effort allows.
    """
    low, high, best = 0.0, 1.0, solve_mix(with_tolerance(problem, 1.0), effort)
    while best is not None and high - low > NEAR and not effort.is_over:
        middle = (low + high) / 2
        found = solve_mix(with_tolerance(problem, middle), effort)
        low, high, best = (low, middle, found) if found is not None else (middle, high, best)
    return None if best is None else (high, best)


def with_tolerance(problem: MixProblem, tolerance_ratio: float) -> MixProblem:
    """The problem with another tolerance of its shares."""
    return replace(problem, shares=tuple(replace(s, tolerance_ratio=tolerance_ratio) for s in problem.shares))
