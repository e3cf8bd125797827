"""`gpufleet explain`: makes a plan again and says what changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import EditedOption, OutFileOption, OutputOption, verb
from gpufleet.errors import UsageError
from gpufleet.questions.words import FileUse

if TYPE_CHECKING:
    from gpufleet.cli.options import OutputFormat

app = verb()

WorkloadOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--workload", metavar="FILE.yaml", help="Also list where this file differs from the question of the plan."
    ),
    FileUse.READ,
]
PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan serve -o json' wrote."), FileUse.READ
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="End with exit code 3 if the plan does not hold today, 4 if the answer changed.")
]
FlipsOption = Annotated[
    bool, typer.Option("--flips", help="Show what would change the answer that the plan's question has today.")
]


@app.command()
def explain(
    plan: PlanArgument,
    workload: WorkloadOption = None,
    check: CheckOption = False,
    flips: FlipsOption = False,
    edited: EditedOption = False,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Make a plan again from the question in its file: does the answer stand, and what changed it, prices or model?"""
    from gpufleet.api.plan_changes import explain_plan
    from gpufleet.catalog.load import load_catalog
    from gpufleet.cli.plan_answers import asked_today
    from gpufleet.report.plan_changes import changes_page, fleet_changes_page
    from gpufleet.results.plan_changes import FleetChanges

    write_money_in(currency)
    if flips:
        refuse_beside_flips(workload, check=check)
        return answer_today(plan, catalog_dir, edited=edited, output=output, out_file=out_file)
    asked = None if workload is None else asked_today(workload)
    result = explain_plan(plan, load_catalog(catalog_dir), asked, edited=edited)
    page = fleet_changes_page(result) if isinstance(result, FleetChanges) else changes_page(result)
    emit(result, page, output, out_file)
    return result.exit_code if check else 0


def refuse_beside_flips(workload: str | None, *, check: bool) -> None:
    """What would change an answer is asked of one question, that of the plan; whether it changed is another verb's."""
    beside = [name for name, is_asked in (("--workload", workload is not None), ("--check", check)) if is_asked]
    if beside:
        raise UsageError("--flips is asked alone", found=" and ".join(beside), hint="Ask twice.")


def answer_today(
    plan: str, catalog_dir: str | None, *, edited: bool, output: OutputFormat | None, out_file: str | None
) -> int:
    """The answer that a plan's question has today, with what would change it; exit code 3 where it has none."""
    from gpufleet.api.answers import asked_further
    from gpufleet.api.plan_changes import planned_today
    from gpufleet.catalog.load import load_catalog
    from gpufleet.cli.plan import show_plan
    from gpufleet.report.detail import details_of

    today = asked_further(planned_today(plan, load_catalog(catalog_dir), edited=edited), flips=True)
    return show_plan(
        today, output, out_file, None, explain=False, shown=details_of(None), all_flips=True, num_rows=None
    )
