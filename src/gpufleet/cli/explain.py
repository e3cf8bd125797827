"""`gpufleet explain`: makes a plan again and says what changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import EditedOption, OutFileOption, OutputOption, verb

if TYPE_CHECKING:
    pass

app = verb()

WorkloadOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--workload", metavar="FILE.yaml", help="Also list where this file differs from the question of the plan."
    ),
]
PlanArgument = Annotated[str, typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan serve -o json' wrote.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="End with exit code 3 if the plan does not hold today, 4 if the answer changed.")
]


@app.command()
def explain(
    plan: PlanArgument,
    workload: WorkloadOption = None,
    check: CheckOption = False,
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
    asked = None if workload is None else asked_today(workload)
    result = explain_plan(plan, load_catalog(catalog_dir), asked, edited=edited)
    page = fleet_changes_page(result) if isinstance(result, FleetChanges) else changes_page(result)
    emit(result, page, output, out_file)
    return result.exit_code if check else 0
