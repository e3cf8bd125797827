"""Which page shows a plan: the ranking alone for CSV, everything else in as many columns as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpufleet.catalog.current_date import current_date
from gpufleet.cli.emit import page_width
from gpufleet.cli.options import OutputFormat
from gpufleet.report.detail import WHOLE, Details
from gpufleet.report.page import Page
from gpufleet.results.plan import ServePlan, ServicePlan

if TYPE_CHECKING:
    from gpufleet.report.job_page import JobWords
    from gpufleet.results.encoders import EncoderBatchPlan, EncoderServePlan
    from gpufleet.results.fleet import FleetPlan
    from gpufleet.results.job import BatchPlan, JobPlan
    from gpufleet.results.training import TrainingPlan

UNBOUNDED_WIDTH = 1000
P = TypeVar("P", bound="JobPlan")


def serve_page(
    plan: ServePlan | EncoderServePlan | FleetPlan,
    chosen: OutputFormat,
    *,
    explain: bool,
    details: Details,
    all_flips: bool = False,
    num_rows: int | None = None,
) -> Page:
    """The page of a service, of a model that writes or of an encoder, or of several models together."""
    if isinstance(plan, ServePlan):
        return decoder_page(plan, chosen, explain=explain, details=details, all_flips=all_flips, num_rows=num_rows)
    if isinstance(plan, ServicePlan):
        return encoder_page(plan, chosen, explain=explain, details=details, num_rows=num_rows)
    from gpufleet.report.fleet_plan import fleet_page, fleet_rows_page

    if chosen is OutputFormat.CSV:
        return fleet_rows_page(plan)
    return fleet_page(plan, explain=explain, details=details, today=current_date())


def decoder_page(
    plan: ServePlan, chosen: OutputFormat, *, explain: bool, details: Details, all_flips: bool, num_rows: int | None
) -> Page:
    """The page of a service of a model that writes."""
    from gpufleet.report.plan import plan_page, plan_rows_page

    if chosen is OutputFormat.CSV:
        return plan_rows_page(plan)
    width = width_of(chosen)
    return plan_page(
        plan,
        explain=explain,
        details=held_by(chosen, details),
        all_flips=all_flips,
        today=current_date(),
        width=width,
        num_rows=num_rows,
    )


def encoder_page(
    plan: EncoderServePlan, chosen: OutputFormat, *, explain: bool, details: Details, num_rows: int | None
) -> Page:
    """The page of a service of an encoder."""
    from gpufleet.report.encoder_service import WORDS
    from gpufleet.report.service_page import service_page, service_rows_page

    if chosen is OutputFormat.CSV:
        return service_rows_page(plan, WORDS)
    width = width_of(chosen)
    shown = held_by(chosen, details)
    return service_page(
        plan, WORDS, explain=explain, details=shown, today=current_date(), width=width, num_rows=num_rows
    )


def batch_page(
    plan: BatchPlan | EncoderBatchPlan,
    chosen: OutputFormat,
    *,
    explain: bool,
    details: Details,
    num_rows: int | None = None,
) -> Page:
    """The page of a batch job, of a model that writes or of an encoder."""
    from gpufleet.report import decoder_job, encoder_job
    from gpufleet.results.job import BatchPlan

    if isinstance(plan, BatchPlan):
        return page_of_job(plan, decoder_job.WORDS, chosen, explain, details, num_rows)
    return page_of_job(plan, encoder_job.WORDS, chosen, explain, details, num_rows)


def training_page(
    plan: TrainingPlan,
    chosen: OutputFormat,
    *,
    explain: bool,
    details: Details,
    num_rows: int | None = None,
) -> Page:
    """The page of a plan of training."""
    from gpufleet.report.training import WORDS

    return page_of_job(plan, WORDS, chosen, explain, details, num_rows)


def page_of_job(
    plan: P, words: JobWords[P], chosen: OutputFormat, explain: bool, details: Details, num_rows: int | None
) -> Page:
    """The page of a job in the words of its kind of model."""
    from gpufleet.report.job_page import job_page, job_rows_page

    if chosen is OutputFormat.CSV:
        return job_rows_page(plan, words)
    width = width_of(chosen)
    shown = held_by(chosen, details)
    return job_page(plan, words, explain=explain, details=shown, today=current_date(), width=width, num_rows=num_rows)


def held_by(chosen: OutputFormat, details: Details) -> Details:
    """What is shown in full: a file holds the whole answer, a terminal a screen of it."""
    return details if chosen is OutputFormat.TABLE else details | WHOLE


def width_of(chosen: OutputFormat) -> int:
    """Columns of the page: the terminal's for a table, without end for files."""
    return page_width() if chosen is OutputFormat.TABLE else UNBOUNDED_WIDTH
