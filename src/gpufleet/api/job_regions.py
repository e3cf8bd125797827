"""Where a job runs: the machines of its plan in every region that sells them, ranked by what the whole job costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

from gpufleet.answers.job_regions import JobFacts, job_region_plan
from gpufleet.answers.regions import RegionFacts
from gpufleet.api.input_rows import digest
from gpufleet.api.market import offer_filter, offers_of
from gpufleet.api.mixes import quota_of
from gpufleet.api.price_age import refuse_too_old
from gpufleet.api.price_ends import doubts_of, ending_soon
from gpufleet.api.regions import dearest_egress, egress_usd_per_gb, facts_of, is_clean, known_areas, refuse_unknown_year
from gpufleet.api.spoken import spoken
from gpufleet.api.spot_plays import spot_plays
from gpufleet.catalog.areas import regions_in
from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_instance, unpriced
from gpufleet.catalog.sites import load_site_figures
from gpufleet.catalog.sites import spread_of as spread_of_figure
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.catalog.user_places import regions_by_word
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import Offer
from gpufleet.domain.precision import BF16, PRECISIONS
from gpufleet.errors import Infeasible, UnknownName
from gpufleet.inputs.job_plan_file import OF_JOBS, read_job_plan
from gpufleet.optimize.job_regions import (
    BatchRun,
    JobAt,
    JobLimit,
    JobTerms,
    JobWay,
    RegionKey,
    RegionSite,
    Run,
    TrainingRun,
    job_at,
    judged,
    least_changes,
)
from gpufleet.optimize.mixes.terms import GpusAtMost
from gpufleet.pricing.commitment import TERM_KINDS
from gpufleet.pricing.energy import kwh_per_hour
from gpufleet.questions.regions import JobRegionRequest
from gpufleet.questions.words import refuse_out_of_range, words_of
from gpufleet.results.base import Input
from gpufleet.results.batch import BatchPlan
from gpufleet.results.encoder_batch import EncoderBatchPlan
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.results.regions import JobRegionPlan, MovedBytes
from gpufleet.results.training import TrainingDeployment, TrainingPlan
from gpufleet.units import GB, HOUR, KILO

NOT_SOLD, NO_PRICE, NO_DAY, BINDS_LONGER = "not_sold", "no_price", "no_day", "binds_longer"
STAYS_ELSEWHERE, GRID = "job_stays_elsewhere", "grid"
BUDGET, CARBON, QUOTA, HAD = "budget", "carbon", "quota", "machines to be had"


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
    return placed_job(as_planned, plan, inputs_of(asked, plan), tables)


def kinds_of(plan: JobPlan) -> list[str] | None:
    """The price kinds that the question of a plan was about, where it says them."""
    said = next((each.value for each in plan.inputs if each.name == "price kinds"), None)
    return None if said is None else said.split(", ")


def placed_job(asked: JobRegionRequest, plan: JobPlan, inputs: list[Input], tables: Catalog) -> JobRegionPlan:
    """The answer for a plan that has machines."""
    ways = ways_of(plan, tables)
    sold = offers_of(asked, tables, offer_filter(asked, tables, None))
    regions = {(offer.cloud, offer.region) for offer in sold}
    facts, moved = facts_of(regions, asked.year, tables, {}), moved_of(plan, asked, tables)
    out = outside(asked, regions, tables)
    refuse_all_outside(asked, out, regions)
    found, against = placed_in(asked, plan, ways, sold, out, facts, moved, tables)
    terms, limits = terms_of(plan, sold, tables), list(limits_of(asked, tables))
    verdicts = {key: judged(each, limits, terms) for key, each in found.items()}
    is_none = not any(verdict.best for verdict in verdicts.values())
    told = JobFacts(
        plan=plan,
        ways=ways,
        facts=facts,
        verdicts=verdicts,
        against={**dict.fromkeys(regions, NOT_SOLD), **against, **out},
        offers=of_every_kind(asked, ways, tables),
        zones={(row.cloud, row.region, row.instance): row.num_zones for row in tables.availability},
        moved=moved,
        changes=least_changes(found, limits, terms) if is_none else {},
        most={limit.name: limit.most for limit in limits},
        inputs=inputs,
        sources=tables.sources,
        input_hash=digest(inputs, sold),
    )
    return with_doubts(job_region_plan(told), tables)


def with_doubts(found: JobRegionPlan, tables: Catalog) -> JobRegionPlan:
    """The answer with what is to be said of its price, and of the other prices in doubt."""
    rented = [row.machines for row in found.regions if row.machines is not None]
    said = [*doubts_of(rented[:1], rented), *ending_soon(rented[:1], tables.now)]
    return found.model_copy(update={"notes": [*said, *found.notes]})


def ways_of(plan: JobPlan, tables: Catalog) -> list[JobWay]:
    """The machines of every row of a plan, each once: rows that differ in their price alone are one."""
    found: dict[tuple[str, str, int], JobWay] = {}
    for row in plan.deployments:
        key = (row.cloud, row.instance, row.instance_count)
        if key not in found:
            found[key] = way_of(plan, row, resolve_instance(tables, f"{row.cloud}:{row.instance}"), tables)
    return list(found.values())


def way_of(plan: JobPlan, row: RentedJob, instance: Instance, tables: Catalog) -> JobWay:
    """One row of a plan as machines that may stand anywhere."""
    low, high = row.work_ratios
    is_training = isinstance(row, TrainingDeployment)
    return JobWay(
        instance,
        row.instance_count,
        Spread(row.work_s * min(low, 1.0), row.work_s, row.work_s * max(high, 1.0)),
        run_of(plan, row, tables),
        plan.startup_s,
        row.checkpoint_write_s if isinstance(row, TrainingDeployment) else 0.0,
        None if is_training else row.wave_s,
        drawn_kwh_per_hour(row, instance, tables),
        row.finish_s.grade,
    )


def run_of(plan: JobPlan, row: RentedJob, tables: Catalog) -> Run:
    """How the work of a row becomes time."""
    if not isinstance(row, TrainingDeployment):
        return BatchRun(plan.startup_s, row.wave_s)
    failures = load_failures().per_gpu_hour(tables.accelerators[row.gpu].generation).expected
    gpus = row.instance_count * row.gpus_per_instance
    recovery_s = load_training_runs().recovery_s.value
    return TrainingRun(plan.startup_s, row.checkpoint_write_s, recovery_s, gpus, row.instance_count, failures)


def drawn_kwh_per_hour(row: RentedJob, instance: Instance, tables: Catalog) -> float | None:
    """What the GPUs of all machines draw while they run: as a plan of training says, else those that hold replicas."""
    if isinstance(row, TrainingDeployment):
        return None if row.energy_kwh is None else row.energy_kwh.value / row.paid_s.value * HOUR
    watts = tables.accelerators[instance.accelerator].board_power_watts
    gpus = row.instance_count * instance.gpu_count - row.idle_gpus
    return None if watts is None else float(kwh_per_hour(watts, gpus, 1.0))


def moved_of(plan: JobPlan, asked: JobRegionRequest, tables: Catalog) -> MovedBytes:
    """Bytes of weights, of data where nobody says them as the text of their tokens, and of results."""
    each = load_site_figures().bytes_per_whole_token.value
    data, results = text_bytes(plan, each)
    lies_in = None if asked.data_in is None else " ".join(named_region(asked.data_in, tables))
    return MovedBytes(
        weights_bytes=weights_bytes(plan),
        data_bytes=data if asked.data_bytes is None else asked.data_bytes,
        results_bytes=results,
        lies_in=lies_in,
    )


def weights_bytes(plan: JobPlan) -> float:
    """Bytes of the weights that a job begins with."""
    if isinstance(plan, TrainingPlan):
        return plan.num_parameters * BF16.bytes_per_element
    stored = PRECISIONS.get(plan.deployments[0].weight_format, BF16)
    return plan.num_parameters * stored.bytes_per_element


def text_bytes(plan: JobPlan, bytes_per_token: float) -> tuple[float, float]:
    """Bytes of what a job reads and of what it leaves; images and audio are not known."""
    if isinstance(plan, TrainingPlan):
        return plan.tokens * bytes_per_token, plan.num_trained_parameters * BF16.bytes_per_element
    if isinstance(plan, BatchPlan):
        each = plan.requests * bytes_per_token
        return each * plan.input_tokens, each * plan.output_tokens
    written = plan.output_tokens if isinstance(plan, EncoderBatchPlan) else None
    return 0.0, plan.requests * (written or 0.0) * bytes_per_token


def named_region(words: str, tables: Catalog) -> RegionKey:
    """The region that words name, alone or after its cloud."""
    known = regions_by_word(tables)
    found = known.get(words.strip().casefold())
    if found is None:
        raise UnknownName("region", words, known, hint="Such as aws:us-east-1; 'gpufleet catalog regions' lists all.")
    return found.cloud, found.region


def outside(asked: JobRegionRequest, regions: Iterable[RegionKey], tables: Catalog) -> dict[RegionKey, str]:
    """Regions where the job may not run whatever it costs, and why: it stays in an area, or their grid emits more."""
    areas = [regions_in(tables, area, None) for area in known_areas(asked.stay or (), tables)]
    within = {(r.cloud, r.region) for area in areas for r in area}
    found = {key: STAYS_ELSEWHERE for key in regions if areas and key not in within}
    most = asked.max_grid
    if most is not None:
        dirty = (key for key in regions if not is_clean(*key, most, asked.year, tables))
        found = {**dict.fromkeys(dirty, GRID), **found}
    return found


def refuse_all_outside(asked: JobRegionRequest, out: Mapping[RegionKey, str], regions: Collection[RegionKey]) -> None:
    """Refuse areas in which nothing is sold that may be rented."""
    if regions and all(out.get(key) == STAYS_ELSEWHERE for key in regions):
        raise Infeasible(
            f"the job has to stay in {' or '.join(asked.stay or ())}, where nothing allowed is sold",
            hint="Allow a region there (--regions), a cloud (--clouds), or leave the area out of --stay.",
        )


def placed_in(
    asked: JobRegionRequest,
    plan: JobPlan,
    ways: Sequence[JobWay],
    sold: Sequence[Offer],
    out: Mapping[RegionKey, str],
    facts: Mapping[RegionKey, RegionFacts],
    moved: MovedBytes,
    tables: Catalog,
) -> tuple[dict[RegionKey, list[JobAt]], dict[RegionKey, str]]:
    """The job through every offer that it may buy, by region; and why others cannot be bought."""
    terms, sites = terms_of(plan, sold, tables), dict(sites_of(asked, facts, moved, tables))
    found: dict[RegionKey, list[JobAt]] = {}
    against = {(row.cloud, row.region): NO_PRICE for row in unpriced(tables) if is_of(row.cloud, row.instance, ways)}
    bought: list[Offer] = []
    for offer in (o for o in sold if is_of(o.cloud, o.instance, ways)):
        key = (offer.cloud, offer.region)
        why = NO_DAY if not offer.is_dated else BINDS_LONGER if binds_longer(offer, plan) else None
        if why is not None:
            against[key] = why
        elif key not in out:
            bought.append(offer)
            of_type = (way for way in ways if (way.instance.cloud, way.instance.name) == (offer.cloud, offer.instance))
            found.setdefault(key, []).extend(job_at(way, offer, sites[key], terms) for way in of_type)
    refuse_too_old(asked, bought)
    return found, against


def is_of(cloud: str, instance: str, ways: Iterable[JobWay]) -> bool:
    """Whether a machine type is among those of a plan."""
    return any((way.instance.cloud, way.instance.name) == (cloud, instance) for way in ways)


def binds_longer(offer: Offer, plan: JobPlan) -> bool:
    """Whether a price binds for longer than a job that runs once."""
    return offer.price_kind in TERM_KINDS and plan.period_s is None


def of_every_kind(asked: JobRegionRequest, ways: Sequence[JobWay], tables: Catalog) -> list[Offer]:
    """Offers of machine types of the plan at prices of every kind."""
    wanted = replace(offer_filter(asked, tables, None), price_kinds=None)
    return [offer for offer in offers_of(asked, tables, wanted) if is_of(offer.cloud, offer.instance, ways)]


def terms_of(plan: JobPlan, sold: Sequence[Offer], tables: Catalog) -> JobTerms:
    """What holds of the job wherever it runs."""
    held_s = plan.deadline_s if plan.period_s is None else plan.period_s
    return JobTerms(held_s, plan.confidence, load_interruptions(), spot_plays(tables, sold, plan.deadline_s))


def sites_of(
    asked: JobRegionRequest, facts: Mapping[RegionKey, RegionFacts], moved: MovedBytes, tables: Catalog
) -> Iterator[tuple[RegionKey, RegionSite]]:
    """What each region adds to the job."""
    lies_in = None if asked.data_in is None else named_region(asked.data_in, tables)
    over_gpu, dearest = spread_of_figure(load_site_figures().machine_over_gpu_watts), dearest_egress(tables)
    for key, known in facts.items():
        grid = None if known.grid is None else known.grid.g_co2e_per_kwh
        parts = moved_usd(key, lies_in, moved, dearest, tables)
        known_usd = [usd for usd in parts if usd is not None]
        yield key, RegionSite(grid, over_gpu, known.usage.ratio, sum(known_usd), len(known_usd) == len(parts))


def moved_usd(
    key: RegionKey, lies_in: RegionKey | None, moved: MovedBytes, dearest: Mapping[str, float], tables: Catalog
) -> list[float | None]:
    """What copies cost: of weights and data from where they lie, of results back there or out; None: no price."""
    come = 0.0 if lies_in is None else egress_usd_per_gb(tables, lies_in, key, dearest)
    leave = egress_usd_per_gb(tables, key, lies_in, dearest)
    parts = [(moved.weights_bytes + moved.data_bytes, come), (moved.results_bytes, leave)]
    return [None if usd is None else size / GB * usd for size, usd in parts if size > 0]


def limits_of(asked: JobRegionRequest, tables: Catalog) -> Iterator[JobLimit]:
    """What was said that a way through a region has to keep; own tables may say how many machines can be had."""
    yield JobLimit(QUOTA, HAD, 0.0, lambda at: 0.0 if at.offer.can_supply(at.way.machines) else at.way.machines)
    for said in asked.quotas or ():
        yield JobLimit(
            QUOTA, said, float(quota_of(said, tables).most_gpus), partial(gpus_under, quota_of(said, tables))
        )
    if asked.budget_usd is not None:
        yield JobLimit(BUDGET, BUDGET, asked.budget_usd, lambda at: at.usd)
    if asked.carbon_budget is not None:
        yield JobLimit(CARBON, CARBON, asked.carbon_budget, kg_at_most)


def gpus_under(quota: GpusAtMost, at: JobAt) -> float:
    """GPUs of a job that count for a quota."""
    return at.way.num_gpus if quota.covers(at.offer, at.way.instance) else 0.0


def kg_at_most(at: JobAt) -> float | None:
    """What the job emits at the high end   [kg]."""
    return None if at.g_co2e is None else at.g_co2e.high / KILO


def inputs_of(asked: JobRegionRequest, plan: JobPlan) -> list[Input]:
    """What was said of regions, and the question of the plan that its answer rests on."""
    rows = [row for row in words_of(JobRegionRequest).values() if row.field]
    said = [(row, getattr(asked, row.field)) for row in rows]
    given = [
        Input(name=row.label or row.name, value=shown(row, value), origin="given")
        for row, value in said
        if value is not None
    ]
    return [*given, Input(name="plan", value=plan.input_hash, origin="file")]


def shown(row: Any, value: Any) -> str:
    """A value of a word, as an answer records it."""
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(row.shown(value))
