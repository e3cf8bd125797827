"""The plan of a solved job, whatever its model does with a request: when it is done and what it costs, with ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from gpufleet.answers.figures import spread_figure
from gpufleet.answers.plan_parts import Asked, machines_of, price_days, price_sources, rejection_counts
from gpufleet.answers.played_on_spot import played_figure, played_on_spot
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.interruption import Interruptions, Spread
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.copies.protocol import C_co, Copies, Model
from gpufleet.optimize.job import BatchQuestion, BatchSolution, Job, JobPlacement, what_binds
from gpufleet.optimize.market import effective_price
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.provenance import Grade, Source
from gpufleet.records import dataclass
from gpufleet.report.words import limit_words
from gpufleet.results.base import Figure
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.units import HOUR, KILO

C = TypeVar("C", bound=Copies)
R = TypeVar("R", bound=RentedJob)
P = TypeVar("P", bound=JobPlan)


@dataclass(frozen=True, eq=False)
class JobRanges:
    """A job of `requests` requests, and how far each candidate's time may lie from what is expected."""

    job: Job
    interruptions: Interruptions
    requests: float
    low_ratio: FloatArray
    high_ratio: FloatArray
    grades: Sequence[str]


def rented_job(ranges: JobRanges, p: JobPlacement) -> dict[str, Any]:
    """What every deployment of a job says of machines, price, finish and cost."""
    offer, finish = p.offer, finish_s(ranges, p)
    used, paid = (machine_s(ranges, p, time_s) for time_s in (p.used_s, p.paid_s))
    usd = usd_of(ranges, p)
    return {
        **machines_of(offer, p.instance, p.machines),
        "interruption": offer.interruption,
        "usd_per_hour": p.machines * effective_price(offer),
        "replicas": p.replicas,
        "requests_per_replica": p.requests_per_replica,
        "wave_s": p.wave_s,
        "work_s": p.work_s,
        "finish_s": finish,
        "used_s": used,
        "paid_s": paid,
        "usd": usd,
        "running_usd": p.running_usd(used.value),
        "usd_per_month": usd_per_month_of(usd.value, ranges.job),
        "usd_per_thousand_requests": per_unit(usd, ranges.requests / KILO),
        "interruptions": p.machines * p.per_hour.expected * p.work_s / HOUR,
        **hazard(ranges.interruptions, p.offer, p.per_hour),
        **({} if p.play is None else {"played": played_on_spot(p.play, seldom_usd(ranges, p).value)}),
        "repeated_ratio": max(1 - (ranges.job.startup_s + p.work_s) / used.value, 0.0),
        "binding": what_binds(ranges.job, p),
        "binding_limit": limit_words(what_binds(ranges.job, p)),
        "is_tight": (finish.high or finish.value) > ranges.job.deadline_s,
        "grade": ranges.grades[p.row],
    }


def hazard(known: Interruptions, offer: Offer, per_hour: Spread) -> dict[str, Any]:
    """How often a spot machine is taken away, and who says so."""
    if offer.price_kind is not PriceKind.SPOT:
        return {}
    band = offer.interruption
    grade = Grade.TRANSFERRED if known.is_published(band) else Grade.SEED_RULE
    rate = spread_figure(per_hour, "1/h", grade.label)
    return {"interruptions_per_hour": rate, "interruption_source": known.source_of(band)}


def hazard_notes(known: Interruptions, deployments: Sequence[RentedJob], sources: Mapping[str, Source]) -> list[str]:
    """How often spot machines of the shown clouds are taken away: published, or a prior, with sources and days."""
    spot = [d for d in deployments if d.price_kind == PriceKind.SPOT.value]
    published = sorted({d.cloud for d in spot if known.is_published(d.interruption)})
    unpublished = sorted({d.cloud for d in spot} - set(published))
    prior = known.per_hour_unknown
    notes = []
    if published:
        notes.append(
            f"Spot of {', '.join(published)}: bands are the share of machines reclaimed within a month "
            f"({dated(sources[known.source_of_bands])}); how long those ran is not published"
        )
    if unpublished:
        notes.append(
            f"Spot of {', '.join(unpublished)}: no rate is published, so a prior is used: "
            f"{prior.expected:.2g} ({prior.low:.6f}-{prior.high:.2g}) an hour, from "
            f"{'; '.join(dated(sources[id_]) for id_ in known.sources)}. Do not compare clouds by it"
        )
    return notes


def dated(source: Source) -> str:
    """A source with its day."""
    return f"{source.id} {source.as_of or 'undated'}"


def usd_per_month_of(usd: float, job: Job) -> float | None:
    """What a month of jobs costs; None where the job runs once."""
    return None if job.period_s is None else float(usd_per_month(usd / (job.period_s / HOUR)))


def machine_s(ranges: JobRanges, p: JobPlacement, time_s: Callable[[float, float, float], float]) -> Figure:
    """What each machine runs, or is paid for.

    Fast and rarely interrupted, as expected, slow and often interrupted; or as played.
    """
    seldom = over_speeds(ranges, p, time_s)
    return seldom if p.play is None else played_figure(p.play.machine_s, seldom)


def usd_of(ranges: JobRanges, p: JobPlacement) -> Figure:
    """What the job costs, over the same."""
    seldom = seldom_usd(ranges, p)
    return seldom if p.play is None else played_figure(p.play.usd, seldom)


def seldom_usd(ranges: JobRanges, p: JobPlacement) -> Figure:
    """What the job costs where machines are taken away at the rate of their cloud's advisor alone."""
    return over_speeds(ranges, p, p.paid_s).changed(p.usd, "USD")


