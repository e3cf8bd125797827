"""Which machines get a number of texts, images or recordings through an encoder by a deadline at least cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from os import PathLike
from typing import ClassVar

from gpufleet.api.batches import job_inputs, job_of
from gpufleet.api.demands import checked_headroom, inputs_of
from gpufleet.api.encoder_choices import EncoderChoices, encoder_choices, encoder_rows
from gpufleet.api.market import market_rows
from gpufleet.api.plans import digest
from gpufleet.api.price_age import refuse_old_prices
from gpufleet.api.price_ends import said_of_prices
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.encoder import EncoderModel
from gpufleet.optimize.batch import Job, JobMarket
from gpufleet.optimize.encoder_batch import EncoderJobQuestion, solve_encoder_batch
from gpufleet.results.base import Input
from gpufleet.results.encoder_batch import EncoderBatchPlan
from gpufleet.results.encoder_batch_plan import encoder_batch_plan


@dataclass(frozen=True)
class EncoderBatchRequest:
    """The question as it was asked; None takes the default. Lists name what is allowed.

    A request is a text of `input_tokens`, an image, or a recording of `audio_s` seconds (Whisper: one window unless
    said); `output_tokens` and `beams` are of models with a decoder (T5, Whisper); None takes the beams that the engine
    keeps. `deadline_s` runs from the start of the machines, which take `startup_s` before they work. `budget_usd` is
    for the whole job, which comes again every `period_s` (None: runs once); `confidence` is as in `BatchRequest`.
    Prices older than `max_price_age_s` on `today` end it with DataMissing.
    """

    model: str | PathLike[str] | EncoderModel
    requests: float
    deadline_s: float
    input_tokens: float | None = None
    output_tokens: float | None = None
    audio_s: float | None = None
    beams: int | None = None
    clouds: Sequence[str] | None = None
    regions: Sequence[str] | None = None
    pricing: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    precision: Sequence[str] | None = None
    engine: str | None = None
    headroom: float | None = None
    startup_s: float | None = None
    most_machines: int | None = None
    budget_usd: float | None = None
    period_s: float | None = None
    confidence: float | None = None
    rows: int = 10
    from_file: Collection[str] = ()
    from_config: Collection[str] = ()
    notes: Sequence[str] = ()
    max_price_age_s: float | None = None
    today: date | None = None
    price_change: float | None = None
    max_spot: ClassVar[float] = 1.0


def plan_encoder_batch(request: EncoderBatchRequest, catalog: Catalog | None = None) -> EncoderBatchPlan:
    """The cheapest machines that are done by the deadline, ranked, with what was rejected and why.

    >>> day = 24 * 3600
    >>> plan = plan_encoder_batch(EncoderBatchRequest("bge-base-en-v1.5", 1e7, day, input_tokens=200))
    >>> plan.answer.finish_s.value < plan.deadline_s
    True
    """
    tables = load_catalog() if catalog is None else catalog
    choices = encoder_choices(request, tables)
    if request.max_price_age_s is not None:
        refuse_old_prices(choices.market.offers, request.max_price_age_s, request.today or date.today())
    job = job_of(request, checked_headroom(request.headroom))
    in_inputs = replace(job, requests=job.requests * choices.any_encoder.num_windows)
    market = JobMarket(in_inputs, choices.market.offers, load_interruptions())
    question = EncoderJobQuestion(choices.encoders, choices.market.instances, market)
    solution = solve_encoder_batch(question, calibration_of(tables))
    inputs = understood(request, choices, job)
    hashed = digest(inputs, choices.market.offers)
    notes = [*choices.notes, *request.notes]
    plan = encoder_batch_plan(question, solution, inputs, tables.sources, hashed, notes, request.rows)
    return plan.model_copy(update={"notes": [*plan.notes, *said_of_prices(plan.deployments[:1], tables)]})


def understood(request: EncoderBatchRequest, choices: EncoderChoices, job: Job) -> list[Input]:
    """The question as it was read, each part with its origin."""
    headroom = ("headroom", "headroom", f"{job.headroom_ratio:.0%}", request.headroom is not None)
    rows = [*encoder_rows(request, choices), *market_rows(request, choices.market.offers), headroom]
    return [*job_inputs(request, job), *inputs_of(request, rows)]
