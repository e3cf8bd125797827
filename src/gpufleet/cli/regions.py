"""`gpufleet regions`: where services run, with their limits kept at the users."""

from __future__ import annotations

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import AsOfOption, CatalogOption, MarketFlags, MaxAgeOption, PricesOption
from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.cli.plan import ModelArgument
from gpufleet.errors import Infeasible, UsageError
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.regions import RegionRequest

app = verb()


@app.command(cls=GroupedCommand)
@asking(ServeRequest, RegionRequest, model=ModelArgument)
def regions(
    asked: Typed,
    catalog_dir: CatalogOption = None,
    max_age: MaxAgeOption = None,
    as_of: AsOfOption = None,
    prices: PricesOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """The cheapest regions for MODEL, or for the services of a --workload file, and why not the others.

    With --users, limits hold at them, the network included. Exit code 3 where no region keeps all limits.
    """
    from gpufleet.cli.mix_answers import regions_answer
    from gpufleet.report.regions import regions_page

    found = regions_answer(asked, MarketFlags(catalog_dir, max_age, as_of, prices))
    emit(found, regions_page(found), output, out_file)
    if not found.is_feasible:
        return Infeasible.exit_code
    return UsageError.exit_code if found.is_greedy else 0
