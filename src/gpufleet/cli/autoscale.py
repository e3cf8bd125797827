"""`gpufleet autoscale`: laws of scaling on a plan's machine under a curve of rates."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, refuse_targets
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.cli.progress import replaying
from gpufleet.questions.autoscale import AutoscaleRequest
from gpufleet.questions.words import FileUse

app = verb()

PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan serve -o json' wrote."), FileUse.READ
]


@app.command()
@asking(AutoscaleRequest)
def autoscale(
    asked: Typed,
    plan: PlanArgument,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """What each law of scaling costs under a day's or a week's traffic, and which keeps enough requests in time.

    Laws: hpa, hpa-rate, keda-rate, keda-cron-rate, cron-windows, keda-queue, keda-kv, keda-zero, schedule and static,
    of which the cheapest that keeps the target is recommended; wva, skyserve, utilisation, queue-depth,
    seasonal-naive, holt-winters, and our own predictive and predictive-zero, recommended where --policy names them.
    """
    from gpufleet.api.autoscaling import autoscale as play_laws
    from gpufleet.catalog.load import load_catalog
    from gpufleet.report.autoscale import autoscale_page

    refuse_targets([None if out_file == "-" else out_file], [plan])
    write_money_in(currency)
    request = asked.request(AutoscaleRequest, plan)
    with replaying(request.verify):
        result = play_laws(request, catalog=load_catalog(catalog_dir))
    emit(result, autoscale_page(result), output, out_file)
    return result.exit_code
