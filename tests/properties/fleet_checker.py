"""The cheapest machines for several services by another solver: each sent as it comes, machines shared by replicas.

It takes what a replica sustains and what a machine costs as facts, and shares nothing with what makes mixes: no offer
is left out but a dearer region of the same machine type, no layout is chosen before, and CP-SAT counts whole replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ortools.sat.python import cp_model

from gpufleet.api.serve_questions import Prepared
from gpufleet.optimize.market import effective_price

PARTS, CENTS = 1_000_000, 1_000_000
DETERMINISTIC_S = 2.0


class Fleet(NamedTuple):
    """What the cheapest fleet costs, and what none costs less than   [USD/h]."""

    usd_per_hour: float
    least_usd_per_hour: float


class Stand(NamedTuple):
    """Replicas of one size that a machine type may hold: of which service, on how many GPUs, how much one carries."""

    service: int
    gpus: int
    requests_per_s: float


def cheapest_fleet(services: Sequence[Prepared]) -> Fleet:
    """The cheapest fleet, as far as CP-SAT proves it in a fixed amount of work."""
    model = cp_model.CpModel()
    carried: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in services]
    cost = []
    for gpus, usd, stands in machine_types(services):
        most = 1 + max(math.ceil(planned(services[s.service]) / s.requests_per_s) for s in stands)
        machines = model.new_int_var(0, most * len(services), "")
        held = []
        for stand in stands:
            replicas = model.new_int_var(0, most * 8, "")
            held.append(stand.gpus * replicas)
            carried[stand.service].append((math.floor(stand.requests_per_s * PARTS), replicas))
        model.add(sum(held) <= gpus * machines)
        cost.append(round(usd * CENTS) * machines)
    for service, of_service in zip(services, carried, strict=True):
        model.add(sum(rate * n for rate, n in of_service) >= math.floor(planned(service) * PARTS))
    model.minimize(sum(cost))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_deterministic_time = 1, DETERMINISTIC_S
    status = solver.solve(model)
    found = solver.objective_value / CENTS if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else math.inf
    return Fleet(found, solver.best_objective_bound / CENTS)


def planned(service: Prepared) -> float:
    """The rate that capacity is bought for."""
    demand = service.question.demand
    return demand.workload.rate_requests_per_s * (1 + demand.headroom_ratio)


def machine_types(services: Sequence[Prepared]) -> Iterator[tuple[int, float, list[Stand]]]:
    """GPUs of each machine type, its cheapest price, and the best replicas of each service and size that it holds."""
    usd: dict[tuple[str, str], float] = {}
    for offer in (o for service in services for o in service.question.offers):
        key = offer.cloud, offer.instance
        usd[key] = min(usd.get(key, math.inf), effective_price(offer))
    for key, price in sorted(usd.items()):
        instance = next(i for s in services for i in s.question.instances if (i.cloud, i.name) == key)
        stands: dict[tuple[int, int], float] = {}
        for at, service in enumerate(services):
            copies, rates = service.solution.copies, service.solution.found.requests_per_s
            for row in copies.on(instance) if instance in service.question.instances else ():
                size = at, int(copies.num_devices[row])
                stands[size] = max(stands.get(size, 0.0), float(rates[row]))
        held = [Stand(*size, rate) for size, rate in stands.items() if rate > 0]
        if held:
            yield int(instance.gpu_count), price, held
