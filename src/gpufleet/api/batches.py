"""Which machines get a number of requests done by a deadline at least cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from os import PathLike
from typing import Protocol

from gpufleet.api.demands import Said, checked_confidence, demand_notes, inputs_of
from gpufleet.api.launches import batch_launches, launched
from gpufleet.api.plans import digest, market_question, understood
from gpufleet.api.price_ends import said_of_prices
from gpufleet.api.remarks import beyond_context, unmeasured_kernels
from gpufleet.api.requests import ServeRequest
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.slices import SLICE_NOTE
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.optimize.batch import MOST_MACHINES, BatchQuestion, Job, solve_batch
from gpufleet.optimize.serve import ServeQuestion
from gpufleet.results.base import Input
from gpufleet.results.batch import BatchPlan
from gpufleet.results.batch_plan import batch_plan
from gpufleet.units import DAY, HOUR, HOURS_PER_YEAR, MINUTE

DEFAULT_STARTUP_S, LONGEST_S = 10 * MINUTE, HOURS_PER_YEAR * HOUR
MOST_REQUESTS = 1e12
NOT_OF_JOBS = ("rate", "objectives", "least replicas", "most on spot")


@dataclass(frozen=True)
class BatchRequest:
    """The question as it was asked; None takes the default. Lists name what is allowed.

    Token counts are one number, or counts that differ from request to request. `deadline_s` runs from the start of the
    machines, which take `startup_s` before they work. `budget_usd` is for the whole job, which comes
    again every `period_s` (None: runs once, and buys nothing for a term). It is done in time with `confidence`, from
    0.5 (the expected value; so where None) over 0.9 (the high end of every range). `fractions` also plans
    machines that hold a slice of a GPU; prices older than `max_price_age_s` on `today` end it with DataMissing.
    """

    model: str | PathLike[str] | Architecture
    requests: float
    input_tokens: float | TokenCounts
    output_tokens: float | TokenCounts
    deadline_s: float
    clouds: Sequence[str] | None = None
    regions: Sequence[str] | None = None
    pricing: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    precision: Sequence[str] | None = None
    allow_lower_precision: bool = False
    kv_precision: str | None = None
    engine: str | None = None
    headroom: float | None = None
    prefix_cache: float | None = None
    startup_s: float | None = None
    most_machines: int | None = None
    budget_usd: float | None = None
    period_s: float | None = None
    confidence: float | None = None
    rows: int = 10
    from_file: Collection[str] = ()
    from_config: Collection[str] = ()
    notes: Sequence[str] = ()
    price_change: float | None = None
    fractions: bool = False
    max_price_age_s: float | None = None
    today: date | None = None


def plan_batch(request: BatchRequest, catalog: Catalog | None = None) -> BatchPlan:
    """The cheapest machines that are done by the deadline, ranked, with what was rejected and why.

    >>> plan = plan_batch(BatchRequest("llama-3.1-8b", 1e6, 1000, 200, deadline_s=24 * 3600))
    >>> plan.answer.finish_s.value < plan.deadline_s
    True
    """
    tables = load_catalog() if catalog is None else catalog
    arch = request.model if isinstance(request.model, Architecture) else read_model(
        str(request.model), shipped_architecture
    )  # fmt: skip
    service = as_service(request)
    tables, question, notes = market_question(service, arch, tables)
    job = job_of(request, question.demand.headroom_ratio, longest_ratio(question))
    asked = BatchQuestion(question, job, load_interruptions())
    solution = solve_batch(asked, calibration_of(tables))
    inputs = [*job_inputs(request, job), *(i for i in understood(service, question) if i.name not in NOT_OF_JOBS)]
    demand = question.demand
    notes += [SLICE_NOTE] if request.fractions else []
    notes += [*request.notes, *demand_notes(demand, has_objectives=False)]
    notes += [*beyond_context(arch, demand.mix.longest_tokens), *unmeasured_kernels(arch), *arch.notes]
    hashed = digest(inputs, question.offers)
    plan = batch_plan(asked, solution, inputs, tables.sources, hashed, notes, request.rows)
    launches = batch_launches(request.model, asked, solution, len(plan.deployments))
    ends = said_of_prices(plan.deployments[:1], tables)
    return plan.model_copy(update={"deployments": launched(plan.deployments, launches), "notes": [*plan.notes, *ends]})


def as_service(request: BatchRequest) -> ServeRequest:
    """The same model, lengths and market as of a service: what may be combined and bought, spot too."""
    return ServeRequest(
        request.model,
        1.0,
        request.input_tokens,
        request.output_tokens,
        clouds=request.clouds,
        regions=request.regions,
        pricing=request.pricing,
        max_spot=1.0,
        gpus=request.gpus,
        precision=request.precision,
        allow_lower_precision=request.allow_lower_precision,
        kv_precision=request.kv_precision,
        engine=request.engine,
        headroom=request.headroom,
        prefix_cache=request.prefix_cache,
        rows=request.rows,
        from_file=request.from_file,
        from_config=request.from_config,
        fractions=request.fractions,
        max_price_age_s=request.max_price_age_s,
        today=request.today,
        price_change=request.price_change,
    )


class JobWishes(Said, Protocol):
    """What a request says of a job; None takes the default."""

    @property
    def requests(self) -> float:
        """How many there are."""

    @property
    def deadline_s(self) -> float:
        """When all are done, from the start of the machines."""

    @property
    def startup_s(self) -> float | None:
        """How long machines take before they work."""

    @property
    def most_machines(self) -> int | None:
        """How many machines may be rented."""

    @property
    def budget_usd(self) -> float | None:
        """What the whole job may cost."""

    @property
    def period_s(self) -> float | None:
        """After which time the job comes again; None: it runs once."""

    @property
    def confidence(self) -> float | None:
        """How surely it is done in time; the expected value unless said."""


def job_of(request: JobWishes, headroom_ratio: float, longest_ratio: float = 1.0) -> Job:
    """The job, checked."""
    startup_s = DEFAULT_STARTUP_S if request.startup_s is None else request.startup_s
    most = MOST_MACHINES if request.most_machines is None else request.most_machines
    budget = math.inf if request.budget_usd is None else request.budget_usd
    if not 1 <= request.requests <= MOST_REQUESTS:
        expected = f"from 1 to {MOST_REQUESTS:,.0f}"
        raise UsageError("the number of requests is out of range", found=request.requests, expected=expected)
    for what, found in (("the deadline", request.deadline_s), ("the time to start", startup_s)):
        if not 0 <= found <= LONGEST_S:
            raise UsageError(f"{what} is out of range", found=f"{found:g} s", expected="up to a year")
    if not startup_s < request.deadline_s:
        hint = "Machines and engines need time before they work; --startup says how much."
        expected = f"more than the {startup_s / MINUTE:g} min that machines take to start"
        raise UsageError("the deadline leaves no time", found=f"{request.deadline_s:g} s", expected=expected, hint=hint)
    if not 1 <= most <= MOST_MACHINES:
        expected = f"from 1 to {MOST_MACHINES:,}"
        raise UsageError("the number of machines is out of range", found=most, expected=expected)
    if not budget > 0:
        raise UsageError("the budget is out of range", found=budget, expected="USD above 0")
    period_s = checked_period(request.period_s, request.deadline_s)
    return Job(
        request.requests, request.deadline_s, startup_s, headroom_ratio, longest_ratio, most, budget, period_s,
        checked_confidence(request.confidence),
    )  # fmt: skip


def checked_period(period_s: float | None, deadline_s: float) -> float | None:
    """A job is done before it comes again."""
    if period_s is not None and not deadline_s <= period_s <= LONGEST_S:
        expected = f"from its deadline ({deadline_s / HOUR:g} h) to a year"
        raise UsageError("the job comes again too soon or too late", found=f"{period_s / HOUR:g} h", expected=expected)
    return period_s


def longest_ratio(question: ServeQuestion) -> float:
    """The longest answer over the mean one."""
    return max((c.output_tokens.most / c.output_tokens.mean for c in question.demand.workload.classes), default=1.0)


def job_inputs(request: JobWishes, job: Job) -> list[Input]:
    """What only jobs have, as it was read."""
    rows: list[tuple[str, str, str, object]] = [
        ("requests", "requests", f"{request.requests:,.0f}", True),
        ("deadline", "deadline", f"{job.deadline_s / HOUR:g} h" + in_days(job.deadline_s), True),
        ("time to start", "startup", f"{job.startup_s / MINUTE:g} min", request.startup_s is not None),
    ]
    if request.most_machines is not None:
        rows.append(("most machines", "most_machines", str(job.most_machines), True))
    if request.budget_usd is not None:
        rows.append(("budget", "budget", f"${job.most_usd:,.2f}", True))
    if request.confidence is not None:
        rows.append(("confidence", "confidence", f"{job.confidence:.3g}", True))
    if job.period_s is not None:
        rows.append(("comes again", "every", f"every {job.period_s / HOUR:g} h", True))
    return inputs_of(request, rows)


def in_days(seconds: float) -> str:
    """Days beside hours, where they are whole."""
    return f" ({seconds / DAY:g} days)" if seconds % DAY == 0 and seconds > DAY else ""
