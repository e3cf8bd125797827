"""`gpufleet mix`: machines of several types for services whose requests differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, refuse_targets, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.options import MaybeModelArgument, Written, verb
from gpufleet.errors import Infeasible
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.mix import MixRequest
from gpufleet.questions.words import FileUse
from gpufleet.report.formats import as_json
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.results.mix import FleetMix

app = verb()

RoutingOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--routing", metavar="OUT.json", help="Also write which lengths go where, for a router."),
    FileUse.WRITTEN,
]


@app.command(cls=GroupedCommand)
@asking(ServeRequest, MixRequest, model=MaybeModelArgument)
def mix(
    asked: Typed,
    *,
    routing: RoutingOption = None,
    market: MarketFlags,
    written: Written,
) -> int:
    """The cheapest machines of several types for MODEL, or for the services of a --workload file, and who gets what.

    Short and long requests may go to machines of different kinds. Exit code 3 where no mix keeps all limits.
    """
    from gpufleet.cli.mix_answers import mix_answer
    from gpufleet.report.fleet_mix import fleet_mix_page

    refuse_targets([routing, None if written.out_file == "-" else written.out_file], [])
    found = mix_answer(asked, market)
    if routing is not None:
        write_routing(found, routing)
    emit(found, fleet_mix_page(found), written.output, written.out_file)
    return found.exit_code


def write_routing(found: FleetMix, target: str) -> None:
    """Which lengths go where, as data."""
    if not found.is_feasible:
        raise Infeasible("there is no mix to route to", hint="Without --routing the answer says what has to give way.")
    from gpufleet.deploy.routing_table import routing_table

    write_whole(Path(target), as_json(routing_table(found)))
    remark(f"wrote {target}")
