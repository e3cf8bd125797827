"""`spot` of a service: what is on spot, on demand and spare, so that all machines are nearly always ready."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.figures import spread_figure, spread_of
from gpufleet.answers.played_on_spot import drawn_figure
from gpufleet.api.envelope import in_full
from gpufleet.api.plan_basis import request_of
from gpufleet.api.plan_changes import recorded
from gpufleet.api.plan_files import notes_on_file
from gpufleet.api.scaled_plans import ScaledPlan, one_plan, scaled_plan, start_of_machine
from gpufleet.api.spoken import spoken
from gpufleet.ask.spot.job_shape import SpotMarketRow
from gpufleet.ask.spot.markets import markets_of
from gpufleet.ask.spot.markets_answer import AskedMarkets, MarketPrices, alone_at, market_row
from gpufleet.ask.spot.service_answer import InTime, ready_shares, service_play
from gpufleet.ask.spot.service_shape import SpotServicePlan, SpotServicePlay, ZonesPlay
from gpufleet.ask.spot.supply import service_supply
from gpufleet.ask.spot.words import DEFAULT_TARGET, SpotRequest
from gpufleet.ask.spot.work import origin_of_zones, times
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot_services import ServicePolicy
from gpufleet.errors import UsageError
from gpufleet.optimize.spot_services import (
    PlayedPolicies,
    ServiceTarget,
    SpotAndOnDemand,
    ZoneSupply,
    is_on_frontier,
    play_policies,
    told_policies,
)
from gpufleet.questions.words import refuse_out_of_range, words_of
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.plan import ServePlan
from gpufleet.units import MINUTE

MOST_MARKETS, MOST_FEWER = 6, 2
MOST_SERVICE_MACHINES = 50
ALONE = "one machine that serves: nothing answers while it is gone or starts; keep it, or serve from two"
OF_JOBS = (
    "deadline_s", "work_s", "machine", "machines", "checkpoint_write_s", "checkpoint_every_s", "reserve_s",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SpotService:
    """A service as it was understood: its plan, so many machines, and how long one takes to start."""

    plan: ServePlan
    scaled: ScaledPlan | None
    num_machines: int
    start_s: Spread
    start_grade: str
    notes: tuple[str, ...]


def why_stays(num_machines: int) -> str:
    """Why a service of so many machines stays on demand whatever spot costs, if so."""
    return ALONE if num_machines == 1 else ""


def target_of(asked: SpotRequest) -> float:
    """The share of time in which all machines are to be ready, said or not."""
    return DEFAULT_TARGET if asked.target is None else asked.target


def plan_spot_service(
    request: SpotRequest | str | PathLike[str] | None = None, *, catalog: Catalog | None = None, **said: Any
) -> SpotServicePlan:
    """How a service runs on spot so that all machines of its plan are ready for the target share of time.

    `request`: the file of a plan of `plan serve`, or a `SpotRequest`; words of it as keywords.
    """
    asked = request if isinstance(request, SpotRequest) else spoken(SpotRequest, request, said)
    refuse_out_of_range(asked)
    refuse_words_of_jobs(asked)
    tables = load_catalog() if catalog is None else catalog
    service = service_of(asked, tables)
    answer = service.plan.answer
    there = replace(asked, regions=asked.regions or regions_of(service.plan))
    found = markets_of(there, [f"{answer.cloud}:{answer.instance}"], tables)
    supply = service_supply(asked, service.num_machines, service.start_s.expected)
    return in_full(answered(asked, service, supply, found), tables, asked)


def refuse_words_of_jobs(asked: SpotRequest) -> None:
    """Refuse what only a job has."""
    rows = {row.field: row for row in words_of(SpotRequest).values()}
    said = [rows[name].flag for name in OF_JOBS if name in asked.said]
    if said:
        raise UsageError(
            "the file is the plan of a service, which runs on and has no deadline; its machines are those of the plan",
            found=", ".join(said),
            expected="--target, --zones, --restart and where it may run; or the plan of a job: train, finetune, batch",
        )


def regions_of(plan: ServePlan) -> Sequence[str] | None:
    """The regions that the plan was asked about; all, where it does not say."""
    return None if plan.basis is None else request_of(recorded(plan)).regions


def service_of(asked: SpotRequest, tables: Catalog) -> SpotService:
    """The service of a plan."""
    plan = one_plan(str(asked.job), tables, edited=asked.edited)
    num = plan.answer.instance_count
    if plan.answer.replicas < num:
        raise UsageError("a replica that spans machines is not planned on spot", found=plan.answer.layout)
    if num > MOST_SERVICE_MACHINES:
        raise UsageError("a service has too many machines", found=num, expected=f"at most {MOST_SERVICE_MACHINES}")
    scaled = scaled_plan(plan, tables) if plan.objectives and plan.basis is not None else None
    notes = () if scaled else ("The plan has no objective that a request could keep: what load does is not said.",)
    if asked.restart_s is not None:
        return SpotService(plan, scaled, num, asked.restart_s, "given", notes)
    if scaled is None:
        raise UsageError("the start of a machine cannot be estimated without objectives", expected="--restart 5min")
    start = start_of_machine(scaled, tables).seconds
    return SpotService(plan, scaled, num, spread_of(start), start.grade, notes)


def chosen_play(
    asked: SpotRequest, num: int, start_s: float, supply: ZoneSupply, found: AskedMarkets
) -> tuple[MarketPrices, PlayedPolicies, SpotServicePlay]:
    """The market where the answer costs least, all that is told there, the answer first, and how that did."""
    target = ServiceTarget(target_of(asked), prices_of(found.markets[0]))
    told = told_policies(supply, num, start_s, target, stays=bool(why_stays(num)))
    market = ranked(told, found)[0]
    return market, told, service_play(told, 0, prices_of(market), supply.grade, None)


def ranked(told: PlayedPolicies, found: AskedMarkets) -> list[MarketPrices]:
    """Markets by what the answer costs there."""
    return sorted(found.markets, key=lambda market: float(told.usd_per_hour(prices_of(market))[0]))


def answered(asked: SpotRequest, service: SpotService, supply: ZoneSupply, found: AskedMarkets) -> SpotServicePlan:
    """The answer at the market where it costs least."""
    num, start = service.num_machines, service.start_s
    market, told, _ = chosen_play(asked, num, start.expected, supply, found)
    prices, alone, policy = prices_of(market), alone_at(found.alone, num), told.policies[0]
    in_time = None if service.scaled is None else in_time_at(service.scaled)
    answer, fixed, *others = (
        service_play(told, row, prices, supply.grade, in_time) for row in range(len(told.policies))
    )
    rows = [row_at(told, each, alone.usd, supply.grade) for each in ranked(told, found)[:MOST_MARKETS]]
    slow = play_policies(supply.tells, num, start.high, [policy])
    return SpotServicePlan(
        model=service.plan.model,
        num_machines=num,
        replicas_per_machine=service.plan.answer.replicas // num,
        start=spread_figure(start, "s", service.start_grade),
        target_ratio=target_of(asked),
        market=rows[0],
        markets=rows,
        zones=supply.tells.nodes.shape[1],
        availability_ratio=float((supply.tells.nodes >= 1).mean()),
        availability_source=supply.source,
        grade=supply.grade,
        answer=answer,
        frontier=undominated([answer, *others]),
        fixed=fixed,
        fewer_zones=fewer_zones(supply, service, policy, prices),
        alone=alone,
        attained_if_slow_ratio=float(slow.attained_ratio()[0]),
        most_usd_per_hour=most_usd_per_hour(answer, alone.usd, prices),
        ready=ready_shares(told, 0, in_time),
        why_not=why_stays(num),
        num_draws=told.num_pieces,
        seed=asked.seed,
        inputs=inputs_of(asked, service, supply.tells.nodes.shape[1]),
        notes=[*notes_on_file(service.plan), *service.notes],
    )


def prices_of(market: MarketPrices) -> SpotAndOnDemand:
    """Of one machine."""
    return SpotAndOnDemand(market.spot_usd_per_hour, market.on_demand_usd_per_hour)


def row_at(told: PlayedPolicies, market: MarketPrices, alone_usd: float, grade: str) -> SpotMarketRow:
    """What the answer's policy costs at a market."""
    usd = told.by_policy(told.runs.usd_per_hour(*prices_of(market)))[0]
    return market_row(market, drawn_figure(usd, "USD/h", grade), alone_usd)


