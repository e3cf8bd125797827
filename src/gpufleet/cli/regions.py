"""`gpufleet regions`: where services run, with their limits kept at the users."""

from __future__ import annotations

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.options import MaybeModelArgument, Written, verb
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.regions import RegionRequest

app = verb()


@app.command(cls=GroupedCommand)
@asking(ServeRequest, RegionRequest, model=MaybeModelArgument)
def regions(
    asked: Typed,
    market: MarketFlags,
    written: Written,
) -> int:
    """The cheapest regions for MODEL, or for the services of a --workload file, and why not the others.

    With --users, limits hold at them, the network included. Exit code 3 where no region keeps all limits.
    """
    from gpufleet.cli.mix_answers import exit_code_of, regions_answer
    from gpufleet.report.regions import regions_page

    found = regions_answer(asked, market)
    emit(found, regions_page(found), written.output, written.out_file)
    return exit_code_of(found)
