"""`gpufleet schedule`: when and where jobs run that share GPUs and have deadlines."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of, is_page, refuse_targets, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.options import OutFileOption, OutputFormat, verb
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.questions.schedule import ScheduleRequest
from gpufleet.questions.words import FileUse
from gpufleet.report.output_stream import remark, say

if TYPE_CHECKING:
    from gpufleet.catalog.tables import Catalog
    from gpufleet.results.schedule import SchedulePlan

app = verb()


class ScheduleFormat(str, Enum):
    """How a schedule is written: as any answer, or for a tool that runs it."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"
    HTML = "html"
    SVG = "svg"
    SKY = "sky"
    KUEUE = "kueue"
    SLURM = "slurm"


TOOLS = (ScheduleFormat.SKY, ScheduleFormat.KUEUE, ScheduleFormat.SLURM)
JobsArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(
        metavar="JOBS.yaml",
        help="Pools of GPUs, and the jobs that share them; or a schedule of -o json, to write in another form.",
        show_default=False,
    ),
    FileUse.READ,
]
ScheduleOutputOption = Annotated[
    Optional[ScheduleFormat],  # noqa: UP045
    typer.Option("--output", "-o", help="Format of the answer; default: by the suffix of --out-file, else table."),
]
JobOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--job", metavar="NAME", help="This job alone, of -o sky."),
]


@app.command(cls=GroupedCommand)
@asking(ScheduleRequest)
def schedule(
    asked: Typed,
    jobs: JobsArgument = None,
    job: JobOption = None,
    catalog_dir: CatalogOption = None,
    output: ScheduleOutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """When and where jobs run that share GPUs: late by as little as can be, then for the least money and energy.

    With --online they are replayed as they arrive, and policies are compared. Exit code 3 where they cannot be
    scheduled, with the smallest change.
    """
    from gpufleet.api.schedule import plan_schedule
    from gpufleet.catalog.load import load_catalog
    from gpufleet.report.schedule import schedule_page

    if jobs is None:
        raise UsageError("JOBS.yaml is missing", expected="the file of jobs and pools: gpufleet schedule jobs.yaml")
    refuse_targets([None if out_file == "-" else out_file], [jobs])
    request = asked.request(ScheduleRequest, jobs)
    if request.online is not None:
        return write_replay(request, load_catalog(catalog_dir), output, job, out_file)
    plan = plan_schedule(request, catalog=load_catalog(catalog_dir))
    if output in TOOLS:
        write_for_tool(plan, output, job, out_file)
    else:
        if job is not None:
            raise UsageError("--job is of -o sky alone")
        form = None if output is None else OutputFormat(output.value)
        page = schedule_page(plan) if is_page(form, out_file) else schedule_page(plan, len(plan.runs))
        refuse_picture(plan, form or format_of(out_file))
        emit(plan, page, form, out_file)
    return plan.exit_code


def refuse_picture(plan: SchedulePlan, form: OutputFormat) -> None:
    """A picture has a bar for each job, and a page no room for thousands."""
    from gpufleet.report.gantt_svg import MOST_BARS

    if form is OutputFormat.SVG and len(plan.runs) > MOST_BARS:
        found, most = f"{len(plan.runs):,} jobs", f"up to {MOST_BARS:,}"
        raise UsageError("these are too many bars for a picture", found=found, expected=most, hint="-o csv has all.")


def write_replay(
    request: ScheduleRequest, tables: Catalog, output: ScheduleFormat | None, job: str | None, out_file: str | None
) -> int:
    """Policies side by side."""
    from gpufleet.api.online_schedule import replay_schedule
    from gpufleet.report.online_schedule import online_page

    if output in (*TOOLS, ScheduleFormat.SVG) or job is not None:
        raise UsageError("a replay is drawn by nobody and run by no tool", expected="-o table, json, csv, md or html")
    replay = replay_schedule(request, catalog=tables)
    emit(replay, online_page(replay), None if output is None else OutputFormat(output.value), out_file)
    return 0


def write_for_tool(plan: SchedulePlan, output: ScheduleFormat, job: str | None, out_file: str | None) -> None:
    """The schedule as files of another tool, as text."""
    from gpufleet.report.schedule import infeasible_words

    if not plan.is_feasible:
        raise Infeasible(infeasible_words(plan))
    text = text_for_tool(plan, output, job)
    if out_file is None or out_file == "-":
        say(text)
        return
    write_whole(Path(out_file), text)
    remark(f"wrote {out_file}")


def text_for_tool(plan: SchedulePlan, output: ScheduleFormat, job: str | None) -> str:
    """What a tool reads."""
    from gpufleet.deploy.kueue_jobs import kueue_manifests
    from gpufleet.deploy.skypilot_jobs import sky_tasks
    from gpufleet.deploy.slurm_jobs import slurm_script

    if output is ScheduleFormat.SKY:
        names = [run.job for run in plan.runs]
        if job is not None and job not in names:
            raise UnknownName("job", job, names)
        return sky_tasks(plan, job)
    if job is not None:
        raise UsageError("--job is of -o sky alone")
    return kueue_manifests(plan) if output is ScheduleFormat.KUEUE else slurm_script(plan)