def undominated(plays: Sequence[SpotServicePlay]) -> list[SpotServicePlay]:
    """Plays that none beats in both cost and time with all machines ready, the cheapest first."""
    attained, usd = (
        np.array(each) for each in zip(*((p.attained.value, p.usd_per_hour.value) for p in plays), strict=True)
    )
    kept = [plays[row] for row in np.flatnonzero(is_on_frontier(attained, usd)).tolist()]
    return sorted(kept, key=lambda play: play.usd_per_hour.value)


def fewer_zones(
    supply: ZoneSupply, service: SpotService, policy: ServicePolicy, prices: SpotAndOnDemand
) -> list[ZonesPlay]:
    """What the answer's policy comes to over the first zones alone."""
    fewer = range(max(supply.tells.nodes.shape[1] - MOST_FEWER, 1), supply.tells.nodes.shape[1])
    plays = {
        zones: play_policies(supply.over(zones), service.num_machines, service.start_s.expected, [policy])
        for zones in fewer
    }
    return [
        ZonesPlay(zones=n, usd_per_hour=float(p.usd_per_hour(prices)[0]), attained_ratio=float(p.attained_ratio()[0]))
        for n, p in plays.items()
    ]


def most_usd_per_hour(play: SpotServicePlay, alone_usd: float, prices: SpotAndOnDemand) -> float:
    """The price of a spot machine at which the answer costs what all machines on demand do   [USD/h]."""
    beside = play.on_demand_machines * prices.on_demand_usd_per_hour
    return max(alone_usd - beside, 0.0) / play.spot_machines if play.spot_machines else 0.0


def in_time_at(scaled: ScaledPlan) -> InTime:
    """The share of requests that keep their limits, by the number of machines ready.

    They share the plan's rate; where that is more than they sustain, the queue grows and nobody is in time.
    """
    rate, replica = scaled.plan.rate_requests_per_s, scaled.replica

    def in_time(machines: int) -> float:
        each = rate / machines if machines else math.inf
        if each > replica.sustained_per_s:
            return 0.0
        return float(replica.share_within(np.array([each]), np.zeros(1))[0])

    return in_time


def inputs_of(asked: SpotRequest, service: SpotService, zones: int) -> list[Input]:
    """What was understood, and where it came from."""
    said = [
        ("machines", str(service.num_machines), "file"),
        ("target", f"{target_of(asked):.4g}", asked.origin("target")),
        ("start", times(service.start_s, MINUTE, "min"), asked.origin("restart_s", "file")),
        ("zones", str(zones), origin_of_zones(asked)),
        ("draws", str(asked.draws), asked.origin("draws")),
        ("seed", str(asked.seed), asked.origin("seed")),
    ]
    return [Input(name=name, value=value, origin=where) for name, value, where in said]
