"""`gpufleet deploy`: files that start a plan."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.market import CatalogOption
from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.questions.words import FileUse

app = verb()

PlanArgument = Annotated[
    str,
    typer.Argument(metavar="PLAN.json", help="What 'gpufleet plan serve', 'mix' or 'autoscale' wrote with -o json."),
    FileUse.READ,
]
ZoneOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--timezone", metavar="ZONE", help="Of the trace that autoscale read: Europe/Berlin; default UTC."),
]
PrometheusOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--prometheus", metavar="URL", help="Where the cluster's Prometheus answers those who scale."),
]
TargetOption = Annotated[
    str, typer.Option("--to", metavar="TARGET", help="kubernetes, eksctl, terraform-ecs, or compose for one machine.")
]
FolderOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--out", metavar="DIR", help="Write the files into a new folder; without it they are listed."),
    FileUse.WRITTEN,
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write into a folder that holds other files.")]
ImageOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--image", metavar="IMAGE", help="Your own image, in place of that of the engine's version."),
]
RouterOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--router", metavar="HOW", help="Deal requests out by least_busy, weights, priority or prefix."),
]
SecretOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--secret", metavar="NAME", help="The cluster's secret with the hub's token; default hf-token."),
]
VolumeOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--volume", metavar="CLAIM", help="A claim of the cluster that copies load weights from."),
]
DiffOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--diff", metavar="DIR", help="Show what differs from the files of a folder."),
    FileUse.READ,
]


@app.command()
def deploy(
    plan: PlanArgument,
    to: TargetOption = "kubernetes",
    out: FolderOption = None,
    force: ForceOption = False,
    image: ImageOption = None,
    router: RouterOption = None,
    secret: SecretOption = None,
    volume: VolumeOption = None,
    timezone: ZoneOption = None,
    prometheus: PrometheusOption = None,
    diff: DiffOption = None,
    catalog_dir: CatalogOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Files that start what a plan rents: deployments with probes, limits and a graceful end; nothing is applied."""
    from gpufleet.ask.deploy.find import deploy_plan
    from gpufleet.ask.deploy.page import deployed_page
    from gpufleet.catalog.load import load_catalog
    from gpufleet.cli.deployed_folder import tell_files

    found = deploy_plan(
        plan,
        to,
        image=image,
        router=router,
        secret=secret,
        volume=volume,
        timezone=timezone,
        prometheus=prometheus,
        catalog=load_catalog(catalog_dir),
    )
    tell_files(found, deployed_page, plan=plan, out=out, force=force, diff=diff, output=output, out_file=out_file)
    return 0