def over_speeds(ranges: JobRanges, p: JobPlacement, time_s: Callable[[float, float, float], float]) -> Figure:
    """A time at the fastest and the fewest interruptions, as expected, and at the slowest and the most."""
    startup, row = ranges.job.startup_s, p.row
    low = time_s(startup, p.work_s * float(ranges.low_ratio[row]), p.per_hour.low)
    high = time_s(startup, p.work_s * float(ranges.high_ratio[row]), p.per_hour.high)
    return seconds(ranges, row, low, time_s(startup, p.work_s, p.per_hour.expected), high)


def finish_s(ranges: JobRanges, p: JobPlacement) -> Figure:
    """When all is done, the waits for other machines included."""
    startup, row = ranges.job.startup_s, p.row
    low = p.elapsed_s(startup, p.work_s * float(ranges.low_ratio[row]), p.per_hour.low, p.wait_s.low)
    high = p.elapsed_s(startup, p.work_s * float(ranges.high_ratio[row]), p.per_hour.high, p.wait_s.high)
    expected = p.elapsed_s(startup, p.work_s, p.per_hour.expected, p.wait_s.expected)
    seldom = seconds(ranges, row, low, expected, high)
    return seldom if p.play is None else played_figure(p.play.elapsed_s, seldom)


def seconds(ranges: JobRanges, row: int, low: float, expected: float, high: float) -> Figure:
    """A time with its range."""
    return Figure(value=expected, unit="s", low=low, high=high, grade=ranges.grades[row])


def per_unit(usd: Figure, units: float) -> Figure:
    """What a unit of the job costs."""
    return usd.changed(lambda whole: whole / units)


def rate_figure(ranges: JobRanges, row: int, expected: float) -> Figure:
    """A rate moves against the time that it is made of."""
    return Figure(
        value=expected,
        unit="1/s",
        low=expected / float(ranges.high_ratio[row]),
        high=expected / float(ranges.low_ratio[row]),
        grade=ranges.grades[row],
    )


@dataclass(frozen=True, eq=False)
class JobContext(Generic[C_co]):
    """What turns placements into deployments."""

    question: BatchQuestion[Model[C_co]]
    solution: BatchSolution[C_co]
    ranges: JobRanges

    @classmethod
    def of(cls, question: BatchQuestion[Model[C_co]], solution: BatchSolution[C_co]) -> JobContext[C_co]:
        """Ranges and grades of all copies at their best batch."""
        copies, job = solution.copies, question.job
        bounds, labels = copies.time_ratios(solution.rates.best_batch)["latency"], [g.label for g in copies.grades]
        ranges = JobRanges(job, question.interruptions, job.requests, bounds.low_ratio, bounds.high_ratio, labels)
        return cls(question, solution, ranges)

    def requests_per_s(self, p: JobPlacement) -> float:
        """What all copies of a placement get done at their best batch."""
        per_copy = float(self.solution.rates.best_per_s[p.row]) / self.question.service.model.inputs_per_request
        return p.replicas * per_copy


@dataclass(frozen=True)
class JobKind(Generic[C, R, P]):
    """What jobs of one kind of model say beyond any job: their types, and figures of the plan and of a row."""

    plan: type[P]
    row: Callable[..., R]
    of_plan: Callable[[JobContext[C]], dict[str, Any]]
    of_row: Callable[[JobContext[C], JobPlacement], dict[str, Any]]


ANY_JOB: JobKind[Copies, RentedJob, JobPlan] = JobKind(JobPlan, RentedJob, lambda _: {}, lambda *_: {})


def job_plan(kind: JobKind[C, R, P], context: JobContext[C], asked: Asked) -> P:
    """The answer: so many deployments, cheapest first, with everything that was rejected."""
    question, solution, job = context.question, context.solution, context.question.job
    deployments = [job_deployment(kind, context, placed) for placed in solution.ranked[: asked.num_rows]]
    undated, unmeasured = (
        [] if p is None else [job_deployment(kind, context, p)] for p in (solution.undated, solution.unmeasured)
    )
    return kind.plan.made_of(
        job,
        asked,
        model=question.service.model.name,
        num_parameters=question.service.model.num_parameters,
        headroom_wanted_ratio=job.headroom_ratio,
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        num_layouts=solution.copies.num_layouts,
        num_configurations=solution.rates.num_configurations,
        num_offers=len(question.service.offers),
        undated_alternative=next(iter(undated), None),
        unmeasured_alternative=next(iter(unmeasured), None),
        price_sources=price_sources(price_days([*deployments, *undated, *unmeasured]), asked.sources),
        notes=[*asked.notes, *hazard_notes(question.interruptions, deployments, asked.sources)],
        **kind.of_plan(context),
    )


def job_deployment(kind: JobKind[C, R, P], context: JobContext[C], p: JobPlacement) -> R:
    """One placement with its finish and its cost, and their ranges."""
    copies, rates = context.solution.copies, context.solution.rates
    num_gpus = int(copies.num_devices[p.row])
    return kind.row(
        **rented_job(context.ranges, p),
        engine=copies.engine(p.row),
        weight_format=copies.weights(p.row),
        gpus_per_replica=num_gpus,
        idle_gpus=round(p.instance.gpu_count * p.machines) - p.replicas * num_gpus,
        batch=min(float(rates.best_batch[p.row]), p.requests_per_replica),
        largest_batch=float(copies.largest_batch[p.row]),
        requests_per_s=rate_figure(context.ranges, p.row, context.requests_per_s(p)),
        **kind.of_row(context, p),
    )
