"""`gpufleet regions`: where services run, with their limits kept at the users."""

from __future__ import annotations

from typing import Annotated, Optional

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, is_page
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.options import Written, model_argument, verb
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.regions import JobRegionRequest, RegionRequest
from gpufleet.questions.words import FileUse

app = verb()
ModelOrJobArgument = Annotated[
    Optional[str],  # noqa: UP045
    model_argument(says="A name, a config.json, or the folder of one; or the PLAN.json of a job."),
    FileUse.MAYBE_READ,
]


@app.command(cls=GroupedCommand)
@asking(ServeRequest, RegionRequest, JobRegionRequest, model=ModelOrJobArgument)
def regions(
    asked: Typed,
    market: MarketFlags,
    written: Written,
) -> int:
    """The cheapest regions for MODEL, for the services of a --workload file, or for the job of a PLAN.json.

    With --users, limits hold at them, the network included. What 'plan batch', 'plan train' or 'plan finetune' wrote
    with -o json is a job: its machines are priced wherever they are sold. Exit code 3 where no region keeps all limits.
    """
    from gpufleet.cli.job_regions import is_job, refuse_of_jobs
    from gpufleet.cli.mix_answers import regions_answer
    from gpufleet.report.regions import regions_page

    if is_job(asked):
        return show_job(asked, market, written)
    refuse_of_jobs(asked)
    found = regions_answer(asked, market)
    emit(found, regions_page(found), written.output, written.out_file)
    return found.exit_code


def show_job(asked: Typed, market: MarketFlags, written: Written) -> int:
    """The regions of a job."""
    from gpufleet.cli.job_regions import job_regions_answer
    from gpufleet.report.job_regions import job_regions_page

    found = job_regions_answer(asked, market)
    num_rows = asked.num_rows if is_page(written.output, written.out_file) else len(found.regions)
    emit(found, job_regions_page(found, num_rows), written.output, written.out_file)
    return found.exit_code
