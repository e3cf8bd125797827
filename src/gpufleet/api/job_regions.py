"""Where a job runs: the machines of its plan in every region that sells them, ranked by what the whole job costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from typing import Any

from gpufleet.answers.job_regions import JobFacts, job_region_plan
from gpufleet.api.envelope import in_full
from gpufleet.api.input_rows import digest
from gpufleet.api.job_ways import data_bytes, results_bytes, ways_of, weights_bytes
from gpufleet.api.jobs import spot_plays
from gpufleet.api.machine_notes import doubts_of, ending_soon
from gpufleet.api.market import offer_filter, refuse_too_old
from gpufleet.api.mixes import quota_of
from gpufleet.api.plan_files import notes_on_file
from gpufleet.api.regions import facts_of, refuse_unknown_year
from gpufleet.api.spoken import spoken
from gpufleet.catalog.areas import known_areas, regions_in
from gpufleet.catalog.egress import dearest_egress, egress_usd_per_gb
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import OfferFilter, allows, unpriced
from gpufleet.catalog.schema import Availability
from gpufleet.catalog.sites import grid_carbon, load_site_figures, power_usage, spread_of
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.user_places import regions_by_word
from gpufleet.catalog.what_if import asked_prices
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import Infeasible, UnknownName
from gpufleet.inputs.plan_file import OF_JOBS, read_job_plan
from gpufleet.optimize.job_regions import (
    JobAt,
    JobLimit,
    JobTerms,
    JobWay,
    Promise,
    RegionKey,
    RegionSite,
    job_at,
    judged,
    least_changes,
)
from gpufleet.optimize.mixes.terms import GpusAtMost
from gpufleet.pricing.commitment import TERM_KINDS
from gpufleet.questions.regions import JobRegionRequest
from gpufleet.questions.words import Word, refuse_out_of_range, words_of
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.job import JobPlan
from gpufleet.results.regions import JobRegionPlan, MovedBytes
from gpufleet.units import GB, KILO

NOT_SOLD, NO_PRICE, NO_DAY, BINDS_LONGER = "not_sold", "no_price", "no_day", "binds_longer"
STAYS_ELSEWHERE, SPOT_GANG = "job_stays_elsewhere", "spot_gang"
BUDGET, CARBON, GRID, QUOTA, HAD = "budget", "carbon", "grid", "quota", "machines to be had"


def plan_job_regions(
    request: JobRegionRequest | str | PathLike[str] | JobPlan, *, catalog: Catalog | None = None, **said: Any
) -> JobRegionPlan:
    """The cheapest region for a job, and of every other one what the job costs there or why it may not run there.

    `request`: the file of a plan of training or of a batch job, that plan, or a `JobRegionRequest`; words of it as
    keywords. Infeasible where the plan has no machines, or all that may be rented lies elsewhere.

    >>> from gpufleet import plan_batch
    >>> job = plan_batch("llama-3.1-8b", requests="1M", input_tokens=1000, output_tokens=200, deadline="24h")
    >>> plan_job_regions(job).is_feasible
    True
    """
    asked = request if isinstance(request, JobRegionRequest) else spoken(JobRegionRequest, request, said)
    refuse_out_of_range(asked)
    refuse_unknown_year(asked.year)
    tables = load_catalog() if catalog is None else catalog
    plan = asked.job if isinstance(asked.job, JobPlan) else read_job_plan(str(asked.job), OF_JOBS)
    if not plan.is_feasible:
        raise Infeasible(f"the plan for {plan.model} has no machines: nothing gets the job done")
    as_planned = replace(asked, pricing=asked.pricing or kinds_of(plan))
    placing = Placing(as_planned, plan, ways_of(plan, tables), tables)
    refuse_all_outside(asked, placing.outside, placing.regions)
    refuse_too_old(asked, [at.offer for found in placing.found.values() for at in found])
    found = with_doubts(answered(placing, inputs_of(asked, plan)), tables)
    return in_full(found.model_copy(update={"notes": [*notes_on_file(plan), *found.notes]}), tables, asked)


def kinds_of(plan: JobPlan) -> list[str] | None:
    """The price kinds that the question of a plan was about, where it says them."""
    said = next((each.value for each in plan.inputs if each.name == "price kinds"), None)
    return None if said is None else said.split(", ")


@dataclass(frozen=True, eq=False)
class Placing:
    """A job with its plan, the machines that get it done, and the tables that say where those are sold."""

    asked: JobRegionRequest
    plan: JobPlan
    ways: Sequence[JobWay]
    tables: Catalog

    @cached_property
    def wanted(self) -> OfferFilter:
        """Clouds, regions and price kinds by their right names."""
        return offer_filter(self.asked, self.tables, None)

    @cached_property
    def sold(self) -> list[Offer]:
        """All that may be rented, of whatever machine type."""
        return asked_prices(self.tables, self.wanted, self.asked.price_change)

    @cached_property
    def own_offers(self) -> list[Offer]:
        """Offers of machine types of the plan, at prices of every kind."""
        every = asked_prices(self.tables, replace(self.wanted, price_kinds=None), self.asked.price_change)
        return [offer for offer in every if self.ways_on(offer)]

    @cached_property
    def unpriced(self) -> frozenset[RegionKey]:
        """Regions where a machine type of the plan is sold at a price that is not known."""
        return frozenset((row.cloud, row.region) for row in unpriced(self.tables) if self.ways_on(row))

    @cached_property
    def regions(self) -> frozenset[RegionKey]:
        """Regions that are looked at: where anything is sold, whether or not its price is known."""
        allowed = {
            key
            for key in self.unpriced
            if allows(self.wanted.clouds, key[0]) and allows(self.wanted.regions, key[1]) and self.tables.is_open(*key)
        }
        return frozenset({(offer.cloud, offer.region) for offer in self.sold} | allowed)

    @cached_property
    def outside(self) -> frozenset[RegionKey]:
        """Regions where the job may not run, whatever it costs: it stays in an area."""
        areas = [regions_in(self.tables, area, None) for area in known_areas(self.asked.stay or (), self.tables)]
        within = {(r.cloud, r.region) for area in areas for r in area}
        return frozenset(key for key in self.regions if areas and key not in within)

    @cached_property
    def moved(self) -> MovedBytes:
        """Bytes of weights, of data where nobody says them as the text of their tokens, and of results."""
        each, said = load_site_figures().bytes_per_whole_token.value, self.asked.data_bytes
        return MovedBytes(
            weights_bytes=weights_bytes(self.plan),
            data_bytes=data_bytes(self.plan, each) if said is None else said,
            results_bytes=results_bytes(self.plan, each),
            lies_in=None if self.home is None else " ".join(self.home),
        )

    @cached_property
    def home(self) -> RegionKey | None:
        """Where weights and data lie, where that was said."""
        return None if self.asked.data_in is None else named_region(self.asked.data_in, self.tables)

    @cached_property
    def terms(self) -> JobTerms:
        """What holds of the job wherever it runs."""
        plan = self.plan
        held_s = plan.deadline_s if plan.period_s is None else plan.period_s
        plays = spot_plays(self.tables, self.sold, plan.deadline_s)
        promise = Promise(plan.deadline_s, plan.headroom_wanted_ratio, plan.confidence)
        return JobTerms(held_s, promise, load_interruptions(), plays)

    @cached_property
    def found(self) -> dict[RegionKey, list[JobAt]]:
        """The job through every offer that it may buy, by region."""
        found: dict[RegionKey, list[JobAt]] = {}
        dearest = dearest_egress(self.tables)
        for offer in self.sold:
            key = (offer.cloud, offer.region)
            ways = [way for way in self.ways_on(offer) if self.why_not(offer, way) is None and key not in self.outside]
            if ways:
                site = found[key][0].site if key in found else self.site(key, dearest)
                found.setdefault(key, []).extend(job_at(way, offer, site, self.terms) for way in ways)
        return found

    def ways_on(self, offer: Offer | Availability) -> list[JobWay]:
        """The ways whose machines are of the type that is offered."""
        sold = (offer.cloud, offer.instance)
        return [way for way in self.ways if (way.instance.cloud, way.instance.name) == sold]

    def why_not(self, offer: Offer, way: JobWay) -> str | None:
        """The code of why a way is not bought through an offer of its machines; None: it is."""
        if not offer.is_dated:
            return NO_DAY
        if offer.price_kind in TERM_KINDS and self.plan.period_s is None:
            return BINDS_LONGER
        return SPOT_GANG if offer.price_kind is PriceKind.SPOT and not way.may_be_on_spot else None

    def against(self) -> dict[RegionKey, str]:
        """Why the job is not bought where it is not: the code for each region."""
        unbought = {
            (offer.cloud, offer.region): why
            for offer in self.sold
            for way in self.ways_on(offer)
            if (why := self.why_not(offer, way)) is not None
        }
        outside = dict.fromkeys(self.outside, STAYS_ELSEWHERE)
        return {
            **dict.fromkeys(self.regions, NOT_SOLD),
            **dict.fromkeys(self.unpriced, NO_PRICE),
            **unbought,
            **outside,
        }

    def site(self, key: RegionKey, dearest: Mapping[str, float]) -> RegionSite:
        """What a region adds to the job."""
        year, over_gpu = self.asked.year, load_site_figures().machine_over_gpu_watts
        grid, usage = grid_carbon(self.tables, *key, year), power_usage(*key, year)
        parts = self.moved_usd(key, dearest)
        known = [usd for usd in parts if usd is not None]
        intensity = None if grid is None else grid.g_co2e_per_kwh
        return RegionSite(intensity, spread_of(over_gpu), usage.ratio, sum(known), len(known) == len(parts))

    def moved_usd(self, key: RegionKey, dearest: Mapping[str, float]) -> list[float | None]:
        """What copies cost: of weights and data from where they lie, of results back there or out; None: no price."""
        come = 0.0 if self.home is None else egress_usd_per_gb(self.tables, self.home, key, dearest)
        leave = egress_usd_per_gb(self.tables, key, self.home, dearest)
        moved = self.moved
        parts = [(moved.weights_bytes + (moved.data_bytes or 0.0), come), (moved.results_bytes, leave)]
        return [None if usd is None else size / GB * usd for size, usd in parts if size > 0]

    def limits(self) -> Iterator[JobLimit]:
        """What was said that a way through a region keeps; own tables may say how many machines can be had."""
        asked = self.asked
        yield JobLimit(QUOTA, HAD, 0.0, lambda at: 0.0 if at.offer.can_supply(at.way.machines) else at.way.machines)
        for said in asked.quotas or ():
            quota = quota_of(said, self.tables)
            yield JobLimit(QUOTA, said, float(quota.most_gpus), partial(gpus_under, quota))
        if asked.max_grid is not None:
            yield JobLimit(GRID, GRID, asked.max_grid, grid_of)
        if asked.budget_usd is not None:
            yield JobLimit(BUDGET, BUDGET, asked.budget_usd, lambda at: at.usd)
        if asked.carbon_budget is not None:
            yield JobLimit(CARBON, CARBON, asked.carbon_budget, kg_at_most)


def gpus_under(quota: GpusAtMost, at: JobAt) -> float:
    """GPUs of a job that count for a quota."""
    return at.way.num_gpus if quota.covers(at.offer, at.way.instance) else 0.0


def grid_of(at: JobAt) -> float | None:
    """What the grid emits   [g/kWh]."""
    return None if at.site.grid_g_per_kwh is None else at.site.grid_g_per_kwh.expected


def kg_at_most(at: JobAt) -> float | None:
    """What the job emits at the high end   [kg]."""
    return None if at.g_co2e is None else at.g_co2e.high / KILO


def named_region(words: str, tables: Catalog) -> RegionKey:
    """The region that words name, alone or after its cloud."""
    known = regions_by_word(tables)
    found = known.get(words.strip().casefold())
    if found is None:
        raise UnknownName("region", words, known, hint="Such as aws:us-east-1; 'gpufleet catalog regions' lists all.")
    return found.cloud, found.region


def refuse_all_outside(asked: JobRegionRequest, outside: Collection[RegionKey], regions: Collection[RegionKey]) -> None:
    """Refuse areas in which nothing is sold that may be rented."""
    if regions and len(outside) == len(regions):
        raise Infeasible(
            f"the job has to stay in {' or '.join(asked.stay or ())}, where nothing allowed is sold",
            hint="Allow a region there (--regions), a cloud (--clouds), or leave the area out of --stay.",
        )


def answered(placing: Placing, inputs: Sequence[Input]) -> JobRegionPlan:
    """Every region judged; where none runs the job, the least that would help."""
    limits, terms = list(placing.limits()), placing.terms
    verdicts = {key: judged(found, limits, terms) for key, found in placing.found.items()}
    is_none = not any(verdict.best for verdict in verdicts.values())
    told = JobFacts(
        plan=placing.plan,
        ways=placing.ways,
        facts=facts_of(placing.regions, placing.asked.year, placing.tables, {}),
        verdicts=verdicts,
        against=placing.against(),
        offers=placing.own_offers,
        zones={(row.cloud, row.region, row.instance): row.num_zones for row in placing.tables.availability},
        moved=placing.moved,
        changes=least_changes(placing.found, limits, terms) if is_none else {},
        most={limit.name: limit.most for limit in limits},
        inputs=inputs,
        sources=placing.tables.sources,
        input_hash=digest(inputs, placing.sold),
    )
    return job_region_plan(told)


def with_doubts(found: JobRegionPlan, tables: Catalog) -> JobRegionPlan:
    """The answer with what is to be said of its price, and of the other prices in doubt."""
    rented = [row.machines for row in found.regions if row.machines is not None]
    said = [*doubts_of(rented[:1], rented), *ending_soon(rented[:1], tables.now)]
    return found.model_copy(update={"notes": [*said, *found.notes]})


def inputs_of(asked: JobRegionRequest, plan: JobPlan) -> list[Input]:
    """What was said of regions, and the question of the plan that its answer rests on."""
    rows = [row for row in words_of(JobRegionRequest).values() if row.field]
    said = ((row, getattr(asked, row.field)) for row in rows)
    given = [
        Input(name=row.label or row.name, value=shown(row, v), origin="given")
        for row, v in said
        if v is not None and row.field in asked.said
    ]
    return [*given, Input(name="plan", value=plan.input_hash, origin="file")]


def shown(row: Word[Any], value: Any) -> str:
    """A value of a word, as an answer records it."""
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(row.shown(value))
