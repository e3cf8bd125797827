"""`spot`: a job with a deadline on machines that may be taken away, with machines on demand as the net."""

from __future__ import annotations

from functools import lru_cache, partial
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.figures import spread_figure
from gpufleet.answers.played_on_spot import drawn_figure
from gpufleet.api.envelope import in_full
from gpufleet.api.spoken import spoken
from gpufleet.ask.spot.job_answer import chosen_name, play_of, rules_result
from gpufleet.ask.spot.job_shape import SpotMarketRow, SpotPlan
from gpufleet.ask.spot.markets import markets_of
from gpufleet.ask.spot.markets_answer import AskedMarkets, MarketPrices, alone_at, market_row
from gpufleet.ask.spot.supply import Supply, choosing, drawn_until, every_draw, job_supply, supply_notes, unpriced
from gpufleet.ask.spot.words import SpotRequest
from gpufleet.ask.spot.work import SpotWork, work_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.spot import AgedHazards, HazardCounts, SpotMarket
from gpufleet.errors import Infeasible, UsageError
from gpufleet.optimize.spot import (
    AGES_S,
    MOST_TICKS,
    ON_DEMAND,
    MovingMarket,
    SpotDraws,
    SpotQuestion,
    drawn_luck,
    hazards_of,
    longer_by,
    most_usd_per_hour,
    played,
    rules_of,
    usual_interval_s,
)
from gpufleet.optimize.spot_markets import REFUSED_S, at_cheapest, late_if_refused, moving, priced, usd_of
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.simulate.spot_availability import zones_of_band
from gpufleet.simulate.spot_jobs import Luck, SpotRuns
from gpufleet.simulate.spot_markets import usual_hazards
from gpufleet.units import HOUR

MOST_MARKETS = 6
PRIOR_SEED = 0


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
    supply = job_supply(asked, work, rng)
    question = question_of(work, supply)
    refuse_too_late(question)
    return in_full(plan_of(asked, work, question, supply, found, rng), tables, asked)


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
    if not question.alone.can_be_done:
        needed = (question.alone.work_s + question.alone.restart_s) / HOUR
        raise Infeasible(
            f"on demand alone takes {needed:.3g} h, from the start of the machine: the deadline of "
            f"{question.deadline_s / HOUR:.3g} h cannot be kept",
        )


def plan_of(
    asked: SpotRequest,
    work: SpotWork,
    question: SpotQuestion,
    supply: Supply,
    found: AskedMarkets,
    rng: np.random.Generator,
) -> SpotPlan:
    """The answer at the cheapest of the markets."""
    num, grade, tells = work.num_machines, supply.grade, supply.tells
    luck = drawn_luck(rng, question, len(tells.first_tick))
    chooses = supply.chooses, drawn_luck(choosing(asked), question, len(supply.chooses.first_tick))
    hazards = aged(supply.seen, question.deadline_s)
    told = at_cheapest(question, (tells, luck), chooses, hazards, found.markets, num)
    alone = alone_at(found.alone, float(told.runs[ON_DEMAND].on_demand_s.mean()) / HOUR * num)
    alike = told.alike if asked.trace is not None else {}
    moving_at = partial(moving, question, supply.moved_ratio, num)
    plays = {
        name: play_of(name, each, question.deadline_s, grade, alike.get(name), moving_at(told.markets[0], name))
        for name, each in told.runs.items()
    }
    best = chosen_name(plays)
    rows = [
        row_of(told.runs[best], each, num, grade, alone.usd, alike.get(best), moving_at(each, best))
        for each in told.markets[:MOST_MARKETS]
    ]
    on_demand, zones = told.draws.market.on_demand_usd_per_hour, str(len(tells.market.is_available))
    has_time = question.leaves_time_for_spot(tells.market.tick_s)
    says_seldom = asked.trace is None and has_time
    return SpotPlan(
        job=work.title,
        num_machines=num,
        work=spread_figure(work.work_s, "s", work.grade),
        restart=spread_figure(work.restart_s, "s", work.grade),
        checkpoint_interval_s=question.checkpoint_interval_s,
        checkpoint_write_s=question.checkpoint_write_s,
        deadline_s=question.deadline_s,
        market=rows[0],
        markets=rows,
        zones=len(tells.market.is_available),
        availability_ratio=supply.availability_ratio,
        mean_up_s=supply.mean_up_s,
        availability_source=supply.source,
        grade=grade,
        answer=plays[best],
        plays=list(plays.values()),
        alone=alone,
        usd_if_seldom_taken=seldom_taken(asked, work, question, told.markets[0], luck) if says_seldom else None,
        most_usd_per_hour=most_usd_per_hour(told.runs[best], alone.usd, on_demand) / num,
        refused_s=REFUSED_S,
        late_if_refused_ratio=late_if_refused(question, told, best),
        has_time_for_spot=has_time,
        rules=rules_result(best, told.rules[best], question.worst, tells.market.tick_s),
        num_draws=len(tells.first_tick),
        seed=asked.seed,
        inputs=[row.model_copy(update={"value": zones}) if row.name == "zones" else row for row in work.inputs],
        notes=[*work.notes, *supply_notes(asked, supply)],
    )


def aged(market: SpotMarket, deadline_s: float) -> AgedHazards:
    """How a market ages, on the ticks of thresholds of a job of this length; a prior where little was seen."""
    every = longer_by(deadline_s, market.tick_s, MOST_TICKS)
    return hazards_of(market, every, believed(round(market.tick_s * every / load_availability_fit().tick_s)))


@lru_cache(maxsize=8)
def believed(every: int) -> HazardCounts:
    """How zones age of which nothing was seen."""
    return usual_hazards(np.random.default_rng(PRIOR_SEED), load_availability_fit(), AGES_S, every)


def row_of(
    runs: SpotRuns,
    price: MarketPrices,
    machines: int,
    grade: str,
    alone_usd: float,
    alike: SpotRuns | None,
    moves: MovingMarket | None,
) -> SpotMarketRow:
    """What the job costs at a market, by the rules of the cheapest one."""
    like = None if alike is None else usd_of(alike, price) * machines
    return market_row(price, drawn_figure(usd_of(runs, price) * machines, "USD", grade, like, moves), alone_usd)


def seldom_taken(asked: SpotRequest, work: SpotWork, question: SpotQuestion, price: MarketPrices, luck: Luck) -> float:
    """What the job costs where machines are taken away as seldom as the cloud's own advisor says."""
    fit, rng = load_availability_fit(), np.random.default_rng(asked.seed)
    zone = zones_of_band("zone", "region", load_interruptions(), price.interruption)[1]
    num_draws = len(luck.work_s)
    has_one = drawn_until(rng, fit, lambda _: [zone], num_draws, question.deadline_s, 1)
    market = priced(unpriced(has_one, fit, question.deadline_s), price, work.num_machines)
    hazards = aged(market, question.deadline_s)
    draws = SpotDraws(market, every_draw(market, num_draws), luck, hazards)
    return float(played(question, draws, rules_of(question, draws)).cost_usd.mean())
