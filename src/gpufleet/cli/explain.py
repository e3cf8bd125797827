"""`gpufleet explain`: makes a plan again and says what changed since."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli.emit import emit
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.errors import PolicyViolation

app = verb()

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan serve -o json' wrote.")]
CheckOption = Annotated[bool, typer.Option("--check", help="Exit code 4 where the answer is no longer the same.")]


@app.command()
def explain(
    plan: PlanArgument,
    check: CheckOption = False,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Make a plan again from the question in its file: does the answer stand, and what changed it, prices or model?"""
    from gpufleet.api.plan_changes import explain_plan
    from gpufleet.catalog.load import load_catalog
    from gpufleet.report.plan_changes import changes_page, fleet_changes_page
    from gpufleet.results.plan_changes import FleetChanges

    write_money_in(currency)
    result = explain_plan(plan, load_catalog(catalog_dir))
    page = fleet_changes_page(result) if isinstance(result, FleetChanges) else changes_page(result)
    emit(result, page, output, out_file)
    return PolicyViolation.exit_code if check and not result.stands else 0
