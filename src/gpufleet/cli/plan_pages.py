"""Which page shows a plan: the ranking alone for CSV, everything else in as many columns as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.catalog.current_date import current_date
from gpufleet.cli.emit import page_width
from gpufleet.cli.options import OutputFormat
from gpufleet.report.page import Page
from gpufleet.results.plan import ServePlan, ServicePlan

if TYPE_CHECKING:
    from gpufleet.results.batch import BatchPlan
    from gpufleet.results.encoder_batch import EncoderBatchPlan
    from gpufleet.results.encoder_service import EncoderServePlan
    from gpufleet.results.fleet import FleetPlan

UNBOUNDED_WIDTH = 1000


def serve_page(
    plan: ServePlan | EncoderServePlan | FleetPlan,
    chosen: OutputFormat,
    *,
    explain: bool,
    all_rejections: bool,
    all_flips: bool = False,
) -> Page:
    """The page of a service, of a model that writes or of an encoder, or of several models together."""
    if isinstance(plan, ServePlan):
        return decoder_page(plan, chosen, explain=explain, all_rejections=all_rejections, all_flips=all_flips)
    if isinstance(plan, ServicePlan):
        return encoder_page(plan, chosen, explain=explain, all_rejections=all_rejections)
    from gpufleet.report.fleet_plan import fleet_page, fleet_rows_page

    if chosen is OutputFormat.CSV:
        return fleet_rows_page(plan)
    return fleet_page(plan, explain=explain, all_rejections=all_rejections, today=current_date())


def decoder_page(
    plan: ServePlan, chosen: OutputFormat, *, explain: bool, all_rejections: bool, all_flips: bool
) -> Page:
    """The page of a service of a model that writes."""
    from gpufleet.report.plan import plan_page, plan_rows_page

    if chosen is OutputFormat.CSV:
        return plan_rows_page(plan)
    width = width_of(chosen)
    return plan_page(
        plan, explain=explain, all_rejections=all_rejections, all_flips=all_flips, today=current_date(), width=width
    )


def encoder_page(plan: EncoderServePlan, chosen: OutputFormat, *, explain: bool, all_rejections: bool) -> Page:
    """The page of a service of an encoder."""
    from gpufleet.report.encoder_service import encoder_serve_page, encoder_serve_rows_page

    if chosen is OutputFormat.CSV:
        return encoder_serve_rows_page(plan)
    width = width_of(chosen)
    return encoder_serve_page(plan, explain=explain, all_rejections=all_rejections, today=current_date(), width=width)


def job_page(plan: BatchPlan | EncoderBatchPlan, chosen: OutputFormat, *, explain: bool, all_rejections: bool) -> Page:
    """The page of a batch job, of a model that writes or of an encoder."""
    from gpufleet.report.batch_plan import batch_page, batch_rows_page
    from gpufleet.report.encoder_batch import encoder_batch_page, encoder_batch_rows_page
    from gpufleet.results.encoder_batch import EncoderBatchPlan

    is_csv, width = chosen is OutputFormat.CSV, width_of(chosen)
    if isinstance(plan, EncoderBatchPlan):
        if is_csv:
            return encoder_batch_rows_page(plan)
        return encoder_batch_page(
            plan, explain=explain, all_rejections=all_rejections, today=current_date(), width=width
        )
    if is_csv:
        return batch_rows_page(plan)
    return batch_page(plan, explain=explain, all_rejections=all_rejections, today=current_date(), width=width)


def width_of(chosen: OutputFormat) -> int:
    """Columns of the page: the terminal's for a table, without end for files."""
    return page_width() if chosen is OutputFormat.TABLE else UNBOUNDED_WIDTH
