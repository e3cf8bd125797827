"""The cheapest mix that survives every loss, as far as the time allows, with what is not proved.

A loss leaves u_w of x_w. Where u does not carry all buckets, the programme is told what u has to be worth and solved
again. Failures of any k machines are as many losses as there are choices: only those that kill a mix are written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from itertools import combinations_with_replacement, islice

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Loss, Mix, MixProblem
from gpufleet.optimize.mixes.balance import CARRIES, Worth, balance, balanced, carrying_worth
from gpufleet.optimize.mixes.program import PROVED_GAP, Program
from gpufleet.records import dataclass

MOST_FAILURES = 2000
NEAR = 1e-3


@dataclass(frozen=True)
class Relaxed:
    """How far limits of a problem that nothing keeps have to give way, by their names, at the least in all."""

    excess: dict[str, float]
    mix: Mix


def solve_mix(problem: MixProblem, left_s: Callable[[], float], hint: Mix | None = None) -> Mix | None:
    """The cheapest mix that the time allows, with what no mix costs less than; None where none was found.

    `left_s` tells the seconds that are left.
    """
    if not np.all(np.isfinite(problem.load_units).any(axis=1)):
        return None
    program, test, best, least = Program(problem), Survival(problem), priced(problem, hint), 0.0
    cost = program.cost()
    while (answer := program.solved(cost, left_s(), best)) is not None:
        mix = program.read(answer)
        least = max(least, mix.least_usd_per_hour)
        fatal = test.every_fatal(mix.units)
        safe = mix if not fatal else repaired(problem, mix, test)
        if safe is not None and (best is None or safe.usd_per_hour < best.usd_per_hour):
            best = safe
        if not fatal or left_s() <= 0 or (best is not None and best.usd_per_hour <= least * (1 + PROVED_GAP)):
            break
        test.write(program)
    return None if best is None else balanced(problem, replace(best, least_usd_per_hour=min(least, best.usd_per_hour)))


def priced(problem: MixProblem, mix: Mix | None) -> Mix | None:
    """A mix at what it costs here, sending included."""
    cost = None if mix is None else problem.cost_usd_per_hour(mix.machines, mix.share)
    return None if mix is None or cost is None else replace(mix, usd_per_hour=cost)


@dataclass
class Survival:
    """Which losses units survive, with the fatal ones and the worths found so far: each is tried before a new one."""

    problem: MixProblem
    losses: dict[str, Loss] = field(default_factory=dict)
    worths: list[Worth] = field(default_factory=list)
    written: set[tuple[str, int]] = field(default_factory=set)

    def every_fatal(self, units: FloatArray) -> list[tuple[Loss, Worth]]:
        """Every loss that units do not survive, with a worth that they miss then."""
        return list(self.fatal(units))

    def fatal(self, units: FloatArray) -> Iterator[tuple[Loss, Worth]]:
        """The same, one at a time."""
        for loss in (*self.problem.losses, *failures(self.problem, units)):
            worth = self.missed(loss.left(units))
            if worth is not None:
                self.losses[loss.name] = loss
                yield loss, worth

    def missed(self, left: FloatArray) -> Worth | None:
        """A worth that is missed, None where what is left carries every bucket."""
        known = next((worth for worth in self.worths if worth.is_missed(left)), None)
        if known is not None:
            return known
        found = balance(self.problem, left)
        if found.busiest <= 1 + CARRIES:
            return None
        self.worths.append(Worth(found.price, carrying_worth(self.problem, found.price)))
        return self.worths[-1]

    def write(self, program: Program) -> None:
        """Let a programme survive the fatal losses found so far, by all worths."""
        for name, loss in self.losses.items():
            for at, worth in enumerate(self.worths):
                if (name, at) not in self.written:
                    self.written.add((name, at))
                    program.survive(loss, worth)


def repaired(problem: MixProblem, mix: Mix, test: Survival) -> Mix | None:
    """The mix with units more, one at a time and the cheapest way to mend a loss, until it survives all."""
    units: FloatArray | None = mix.units
    while units is not None and (fatal := next(test.fatal(units), None)) is not None:
        units = with_unit_more(problem, units, *fatal)
    if units is None:
        return None
    machines = np.maximum(problem.machines_of(units), mix.machines)
    cost = problem.cost_usd_per_hour(machines, mix.share)
    return replace(mix, machines=machines, units=units, usd_per_hour=cost) if problem.allows(machines) else None


def with_unit_more(problem: MixProblem, units: FloatArray, loss: Loss, worth: Worth) -> FloatArray | None:
    """One unit more of the way that makes up for what a loss leaves missing at least cost; None where limits forbid."""
    missing = worth.needed - float(worth.price @ loss.left(units))
    gain = worth.price * (1 - loss.lost_ratio)
    usd_per_unit = problem.machines_per_unit * problem.usd_per_hour[problem.offer_of_way]
    with np.errstate(divide="ignore", invalid="ignore"):
        usd = np.where(gain > 0, np.ceil(missing / gain) * usd_per_unit, np.inf)
    for way in np.argsort(usd, kind="stable"):
        more = units + (np.arange(problem.num_ways) == way)
        if np.isfinite(usd[way]) and problem.allows(problem.machines_of(more)):
            return np.asarray(more)
    return None


def failures(problem: MixProblem, units: FloatArray) -> Iterator[Loss]:
    """Every choice of `spare_machines` machines of a mix, as losses of units; the first ones where there are many."""
    bought, none = [int(w) for w in np.flatnonzero(units > 0)], np.zeros(problem.num_ways)
    choices = combinations_with_replacement(bought, problem.spare_machines) if problem.spare_machines else ()
    for choice in islice(choices, MOST_FAILURES):
        lost = np.bincount(choice, minlength=problem.num_ways).astype(np.float64)
        if np.all(lost <= units):
            yield Loss(f"machines of {choice}", none, lost)


def least_relaxation(problem: MixProblem, limit_s: float) -> Relaxed | None:
    """By how much limits, quotas and shares have to give way, as little as possible; None where none of them is why.

    What counts is the sum of what each gives way relative to itself.
    """
    if not np.all(np.isfinite(problem.load_units).any(axis=1)):
        return None
    program = Program(problem, is_elastic=True)
    relative = [x * (1 / program.scale[name]) for name, x in program.excess.items()]
    answer = program.solved(program.solver.fast_sum(relative), limit_s) if relative else None
    if answer is None:
        return None
    values = answer.variable_values()
    excess = {name: float(values[x]) for name, x in program.excess.items() if values[x] > 1e-6}
    return Relaxed(excess, program.read(answer))


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
