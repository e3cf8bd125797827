"""`gpufleet autoscale`: laws of scaling on a plan's machine under a curve of rates."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.emit import emit
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.errors import Infeasible

app = verb()

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan serve -o json' wrote.")]
TraceOption = Annotated[
    str,
    typer.Option("--trace", metavar="FILE", help="Rates over time (t_s, rate_rps; timestamp, value), or requests."),
]
PolicyOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--policy", "--policies", metavar="NAME,...", help="Only these laws; default: all."),
]
TargetOption = Annotated[str, typer.Option("--target", metavar="SHARE", help="Share of requests in time on every day.")]
ColdStartOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--cold-start", metavar="TIME", help="From the order of a machine to its first answer: 300s."),
]
LeastOption = Annotated[int, typer.Option("--min", metavar="N", help="At least N machines at any time.")]
MostOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--max", metavar="N", help="At most N machines; default: twice what the peak needs."),
]
ScaleOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--mean-rate", metavar="N/TIME", help="Scale the curve to this mean rate: 50/s."),
]
CurveModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--model", metavar="NAME", help="Whose rows of the trace, where it has several models."),
]
TuneOption = Annotated[bool, typer.Option("--tune", help="Search the settings of each law, in hindsight.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Of the requests drawn from the curve.")]


@app.command()
def autoscale(
    plan: PlanArgument,
    trace: TraceOption,
    policy: PolicyOption = None,
    target: TargetOption = "95%",
    cold_start: ColdStartOption = None,
    least: LeastOption = 0,
    most: MostOption = None,
    mean_rate: ScaleOption = None,
    model: CurveModelOption = None,
    tune: TuneOption = False,
    seed: SeedOption = 0,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """What each law of scaling costs under a day's or a week's traffic, and which keeps enough requests in time.

    Laws: hpa, keda-queue, keda-kv, keda-zero, wva, skyserve, utilisation, queue-depth, schedule, static,
    seasonal-naive, holt-winters, and our own predictive and predictive-zero.
    """
    from gpufleet.api.autoscaling import autoscale as play_laws
    from gpufleet.catalog.load import load_catalog
    from gpufleet.inputs.traffic import at_mean_rate, read_traffic
    from gpufleet.report.autoscale import autoscale_page
    from gpufleet.units import parse_duration, parse_rate, parse_ratio

    write_money_in(currency)
    rates = read_traffic(trace, model)
    if mean_rate is not None:
        rates = at_mean_rate(rates, parse_rate(mean_rate))
    result = play_laws(
        plan,
        rates,
        policies=None if policy is None else [name for name in policy.split(",") if name.strip()],
        target=parse_ratio(target),
        cold_start_s=None if cold_start is None else parse_duration(cold_start),
        min_machines=least,
        max_machines=most,
        seed=seed,
        tune=tune,
        catalog=load_catalog(catalog_dir),
    )
    emit(result, autoscale_page(result), output, out_file)
    return 0 if result.is_feasible else Infeasible.exit_code
