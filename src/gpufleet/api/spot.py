"""`spot`: a job with a deadline on machines that may be taken away, with machines on demand as the net."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.spot import chosen_play, drawn_figure, play_of, rules_result
from gpufleet.api.spoken import spoken
from gpufleet.api.spot_jobs import SpotWork, work_of
from gpufleet.api.spot_markets import AskedMarkets, MarketPrices, OnDemandPrice, markets_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.domain.spot import AgedHazards, HazardCounts, SpotMarket, on_longer_ticks
from gpufleet.errors import Infeasible, UsageError
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.optimize.spot import (
    AGES_S,
    MOST_PLAYED_TICKS,
    MOST_TICKS,
    ON_DEMAND,
    OURS,
    SpotDraws,
    SpotQuestion,
    drawn_luck,
    hazards_of,
    late_ratio,
    longer_by,
    most_usd_per_hour,
    played,
    played_alone,
    policies_of,
    rules_of,
    usual_interval_s,
)
from gpufleet.questions.spot import SpotRequest
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.results.spot import OnDemandAlone, SpotMarketRow, SpotPlan
from gpufleet.simulate.spot_availability import drawn_zones, zones_of_band
from gpufleet.simulate.spot_jobs import Luck, SpotRuns, every_start
from gpufleet.simulate.spot_markets import ZoneDraw, drawn_availability, usual_hazards
from gpufleet.units import DAY, HOUR, MINUTE

REFUSED_S = HOUR
MOST_MARKETS = 6
MOST_DRAWN_TICKS, LEAST_DRAWS = 1_200_000, 60
PRIOR_SEED = 0


@dataclass(frozen=True, eq=False)
class Supply:
    """When machines can be had: draws of it, or a trace; how often, how long, by whom.

    `market` is on ticks that a long job has few enough of; availability and times up are of the shorter ones.
    """

    market: SpotMarket
    first_tick: IntArray
    availability_ratio: float
    mean_up_s: float
    source: str
    grade: str

    @classmethod
    def of(
        cls, has_one: BoolArray, tick_s: float, market: SpotMarket, first_tick: IntArray, source: str, grade: str
    ) -> Supply:
        """With the share of time in which a zone has the machines, and the time up for each time that it ends."""
        ends = int((has_one[:, :-1] & ~has_one[:, 1:]).sum())
        up_s = float(has_one.sum()) * tick_s / ends if ends else math.inf
        return cls(market, first_tick, float(has_one.mean()), up_s, source, grade)


def plan_spot(
    request: SpotRequest | str | PathLike[str] | None = None, *, catalog: Catalog | None = None, **said: Any
) -> SpotPlan:
    """Where, by which rules and for how much a job runs on spot so that it is done by its deadline.

    `request`: the file of a plan of training or of a batch job, or a `SpotRequest`; words of it as keywords.
    Infeasible where on demand alone would not be done in time.
    """
    asked = request if isinstance(request, SpotRequest) else spoken(SpotRequest, request, said)
    refuse_out_of_range(asked)
    refuse_of_services(asked)
    tables = load_catalog() if catalog is None else catalog
    work = work_of(asked)
    found = markets_of(asked, work.machines, tables)
    rng = np.random.default_rng(asked.seed)
    supply = supply_of(asked, work, rng)
    question = question_of(work, supply)
    refuse_too_late(question)
    return plan_of(asked, work, question, supply, found, rng)


def refuse_of_services(asked: SpotRequest) -> None:
    """Refuse the word of a service: a job is done by its deadline, whatever share of time its machines are there."""
    if asked.target is not None:
        raise UsageError(
            "--target is of a service",
            found=f"{asked.target:.4g}",
            expected="a job without it",
            hint="A job keeps its --deadline; the file of 'plan serve ... --out-file PLAN.json' is a service.",
        )


def question_of(work: SpotWork, supply: Supply) -> SpotQuestion:
    """The job with its checkpoints, as often as its machines are taken away; once by its deadline at the least.

    The net counts on what a loss costs, also where none was seen.
    """
    between_s = min(supply.mean_up_s, work.deadline_s)
    interval = work.checkpoint_every_s or usual_interval_s(work.checkpoint_write_s, between_s, work.work_s.expected)
    return SpotQuestion(work.work_s, work.restart_s, work.deadline_s, work.checkpoint_write_s, interval, work.reserve_s)


def refuse_too_late(question: SpotQuestion) -> None:
    """Refuse what on demand alone would not finish."""
    if not question.expected.can_be_done:
        needed = (question.expected.work_s + question.expected.restart_s) / HOUR
        raise Infeasible(
            f"on demand alone takes {needed:.3g} h, from the start of the machine: the deadline of "
            f"{question.deadline_s / HOUR:.3g} h cannot be kept",
        )


def supply_of(asked: SpotRequest, work: SpotWork, rng: np.random.Generator) -> Supply:
    """When machines can be had."""
    return traced_supply(asked, work) if asked.trace is not None else drawn_supply(asked, work, rng)


def traced_supply(asked: SpotRequest, work: SpotWork) -> Supply:
    """As a trace says: every hour a start, while the deadline lies within it."""
    fit = load_availability_fit()
    seen = read_spot_trace(str(asked.trace))
    has_one = seen.available(work.num_machines, fit.tick_s)
    market = unpriced(has_one, fit, work.deadline_s)
    job = SpotQuestion(work.work_s, work.restart_s, work.deadline_s, 0.0, HOUR).expected
    starts = every_start(job, market)
    if not len(starts):
        raise UsageError(
            "the trace is shorter than the deadline",
            found=f"{seen.span_s / HOUR:.3g} h",
            expected=f"more than {work.deadline_s / HOUR:.3g} h",
        )
    return Supply.of(has_one, fit.tick_s, market, starts, f"your trace of {seen.span_s / HOUR:.3g} h", "measured")


def drawn_supply(asked: SpotRequest, work: SpotWork, rng: np.random.Generator) -> Supply:
    """As zones that were measured are, or as somebody says of theirs."""
    fit = load_availability_fit()
    zones, source, grade = zones_drawn(asked, fit)
    draws = draws_of(asked, work.deadline_s, fit.tick_s)
    has_one = drawn_until(rng, fit, zones, draws, work.deadline_s, work.num_machines)
    market = unpriced(has_one, fit, work.deadline_s)
    return Supply.of(has_one, fit.tick_s, market, every_draw(market, draws), source, grade)


def draws_of(asked: SpotRequest, deadline_s: float, tick_s: float) -> int:
    """So many as are asked for, but fewer of a long job, which has seen many a market by its own end."""
    fewer = math.floor(MOST_DRAWN_TICKS * tick_s / deadline_s)
    return min(asked.draws, max(fewer, LEAST_DRAWS))


def drawn_until(
    rng: np.random.Generator, fit: AvailabilityFit, zones: ZoneDraw, draws: int, deadline_s: float, machines: int
) -> BoolArray:
    """Draws of zones one after the other, each until after the deadline: [zone, draw x tick]."""
    every = longer_by(deadline_s, fit.tick_s, MOST_PLAYED_TICKS)
    ticks = (math.ceil(deadline_s / (fit.tick_s * every)) + 1) * every
    return drawn_availability(rng, fit, zones, draws, ticks, machines)


def every_draw(market: SpotMarket, draws: int) -> IntArray:
    """The tick at which each draw begins."""
    return np.arange(draws) * (market.ticks // draws)


def zones_drawn(asked: SpotRequest, fit: AvailabilityFit) -> tuple[ZoneDraw, str, str]:
    """How zones come about, in words, and how far to trust it."""
    if asked.availability is None and asked.mean_up_s is None:
        told = "zones as different as those of AWS V100 and K80 in 2022 and 2023"
        return (lambda rng: drawn_zones(rng, fit, asked.zones)), told, "transferred"
    if asked.availability is None or asked.mean_up_s is None:
        raise UsageError("zones have an availability and a mean time up", expected="--availability and --mean-up")
    known = [SpotZone(f"zone-{i + 1}", "region", asked.availability, asked.mean_up_s) for i in range(asked.zones)]
    return (lambda _: known), "zones as you say", "given"


def unpriced(has_one: BoolArray, fit: AvailabilityFit, deadline_s: float) -> SpotMarket:
    """A market before anybody asks for its price, on ticks that a long job has few enough of."""
    every = longer_by(deadline_s, fit.tick_s, MOST_PLAYED_TICKS)
    return SpotMarket(on_longer_ticks(has_one, every), fit.tick_s * every, np.ones(len(has_one)), 1.0)


def priced(market: SpotMarket, price: MarketPrices, machines: int) -> SpotMarket:
    """The same for the prices of all machines of the job."""
    spot = np.full(len(market.is_available), price.spot_usd_per_hour * machines)
    return replace(market, spot_usd_per_hour=spot, on_demand_usd_per_hour=price.on_demand_usd_per_hour * machines)


def plan_of(
    asked: SpotRequest,
    work: SpotWork,
    question: SpotQuestion,
    supply: Supply,
    asked_about: AskedMarkets,
    rng: np.random.Generator,
) -> SpotPlan:
    """The answer at the cheapest of the markets."""
    luck = drawn_luck(rng, question, len(supply.first_tick))
    hazards = aged(supply.market, question.deadline_s)

    def draws_at(price: MarketPrices) -> SpotDraws:
        return SpotDraws(priced(supply.market, price, work.num_machines), supply.first_tick, luck, hazards)

    draws = draws_at(asked_about.markets[0])
    rules = rules_of(question, draws)
    runs = {OURS: played(question, draws, policies_of(rules)[OURS])}
    ranked = sorted(asked_about.markets, key=lambda p: mean_usd(runs[OURS], p))
    if ranked[0] is not asked_about.markets[0]:
        draws = draws_at(ranked[0])
        rules = rules_of(question, draws)
        runs = {OURS: played(question, draws, policies_of(rules)[OURS])}
    policies = policies_of(rules)
    others = [name for name in policies if name not in (OURS, ON_DEMAND)]
    runs |= {name: played(question, draws, policies[name]) for name in others}
    runs[ON_DEMAND] = played_alone(question, draws)
    alone = alone_on_demand(runs[ON_DEMAND], asked_about.alone, work.num_machines)
    rows = [row_of(runs[OURS], p, work.num_machines, supply.grade, alone.usd) for p in ranked[:MOST_MARKETS]]
    plays = {name: play_of(name, each, question.deadline_s, supply.grade) for name, each in runs.items()}
    refused = replace(draws, luck=replace(luck, refused_s=np.full(len(luck.work_s), REFUSED_S)))
    return SpotPlan(
        job=work.title,
        num_machines=work.num_machines,
        work=spread_figure(work.work_s.low, work.work_s.expected, work.work_s.high, work.grade),
        restart=spread_figure(work.restart_s.low, work.restart_s.expected, work.restart_s.high, work.grade),
        checkpoint_interval_s=question.checkpoint_interval_s,
        checkpoint_write_s=question.checkpoint_write_s,
        deadline_s=question.deadline_s,
        market=rows[0],
        markets=rows,
        zones=len(supply.market.is_available),
        availability_ratio=supply.availability_ratio,
        mean_up_s=supply.mean_up_s,
        availability_source=supply.source,
        grade=supply.grade,
        answer=chosen_play(plays, runs),
        plays=list(plays.values()),
        alone=alone,
        usd_if_seldom_taken=None if asked.trace is not None else seldom_taken(asked, work, question, ranked[0], luck),
        most_usd_per_hour=most_usd_per_hour(runs[OURS], alone.usd, draws.market.on_demand_usd_per_hour)
        / work.num_machines,
        refused_s=REFUSED_S,
        late_if_refused_ratio=late_ratio(played(question, refused, policies[OURS]), question.deadline_s),
        rules=rules_result(rules, question.worst, supply.market.tick_s),
        num_draws=len(supply.first_tick),
        seed=asked.seed,
        inputs=list(work.inputs),
        notes=[*work.notes, *long_job_notes(asked, supply)],
    )


def long_job_notes(asked: SpotRequest, supply: Supply) -> list[str]:
    """What a long job is played on so that it takes seconds: longer ticks, fewer draws."""
    usual_s, tick_s, draws = load_availability_fit().tick_s, supply.market.tick_s, len(supply.first_tick)
    notes = []
    if tick_s > usual_s:
        notes.append(
            f"So long a job is looked at every {tick_s / MINUTE:.0f} min, as up to "
            f"{MOST_PLAYED_TICKS * usual_s / DAY:.0f} days every {usual_s / MINUTE:.0f}: a zone counts where it has "
            f"machines all that time."
        )
    if asked.trace is None and draws < asked.draws:
        notes.append(f"So long a job is drawn {draws} times, not {asked.draws}.")
    return notes


def aged(market: SpotMarket, deadline_s: float) -> AgedHazards:
    """How a market ages, on the ticks of thresholds of a job of this length; a prior where little was seen."""
    every = longer_by(deadline_s, market.tick_s, MOST_TICKS)
    return hazards_of(market, every, believed(round(market.tick_s * every / load_availability_fit().tick_s)))


@lru_cache(maxsize=8)
def believed(every: int) -> HazardCounts:
    """How zones age of which nothing was seen."""
    return usual_hazards(np.random.default_rng(PRIOR_SEED), load_availability_fit(), AGES_S, every)


def spread_figure(low: float, expected: float, high: float, grade: str) -> Figure:
    """A time with its ends."""
    return Figure(value=expected, unit="s", low=low, high=high, grade=grade)


def usd_of(runs: SpotRuns, price: MarketPrices) -> FloatArray:
    """What runs cost for one machine at these prices   [USD]."""
    return np.asarray((runs.spot_s * price.spot_usd_per_hour + runs.on_demand_s * price.on_demand_usd_per_hour) / HOUR)


def mean_usd(runs: SpotRuns, price: MarketPrices) -> float:
    """The mean of that."""
    return float(usd_of(runs, price).mean())


def alone_on_demand(runs: SpotRuns, cheapest: OnDemandPrice, machines: int) -> OnDemandAlone:
    """The job without spot, at the cheapest price on demand."""
    usd = float(runs.on_demand_s.mean()) / HOUR * cheapest.price.usd_per_hour * machines
    place = cheapest.place
    return OnDemandAlone(cloud=place.cloud, region=place.region, instance=place.instance, price=cheapest.price, usd=usd)


def row_of(runs: SpotRuns, price: MarketPrices, machines: int, grade: str, alone_usd: float) -> SpotMarketRow:
    """What the job costs at a market, by the rules of the cheapest one."""
    usd = drawn_figure(usd_of(runs, price) * machines, "USD", grade)
    return SpotMarketRow(
        cloud=price.place.cloud,
        region=price.place.region,
        instance=price.place.instance,
        gpu=price.place.gpu,
        gpus_per_instance=price.place.gpus_per_instance,
        spot=price.spot,
        on_demand=price.on_demand,
        interruption=price.interruption,
        usd=usd,
        saved_ratio=1 - usd.value / alone_usd,
    )


def seldom_taken(asked: SpotRequest, work: SpotWork, question: SpotQuestion, price: MarketPrices, luck: Luck) -> float:
    """What the job costs where machines are taken away as seldom as the cloud's own advisor says."""
    fit, rng = load_availability_fit(), np.random.default_rng(asked.seed)
    zone = zones_of_band("zone", "region", load_interruptions(), price.interruption)[1]
    num_draws = len(luck.work_s)
    has_one = drawn_until(rng, fit, lambda _: [zone], num_draws, question.deadline_s, 1)
    market = priced(unpriced(has_one, fit, question.deadline_s), price, work.num_machines)
    hazards = aged(market, question.deadline_s)
    draws = SpotDraws(market, every_draw(market, num_draws), luck, hazards)
    return float(played(question, draws, policies_of(rules_of(question, draws))[OURS]).cost_usd.mean())
