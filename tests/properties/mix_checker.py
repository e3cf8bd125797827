"""What a mix must keep, checked bucket by bucket and machine by machine; it shares nothing with what makes mixes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ortools.linear_solver import pywraplp

from gpufleet.domain.mix import Loss, Mix, MixProblem

NEARLY = 3e-6


def violations(problem: MixProblem, mix: Mix) -> list[str]:
    """Everything that is wrong, in words."""
    units, machines = [float(x) for x in mix.units], [float(x) for x in mix.machines]
    return [
        *wrong_splits(problem, mix, units),
        *wrong_counts(problem, units, machines),
        *broken_limits(problem, units, machines),
        *(f"dies of {what}" for what, left in losses(problem, units) if not carries(problem, left)),
        *wrong_costs(problem, mix, machines),
    ]


def wrong_splits(problem: MixProblem, mix: Mix, units: Sequence[float]) -> Iterator[str]:
    """Buckets that are not carried whole, at ways that can, by units that are there."""
    used = [0.0] * len(units)
    for b, row in enumerate(mix.share):
        if abs(sum(row) - 1) > NEARLY or min(row) < -NEARLY:
            yield f"bucket {b} is shared {row}"
        for w, share in enumerate(row):
            if share > 0:
                used[w] += float(share) * float(problem.load_units[b, w])
                if problem.service_of_way[w] != problem.service_of_bucket[b]:
                    yield f"bucket {b} goes to another service's way {w}"
    for w, busy in enumerate(used):
        if busy > units[w] * (1 + NEARLY) + NEARLY:
            yield f"way {w} has {units[w]} units for {busy}"


def wrong_counts(problem: MixProblem, units: Sequence[float], machines: Sequence[float]) -> Iterator[str]:
    """What is not whole, or has no machine to stand on, or cannot be had."""
    if any(x < 0 or x != round(x) for x in (*units, *machines)):
        yield "something is not whole"
    held = [0.0] * len(machines)
    for w, count in enumerate(units):
        held[problem.offer_of_way[w]] += count * float(problem.machines_per_unit[w])
    for o, count in enumerate(machines):
        if held[o] > count + NEARLY:
            yield f"{held[o]} machines of units on {count} of offer {o}"
        if count > problem.most_machines[o]:
            yield f"{count} machines of offer {o}"


def broken_limits(problem: MixProblem, units: Sequence[float], machines: Sequence[float]) -> Iterator[str]:
    """Limits, shares and least replicas that are not kept."""
    for limit in problem.limits:
        total = sum(float(a) * n for a, n in zip(limit.per_machine, machines, strict=True))
        if not limit.least - NEARLY <= total <= limit.most + NEARLY:
            yield f"{limit.name} is {total}"
    for share in problem.shares:
        weights = [float(a) * n for a, n in zip(share.weight, machines, strict=True)]
        part = sum(w for w, is_in in zip(weights, share.is_member, strict=True) if is_in)
        members = [float(w) for w, is_in in zip(share.weight, share.is_member, strict=True) if is_in]
        bought = [float(share.weight[o]) for o, n in enumerate(machines) if n > 0 and share.is_member[o]]
        one = max(bought) if bought else min(members, default=0.0)
        allowed = one if share.tolerance_ratio is None else share.tolerance_ratio * sum(weights)
        if abs(part - share.share_ratio * sum(weights)) > allowed + NEARLY * max(1.0, sum(weights)):
            yield f"{share.name} is {part} of {sum(weights)}"
    for service, least in enumerate(problem.least_replicas):
        own = [w for w in range(len(units)) if problem.service_of_way[w] == service]
        if sum(units[w] * float(problem.replicas_per_unit[w]) for w in own) < least - NEARLY:
            yield f"service {service} has too few replicas"


def losses(problem: MixProblem, units: Sequence[float]) -> Iterator[tuple[str, list[float]]]:
    """Units that are left after every loss, and after any choice of machines that fail."""
    yield "nothing", list(units)
    for loss in problem.losses:
        yield loss.name, [left_of(loss, w, count) for w, count in enumerate(units)]
    if problem.spare_machines:
        each = [w for w, count in enumerate(units) for _ in range(min(int(count), problem.spare_machines))]
        for gone in set(itertools.combinations(each, min(problem.spare_machines, len(each)))):
            yield f"machines of {gone}", [count - gone.count(w) for w, count in enumerate(units)]


def left_of(loss: Loss, way: int, count: float) -> float:
    """Units of a way that a loss leaves."""
    return max(math.floor(count * (1 - float(loss.lost_ratio[way])) + 1e-9) - float(loss.lost_units[way]), 0.0)


def carries(problem: MixProblem, units: Sequence[float]) -> bool:
    """Whether a linear programme splits all buckets over these units."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    busy = [solver.Constraint(0.0, float(count) * (1 + NEARLY)) for count in units]
    for b in range(problem.num_buckets):
        whole = solver.Constraint(1.0, 1.0)
        for w, count in enumerate(units):
            load = float(problem.load_units[b, w])
            if math.isfinite(load) and count > 0:
                share = solver.NumVar(0.0, 1.0, "")
                whole.SetCoefficient(share, 1.0)
                busy[w].SetCoefficient(share, load)
    return bool(solver.Solve() == pywraplp.Solver.OPTIMAL)


def wrong_costs(problem: MixProblem, mix: Mix, machines: Sequence[float]) -> Iterator[str]:
    """Costs that do not add up, and what is proved beyond them."""
    usd = usd_of(problem, machines)
    if abs(usd - mix.usd_per_hour) > NEARLY * max(1.0, usd):
        yield f"costs {usd}, not {mix.usd_per_hour}"
    if mix.least_usd_per_hour > usd * (1 + NEARLY):
        yield f"proves {mix.least_usd_per_hour} of {usd}"


def usd_of(problem: MixProblem, machines: Sequence[float]) -> float:
    """What machines cost, and leaving those of today."""
    return sum(
        count * float(problem.usd_per_hour[o])
        + max(float(problem.machines_today[o]) - count, 0.0) * float(problem.leaving_usd_per_hour[o])
        for o, count in enumerate(machines)
    )


def cheapest_usd(problem: MixProblem, most_units: int) -> float:
    """The cheapest of all counts of units up to so many each that keep everything; infinite where none does.

    For problems of whole machines without limits from below: no machine is bought that holds no unit.
    """
    counts = itertools.product(range(most_units + 1), repeat=problem.num_ways)
    priced = sorted((usd_of(problem, machines_of(problem, units)), units) for units in counts)
    return next((usd for usd, units in priced if keeps(problem, units)), math.inf)


def machines_of(problem: MixProblem, units: Sequence[float]) -> list[float]:
    """Machines that hold so many units."""
    held = [0.0] * problem.num_offers
    for w, count in enumerate(units):
        held[problem.offer_of_way[w]] += count * float(problem.machines_per_unit[w])
    return [float(math.ceil(x - 1e-9)) for x in held]


def keeps(problem: MixProblem, units: Sequence[float]) -> bool:
    """Whether units keep everything, none of them where they could carry nothing."""
    if any(count > 0 and not any(map(math.isfinite, problem.load_units[:, w])) for w, count in enumerate(units)):
        return False
    machines = machines_of(problem, units)
    if [*wrong_counts(problem, units, machines), *broken_limits(problem, units, machines)]:
        return False
    return all(carries(problem, left) for _, left in losses(problem, units))
