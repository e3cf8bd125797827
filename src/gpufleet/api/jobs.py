"""From a request to a job: how much work, by when, for how much and how often, checked; what plays it on spot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache, partial

import numpy as np

from gpufleet.api.demands import checked_confidence
from gpufleet.api.input_rows import InputRow, stated_rows
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.interruption import USUAL_SEED, USUAL_ZONES
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError
from gpufleet.optimize.drawn_markets import DrawnMarkets
from gpufleet.optimize.job import MOST_MACHINES, Job
from gpufleet.optimize.spot_plays import SpotPlays
from gpufleet.questions.fields import JobRequest as JobRequest
from gpufleet.simulate.spot_availability import drawn_zones
from gpufleet.units import DAY, HOUR, HOURS_PER_YEAR, MINUTE

DEFAULT_STARTUP_S, LONGEST_S = 10 * MINUTE, HOURS_PER_YEAR * HOUR
MOST_REQUESTS = 1e12


def job_of(
    request: JobRequest, requests: float, deadline_s: float, headroom_ratio: float, longest_ratio: float = 1.0
) -> Job:
    """The job, checked."""
    startup_s = DEFAULT_STARTUP_S if request.startup_s is None else request.startup_s
    most = MOST_MACHINES if request.most_machines is None else request.most_machines
    budget = math.inf if request.budget_usd is None else request.budget_usd
    if not 1 <= requests <= MOST_REQUESTS:
        expected = f"from 1 to {MOST_REQUESTS:,.0f}"
        raise UsageError("the number of requests is out of range", found=requests, expected=expected)
    for what, found in (("the deadline", deadline_s), ("the time to start", startup_s)):
        if not 0 <= found <= LONGEST_S:
            raise UsageError(f"{what} is out of range", found=f"{found:g} s", expected="up to a year")
    if not startup_s < deadline_s:
        hint = "Machines and engines need time before they work; --startup says how much."
        expected = f"more than the {startup_s / MINUTE:g} min that machines take to start"
        raise UsageError("the deadline leaves no time", found=f"{deadline_s:g} s", expected=expected, hint=hint)
    if not 1 <= most <= MOST_MACHINES:
        expected = f"from 1 to {MOST_MACHINES:,}"
        raise UsageError("the number of machines is out of range", found=most, expected=expected)
    if not budget > 0:
        raise UsageError("the budget is out of range", found=budget, expected="USD above 0")
    period_s = checked_period(request.period_s, deadline_s)
    return Job(
        requests,
        deadline_s,
        startup_s,
        headroom_ratio,
        longest_ratio,
        most,
        budget,
        period_s,
        checked_confidence(request.confidence),
    )


def checked_period(period_s: float | None, deadline_s: float) -> float | None:
    """A job is done before it comes again."""
    if period_s is not None and not deadline_s <= period_s <= LONGEST_S:
        expected = f"from its deadline ({deadline_s / HOUR:g} h) to a year"
        raise UsageError("the period of the job is out of range", found=f"{period_s / HOUR:g} h", expected=expected)
    return period_s


def job_rows(request: JobRequest, job: Job) -> list[InputRow]:
    """What only jobs have, as it was read."""
    return [
        ("requests", "requests", f"{job.requests:,.0f}", True),
        ("deadline", "deadline_s", f"{job.deadline_s / HOUR:g} h" + in_days(job.deadline_s), True),
        ("time to start", "startup_s", f"{job.startup_s / MINUTE:g} min", request.startup_s is not None),
        *stated_rows(request, JobRequest),
    ]


def in_days(seconds: float) -> str:
    """Days beside hours, where they are whole."""
    return f" ({seconds / DAY:g} days)" if seconds % DAY == 0 and seconds > DAY else ""


def spot_plays(tables: Catalog, offers: Iterable[Offer], deadline_s: float) -> SpotPlays | None:
    """What plays jobs until their deadline; None where nothing is on spot, or nothing has to be done by any time."""
    clouds = {offer.cloud for offer in offers if offer.price_kind is PriceKind.SPOT}
    if not clouds or math.isinf(deadline_s):
        return None

    def steady() -> list[Offer]:
        return matching_offers(tables, OfferFilter(clouds=clouds, price_kinds=[PriceKind.ON_DEMAND]))

    return SpotPlays(usual_markets(), deadline_s, steady)


@lru_cache(maxsize=1)
def usual_markets() -> DrawnMarkets:
    """The markets that play all plans of a process, drawn as `spot` draws them where nobody says anything."""
    fit, ratio = load_availability_fit(), load_job_habits().planned_restart_ratio
    zones = partial(drawn_zones, fit=fit, num_zones=USUAL_ZONES)
    return DrawnMarkets(fit, ratio, zones, USUAL_ZONES, partial(np.random.default_rng, USUAL_SEED))
