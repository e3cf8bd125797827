"""What any plan says of itself twice: a file in which the two differ was edited, or was never ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.errors import UsageError
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.results.plan import ServePlan, ServicePlan
from gpufleet.results.rented import RentedMachines
from gpufleet.results.seal import SEAL, unlike_its_seal
from gpufleet.results.training import TrainingDeployment

WITHOUT_SEAL = "does not say whether it was edited: an older release wrote it, or other than with -o json"
CLOSE_RATIO, MOST_NAMED = 1e-6, 3
AT_LEAST_ONE = ("instance_count", "replicas", "gpus_per_replica", "gpus_per_instance")
NOT_NEGATIVE = ("price_per_instance_usd_per_hour", "usd_per_hour", "idle_gpus", "batch", "largest_batch")
Planned = ServePlan | FleetPlan | JobPlan


def refuse_edited(path: str, content: Mapping[str, Any], hint: str) -> None:
    """Refuse a file that is not what its seal says, before anything is made of what it holds."""
    if SEAL in content and (places := unlike_its_seal(content)):
        more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
        named = f"{', '.join(places[:MOST_NAMED])}{more}"
        raise UsageError(f"the plan {path!r} was edited: {named} is not what was written with the rest", hint=hint)


def refuse_contradictions(path: str, plan: Planned, hint: str) -> None:
    """Refuse a plan whose figures contradict each other, sealed or not."""
    if told := next(contradictions(plan), None):
        raise UsageError(f"the plan {path!r} contradicts itself: {told}", hint=hint)


def seal_notes(path: str, content: Mapping[str, Any]) -> list[str]:
    """What a page says of a file without a seal."""
    return [] if SEAL in content else [f"Warning: the plan {path!r} {WITHOUT_SEAL}."]


def contradictions(plan: Planned) -> Iterator[str]:
    """What of a plan cannot be true beside the rest of it."""
    for one in plan.every_plan if isinstance(plan, FleetPlan) else (plan,):
        for number, rented in enumerate(one.deployments, 1):
            told = f"answer {number} of {one.model}"
            yield from (f"{told}: {wrong}" for wrong in wrong_of(rented))
            if isinstance(one, ServePlan):
                yield from (f"{told}: {wrong}" for wrong in beside_its_prices(one, rented))
        if isinstance(one, ServicePlan) and not one.rate_requests_per_s > 0:
            yield f"{one.model} is asked for {one.rate_requests_per_s:g} requests/s"


def wrong_of(rented: RentedMachines) -> Iterator[str]:
    """Figures of machines that nobody has, and a cost that is not price times machines."""
    for name in AT_LEAST_ONE:
        if not getattr(rented, name) > 0:
            yield f"{name} is {getattr(rented, name):g}"
    for name in NOT_NEGATIVE:
        if not getattr(rented, name, 0.0) >= 0:
            yield f"{name} is {getattr(rented, name):g}"
    ranks = getattr(rented, "ranks", None)
    if ranks is not None and min(ranks.model_dump().values()) < 1:
        yield f"a replica has {min(ranks.model_dump().values())} ranks of a kind"
    if isinstance(rented, (RentedJob, TrainingDeployment)):
        return
    if is_all_the_time(rented) and not near(rented.usd_per_hour, hourly_usd(rented)):
        yield (
            f"{rented.instance_count} machines at ${rented.price_per_instance_usd_per_hour:g}/h are not "
            f"${rented.usd_per_hour:g}/h"
        )


def is_all_the_time(rented: RentedMachines) -> bool:
    """Whether all machines are paid for, by one price, at every hour."""
    return getattr(rented, "quiet_instance_count", None) is None and not getattr(rented, "steady_instance_count", 0)


def hourly_usd(rented: RentedMachines) -> float:
    """Price times machines   [USD/h]."""
    return rented.instance_count * rented.price_per_instance_usd_per_hour


def beside_its_prices(plan: ServePlan, rented: RentedMachines) -> Iterator[str]:
    """A price that is not what the plan says that it rests on."""
    known = [] if plan.basis is None else plan.basis.prices
    offer = (rented.cloud, rented.region, rented.instance, rented.price_kind)
    prices = [p.usd_per_hour for p in known if (p.cloud, p.region, p.instance, p.price_kind) == offer]
    if prices and not any(near(rented.price_per_instance_usd_per_hour, usd) for usd in prices):
        said, known_usd = rented.price_per_instance_usd_per_hour, prices[0]
        yield f"${said:g}/h for {rented.instance}, where the plan rests on ${known_usd:g}/h"


def near(one: float, other: float) -> bool:
    """Whether two figures are one, but for the last digits."""
    return math.isclose(one, other, rel_tol=CLOSE_RATIO, abs_tol=CLOSE_RATIO)
