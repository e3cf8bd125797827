"""Figures of a service on machines of one offer: latency, capacity and cost, with ranges and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gpufleet.answers.plan_parts import machines_of
from gpufleet.catalog.run_ranges import CLOSED_FORM, load_run_ranges, range_of
from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Limit, metric_of, statistic_of
from gpufleet.optimize.certainty import sure_requests_per_s
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import PricedPlacement, effective_price
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.size import (
    QUANTILES,
    Capacity,
    Operation,
    binding_limit,
    operate_beyond,
    rate_within_limits,
)
from gpufleet.performance.uncertainty import Bounds
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.pricing.owned import running_usd_per_hour
from gpufleet.pricing.unit_cost import usd_per_request
from gpufleet.results.base import Figure

ONE_REPLICA, ONE_MACHINE, LEAST_REPLICAS, SPARE = "one_replica", "one_machine", "least_replicas", "spare_machines"
BUSY_RATIO = 0.8


def rented_service(
    priced: PricedPlacement,
    found: Capacity,
    demand: Demand,
    running: Operation,
    latency: dict[str, Figure],
    bounds: Mapping[str, Bounds],
    grade: str,
) -> dict[str, Any]:
    """What every deployment of a service says of machines, price, latency and cost."""
    p, offer, rate, has_quiet = priced.placement, priced.offer, demand.workload.rate_requests_per_s, bool(demand.quiet)
    capacity = capacity_figure(found, p.row, p.replicas, bounds, grade)
    return {
        **machines_of(offer, p.instance, p.instance_count, priced.steady),
        "price_age_ratio": priced.age_ratio,
        "doubt_ratio": p.doubt_ratio,
        "interruption": offer.interruption,
        "price_per_gpu_usd_per_hour": effective_price(offer) / p.instance.gpu_count,
        "gpus_per_replica": p.gpus_per_replica,
        "replicas": p.replicas,
        "idle_gpus": p.idle_gpus,
        "batch": running.batch,
        "latency": latency,
        "requests_per_s_capacity": capacity,
        "sure_requests_per_s": p.replicas * sure_requests_per_s(found, p.row),
        "load_ratio": running.requests_per_s / float(found.sustained_requests_per_s[p.row]),
        "headroom_ratio": capacity.value / rate - 1,
        "usd_per_hour": priced.usd_per_hour,
        "busy_usd_per_hour": priced.busy_usd_per_hour if has_quiet else None,
        "busy_time_ratio": demand.busy_ratio,
        "quiet_instance_count": priced.quiet_instance_count if has_quiet else None,
        "quiet_steady_instance_count": priced.quiet_steady_count if has_quiet else None,
        "steady_instance_count": priced.steady_count(p.instance_count),
        "steady_price_per_instance_usd_per_hour": None if priced.steady is None else effective_price(priced.steady),
        "running_usd_per_hour": running_usd(offer, p.instance_count),
        "usd_per_month": float(usd_per_month(priced.usd_per_hour)),
        "usd_per_request": float(usd_per_request(priced.usd_per_hour, demand.mean_requests_per_s)),
        "is_tight": is_tight(latency, demand.workload.slo.limits, capacity, rate),
        "grade": grade,
    }


def running_usd(offer: Offer, machines: int) -> float | None:
    """What machines of one's own cost while they run, purchase aside; None of rented ones   [USD/h]."""
    return None if offer.own_power is None else machines * running_usd_per_hour(offer.own_power)


def latency_figures(
    found: Capacity,
    row: int,
    running: Operation,
    bounds: Mapping[str, Bounds],
    grade: str,
    floors_s: Mapping[str, float],
) -> dict[str, Figure]:
    """Every objective with its range, the replica solved again with slower and with faster steps.

    Steps f times as slow serve the rate as the expected ones serve f times the rate, f times later. Where they do not
    sustain it, queues grow and nothing is known above. Beside that lies what measured queues are off by. `bounds` and
    `floors_s` are by metric.
    """
    beside = load_run_ranges()[CLOSED_FORM]
    step = bounds["latency"]
    late = operate_beyond(found, row, running.requests_per_s * float(step.high_ratio[row]))
    early = operate_beyond(found, row, running.requests_per_s * float(step.low_ratio[row])) or running
    figures = {}
    for label, value in running.objectives_s.items():
        metric = metric_of(label)
        own, floor_s, queues = bounds[metric], floors_s.get(metric, 0.0), range_of(beside, metric, statistic_of(label))
        slow_s = math.inf if late is None else late.objectives_s[label] * float(own.high_ratio[row])
        fast_s = early.objectives_s[label] * float(own.low_ratio[row])
        low, high = (value * queues.end(end / value) if 0 < end < math.inf else end for end in (fast_s, slow_s))
        low = max(low, floor_s)
        figures[label] = Figure.between(value, "s", low, high, grade)
    return in_order(figures)


