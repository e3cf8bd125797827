"""From a job judged in every region to what users get."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.answers.figures import spread_figure
from gpufleet.answers.plan_parts import machines_of, price_sources
from gpufleet.answers.played_on_spot import played_figure, played_on_spot
from gpufleet.answers.regions import RegionFacts, known_of_region
from gpufleet.domain.offer import Offer
from gpufleet.optimize.job_regions import JobAt, JobWay, Judged, RegionKey
from gpufleet.optimize.market import effective_price
from gpufleet.provenance import Grade, Source
from gpufleet.records import dataclass
from gpufleet.report.training import asked_text
from gpufleet.results.base import Figure, Input
from gpufleet.results.job import JobPlan
from gpufleet.results.regions import JobRegionPlan, JobRegionRow, KindPrice, LeastChange, MovedBytes
from gpufleet.results.rented import OfferedMachines
from gpufleet.results.training import TrainingPlan

Zones = Mapping[tuple[str, str, str], int | None]


@dataclass(frozen=True, eq=False)
class JobFacts:
    """A job with its plan, what is known of every region, its verdict or what stands `against` it, and limits.

    `offers` are of the machines of the plan, of every price kind that was asked about; `most` of each limit.
    """

    plan: JobPlan
    ways: Sequence[JobWay]
    facts: Mapping[RegionKey, RegionFacts]
    verdicts: Mapping[RegionKey, Judged]
    against: Mapping[RegionKey, str]
    offers: Sequence[Offer]
    zones: Zones
    moved: MovedBytes
    changes: Mapping[str, float]
    most: Mapping[str, float]
    inputs: Sequence[Input]
    sources: Mapping[str, Source]
    input_hash: str


def job_region_plan(told: JobFacts) -> JobRegionPlan:
    """The answer: every region, those that run the job first, the cheapest before the others."""
    plan = told.plan
    rows = ranked([region_row(told, key) for key in told.facts])
    shown = [row.machines for row in rows if row.machines is not None]
    return JobRegionPlan(
        model=plan.model,
        job=job_words(plan),
        deadline_s=plan.deadline_s,
        ways=[f"{way.machines}x {way.instance.cloud} {way.instance.name}" for way in told.ways],
        planned=OfferedMachines.made_of(plan.deployments[0]),
        moved=told.moved,
        regions=rows,
        changes=[LeastChange(limit=n, asked=told.most[n], needed=needed) for n, needed in told.changes.items()],
        inputs=list(told.inputs),
        price_sources=price_sources([(m.price_source, m.price_as_of) for m in shown], told.sources),
        notes=list(notes(rows)),
        input_hash=told.input_hash,
    )


def job_words(plan: JobPlan) -> str:
    """What the job is, in a few words."""
    if isinstance(plan, TrainingPlan):
        return asked_text(plan)
    return f"{plan.requests:,.0f} requests of {plan.model}"


def ranked(rows: Sequence[JobRegionRow]) -> list[JobRegionRow]:
    """Rows by what the job costs there, the first chosen; those where it does not run last."""
    ordered = sorted(rows, key=lambda row: (math.inf if row.usd is None else row.usd.value, row.cloud, row.region))
    return [row.model_copy(update={"is_chosen": at == 0 and row.usd is not None}) for at, row in enumerate(ordered)]


def region_row(told: JobFacts, key: RegionKey) -> JobRegionRow:
    """One region."""
    known = known_of_region(key, told.facts[key])
    verdict = told.verdicts.get(key)
    if verdict is None or verdict.best is None:
        why = told.against[key] if verdict is None else verdict.against
        return JobRegionRow(**known, is_chosen=False, why_not=why)
    return JobRegionRow(**known, is_chosen=False, why_not=None, **job_row(told, verdict.best))


def job_row(told: JobFacts, at: JobAt) -> dict[str, Any]:
    """What the job comes to in a region."""
    offer, rule = at.offer, Grade.ROOFLINE.label
    return {
        "machines": OfferedMachines(**of_offer(at)),
        "usd": machines_usd(at).changed(lambda usd: usd + at.site.moved_usd),
        "moved_usd": at.site.moved_usd,
        "is_moved_known": at.site.is_moved_known,
        "done_s": done(at),
        "kwh": None if at.kwh is None else spread_figure(at.kwh, "kWh", rule),
        "g_co2e": None if at.g_co2e is None else spread_figure(at.g_co2e, "g", rule),
        "prices": list(kind_prices(told.offers, offer)),
        "num_zones": told.zones.get((offer.cloud, offer.region, offer.instance)),
        "played": None if at.play is None else played_on_spot(at.play, at.machines_usd.expected),
    }


def of_offer(at: JobAt) -> dict[str, Any]:
    """The machines of an offer, without what each costs."""
    found = machines_of(at.offer, at.way.instance, at.way.machines)
    return {name: value for name, value in found.items() if name in OfferedMachines.model_fields}


def machines_usd(at: JobAt) -> Figure:
    """What machines cost: as played, else over the speeds."""
    seldom = spread_figure(at.machines_usd, "USD", at.way.grade)
    return seldom if at.play is None else played_figure(at.play.usd, seldom)


def done(at: JobAt) -> Figure:
    """When it is done."""
    seldom = spread_figure(at.done_s, "s", at.way.grade)
    return seldom if at.play is None else played_figure(at.play.elapsed_s, seldom)


def kind_prices(offers: Sequence[Offer], chosen: Offer) -> Iterator[KindPrice]:
    """The cheapest price of every kind of a machine type in its region."""
    here = (chosen.cloud, chosen.region, chosen.instance)
    cheapest: dict[str, Offer] = {}
    for offer in sorted(offers, key=effective_price):
        if offer.is_dated and (offer.cloud, offer.region, offer.instance) == here:
            cheapest.setdefault(offer.price_kind.value, offer)
    for offer in cheapest.values():
        yield KindPrice.made_of(offer, usd_per_hour=effective_price(offer))


def notes(rows: Sequence[JobRegionRow]) -> Iterator[str]:
    """What the figures leave out."""
    unknown = sorted({row.cloud for row in rows if row.usd is not None and not row.is_moved_known})
    if unknown:
        yield f"No price of what leaves {', '.join(unknown)} is published: none is counted"
