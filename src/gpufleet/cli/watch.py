"""`gpufleet watch`: what a plan's copies do now."""

from __future__ import annotations

import time
from typing import Annotated, Optional

import typer

from gpufleet.cli.alerts import BudgetOption, OffsetOption
from gpufleet.cli.deploy import PlanArgument
from gpufleet.cli.emit import emit, refuse_targets
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.options import OutFileOption, OutputOption, verb

app = verb()

PrometheusOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--prometheus", metavar="URL", help="Ask this Prometheus, such as http://localhost:9090."),
]
MetricsOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--metrics", metavar="URL", help="Or read an engine's own page of metrics; one for each copy."),
]
EveryOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--every", metavar="TIME", help="Read again and again, so far apart: '30s'. Ctrl-C ends it."),
]
OnceOption = Annotated[
    bool, typer.Option("--once", help="Answer once: as without --every; beside it, engines are read twice.")
]


@app.command()
def watch(
    plan: PlanArgument,
    prometheus: PrometheusOption = None,
    metrics: MetricsOption = None,
    every: EveryOption = None,
    once: OnceOption = False,
    budget: BudgetOption = None,
    utc_offset: OffsetOption = None,
    catalog_dir: CatalogOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """What copies do now beside what their plan says, and spend beside a budget; 4 if something is broken."""
    from gpufleet.ask.watch.find import Watch
    from gpufleet.ask.watch.page import watched_page
    from gpufleet.catalog.load import load_catalog

    refuse_targets([None if out_file == "-" else out_file], [plan])
    watched = Watch(
        plan,
        prometheus=prometheus,
        metrics=metrics or (),
        every=every,
        budget=budget,
        utc_offset=utc_offset,
        catalog=load_catalog(catalog_dir),
    )
    while True:
        found = watched.once() if once or every is None else watched.read()
        emit(found, watched_page(found), output, out_file)
        if once or every is None:
            return found.exit_code
        time.sleep(watched.every_s)