def in_order(figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """The same, no range of a percentile beginning or ending below that of a lower one.

    >>> wide, narrow = (Figure(value=1.0, unit="s", low=0.5, high=high) for high in (3.0, 2.0))
    >>> in_order({"ttft.p99": narrow, "ttft.p50": wide})["ttft.p99"].high
    3.0
    """
    found = dict(figures)
    percentiles = [label for label in figures if QUANTILES[statistic_of(label)] is not None]
    percentiles.sort(key=lambda label: (label.rsplit(".", 1)[0], QUANTILES[statistic_of(label)]))
    for lower, higher in pairwise(percentiles):
        if lower.rsplit(".", 1)[0] == higher.rsplit(".", 1)[0]:
            found[higher] = found[higher].no_lower(found[lower])
    return found


def capacity_figure(found: Capacity, row: int, replicas: int, bounds: Mapping[str, Bounds], grade: str) -> Figure:
    """The rates at which replicas keep every limit: as expected, with slow steps (low) and with fast ones (high)."""
    slow = {metric: float(b.high_ratio[row]) for metric, b in bounds.items()}
    fast = {metric: float(b.low_ratio[row]) for metric, b in bounds.items()}
    as_expected = dict.fromkeys(bounds, 1.0)
    value, low, high = (
        replicas * rate_within_limits(found, row, late["latency"], late) for late in (as_expected, slow, fast)
    )
    return Figure(value=value, unit="1/s", low=min(low, value), high=max(high, value), grade=grade)


def first_to_break(latency: Mapping[str, Figure], limits: Sequence[Limit]) -> str | None:
    """The objective that the high end of its range takes furthest beyond its limit, None where all hold there."""
    used = {x.label: (latency[x.label].high or latency[x.label].value) / x.limit_s for x in limits}
    worst = max(used, key=lambda label: used[label], default=None)
    return worst if worst is not None and used[worst] > 1 else None


def bought_for(found: Capacity, demand: Demand, p: Placement, latency: Mapping[str, Figure]) -> str:
    """What decides how much is bought: a least number, one machine, or what forbids more load on a replica.

    Of one machine with much to spare, also beside others that may fail, it is the objective that breaks at the high
    end of its range, where one does.
    """
    needed_replicas = demand.planned_requests_per_s / float(found.requests_per_s[p.row])
    if p.instance_count > 1 and math.ceil(needed_replicas) < demand.min_replicas:
        return LEAST_REPLICAS
    if p.instance_count > 1 and is_one_machine_enough(needed_replicas, demand, p):
        return first_to_break(latency, demand.workload.slo.limits) or SPARE
    if p.instance_count == 1 and needed_replicas < BUSY_RATIO * p.replicas:
        enough = ONE_REPLICA if p.replicas == 1 else ONE_MACHINE
        return first_to_break(latency, demand.workload.slo.limits) or enough
    return binding_limit(found, p.row)


def is_one_machine_enough(needed_replicas: float, demand: Demand, p: Placement) -> bool:
    """Whether all others are there because some may fail: one would carry the rate, and not be busy."""
    may_fail = demand.spare_machines > 0 or demand.zones > 1
    return may_fail and needed_replicas < BUSY_RATIO * p.replicas / p.instance_count


def is_tight(latency: Mapping[str, Figure], limits: Sequence[Limit], carried: Figure, requests_per_s: float) -> bool:
    """Whether the high end of any objective's range breaks its limit, or the rate is more than is carried there."""
    has_no_end = any(figure.high == math.inf for figure in latency.values()) and (carried.low or 0.0) < requests_per_s
    return has_no_end or any((latency[limit.label].high or 0.0) > limit.limit_s for limit in limits)
