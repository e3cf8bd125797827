"""`gpufleet alerts`: files that watch a plan."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.deploy import DiffOption, FolderOption, ForceOption
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.questions.words import FileUse

app = verb()

PlanArgument = Annotated[
    str,
    typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan', 'mix' or 'autoscale' wrote with -o json."),
    FileUse.READ,
]
ReaderOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="TARGET",
        help="prometheus; alertmanager: who is told; grafana: a dashboard; cloudwatch: alarms.",
    ),
]
SeedsOption = Annotated[
    bool, typer.Option("--seed-thresholds", help="Add the seeds' four alerts; the page says where they mislead.")
]
BudgetOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--budget", metavar="USD", help="Guard what machines cost: '1000/day' or '24000/mo'."),
]
OffsetOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--utc-offset", metavar="TIME", help="The clock of the budget's days: '+02:00'. [default: UTC]"),
]
ActOption = Annotated[
    bool, typer.Option("--act", help="Write a quota, a cordon and a stop too, and who may apply them; none is run.")
]


ThroughputOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--throughput-metric", metavar="NAME", help="Your trainer's own metric of tokens/s; _total counts."),
]
UnitOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--throughput-in", metavar="UNIT", help="What that metric counts: tokens (default) or samples."),
]
EpochOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--epoch-tokens", metavar="N", help="Tokens of one epoch, to tell what it costs: 50M."),
]


@app.command()
def alerts(
    plan: PlanArgument,
    to: ReaderOption = "prometheus",
    out: FolderOption = None,
    force: ForceOption = False,
    seed_thresholds: SeedsOption = False,
    budget: BudgetOption = None,
    utc_offset: OffsetOption = None,
    act: ActOption = False,
    throughput_metric: ThroughputOption = None,
    throughput_in: UnitOption = None,
    epoch_tokens: EpochOption = None,
    diff: DiffOption = None,
    catalog_dir: CatalogOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Rules that watch what a plan promises, whose limits are the plan's: nothing is applied."""
    from gpufleet.ask.alerts.find import watch_plan
    from gpufleet.ask.alerts.page import alerts_page
    from gpufleet.catalog.load import load_catalog
    from gpufleet.cli.deployed_folder import tell_files

    found = watch_plan(
        plan,
        to,
        seed_thresholds=seed_thresholds,
        budget=budget,
        utc_offset=utc_offset,
        act=act,
        throughput_metric=throughput_metric,
        throughput_in=throughput_in,
        epoch_tokens=epoch_tokens,
        catalog=load_catalog(catalog_dir),
    )
    tell_files(found, alerts_page, plan=plan, out=out, force=force, diff=diff, output=output, out_file=out_file)
    return 0
