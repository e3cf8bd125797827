"""`gpufleet catalog`: what the tables hold about GPUs, instance types, models and prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, is_page
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import MaybeModelArgument, Written, verb_group
from gpufleet.errors import DataMissing
from gpufleet.questions.catalog import CatalogRequest, UpdateRequest
from gpufleet.questions.words import FileUse

app = verb_group("What the tables hold, with sources and dates; live only where you update it.")

ROWS_ON_A_PAGE = 40
OF_MODELS = ("search", "family", "show", "sort", "limit")
ModelWords = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(metavar="add ORG/NAME[@REVISION]", help="Models to add from the hub.", show_default=False),
    FileUse.HERE,
]


def add_listing(name: str, says: str, words: Sequence[str]) -> None:
    """The verb of a listing with amounts of money: what it is for, and the words that it takes."""

    def listing(
        asked: Typed, written: Written, catalog_dir: CatalogOption = None, currency: CurrencyOption = None
    ) -> int:
        write_money_in(currency)
        return show(name, asked, written, catalog_dir)

    listing.__doc__ = says
    app.command(name)(asking(CatalogRequest, only=words)(listing))


def show(name: str, asked: Typed, written: Written, catalog_dir: str | None) -> int:
    """Write the listing of that name."""
    from gpufleet.catalog.load import load_catalog
    from gpufleet.cli.catalog_answers import LISTINGS

    request = asked.request(CatalogRequest)
    answer = LISTINGS[name](request, load_catalog(catalog_dir), rows_shown(request, written))
    emit(*answer, written.output, written.out_file)
    return 0


def rows_shown(request: CatalogRequest, written: Written) -> int | None:
    """How many rows are shown at most: what is asked for, else as many as people read; every row in CSV."""
    return request.limit or (ROWS_ON_A_PAGE if is_page(written.output, written.out_file) else None)


add_listing(
    "gpus",
    "Accelerators: memory, dense rates, links, and the cheapest on-demand price known here.",
    ("gpu", "vendor", "min_memory", "precision", "cloud", "sort", "limit"),
)
add_listing(
    "instances",
    "Instance types: GPUs, links, host, and the cheapest on-demand price known here.",
    ("gpu", "cloud", "min_memory", "min_gpus", "sort", "limit"),
)
add_listing(
    "prices",
    "Prices per instance and per GPU, cheapest per GPU first, each with its date.",
    ("gpu", "instance", "cloud", "region", "kind", "restricted", "unpriced", "sort", "limit"),
)
add_listing(
    "regions",
    "Regions of a cloud or an area; with --gpu, --instance or a region by name, what is sold where.",
    ("gpu", "instance", "cloud", "region", "restricted", "limit"),
)


@app.command("coverage")
@asking()
def coverage(asked: Typed, written: Written, catalog_dir: CatalogOption = None) -> int:
    """Which clouds and regions have prices here, by price kind, with their dates."""
    return show("coverage", asked, written, catalog_dir)


@app.command("discounts")
@asking()
def discounts(asked: Typed, written: Written, catalog_dir: CatalogOption = None) -> int:
    """Typical discounts, rules of thumb of the seeds, compared with the prices known here."""
    return show("discounts", asked, written, catalog_dir)


@app.command("models")
@asking(CatalogRequest, only=OF_MODELS)
def models(asked: Typed, written: Written, words: ModelWords = None) -> int:
    """Shipped model architectures: exact parameters, context, checkpoint precision and other names.

    --show explains one of them, or a config.json of your own: parts, parameters, FLOP, bytes, KV cache and state.
    'add ORG/NAME[@REVISION]' asks the Hugging Face hub for config.json, quantisation and the headers of safetensors,
    never for code or weights; every question then takes that id. HF_TOKEN opens gated models.
    """
    if words:
        from gpufleet.cli.added_models import add_answer

        said = [f"--{name}" for name in OF_MODELS if name in asked.words.words]
        emit(*add_answer(words, said), written.output, written.out_file)
        return 0
    from gpufleet.cli.catalog_answers import model_answer

    emit(*model_answer(asked.request(CatalogRequest)), written.output, written.out_file)
    return 0


@app.command("token-prices")
@asking(CatalogRequest, only=("provider", "limit"))
def token_prices(asked: Typed, written: Written, model: MaybeModelArgument = None) -> int:
    """What APIs ask for tokens of open models, by host and day; 'plan serve --token-price' takes a host."""
    from gpufleet.cli.catalog_answers import token_price_answer

    request = asked.request(CatalogRequest)
    emit(*token_price_answer(model, request, rows_shown(request, written)), written.output, written.out_file)
    return 0


@app.command("update")
@asking(UpdateRequest)
def update(asked: Typed, written: Written) -> int:
    """Fetch today's prices from public feeds into a snapshot; exit code 5 when one of them brought none."""
    from gpufleet.cli.catalog_refresh import update_answer

    result, page = update_answer(asked.request(UpdateRequest))
    emit(result, page, written.output, written.out_file)
    return 0 if result.is_complete else DataMissing.exit_code
