"""A ranking of what may be rented: the columns and cells that every ranking has, and what its marks mean."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.report.page import Column, Row, Table
from gpufleet.report.rented import gpus, place, range_word
from gpufleet.results.base import Input
from gpufleet.results.rented import RentedMachines

UNVARIED = 12
OUTDATED = "A price of some age counts as what one likely pays by now."
DOUBTED = "What holds less surely counts more than it costs (--steady)."
PRICE_DAYS = (
    Column("price_as_of", "price of", where="data"),
    Column("price_first_seen", "first seen", where="data"),
    Column("price_doubt", "in doubt", where="data"),
    Column("price_day", "price of", priority=11, where="text"),
)


def ranking(
    rented: Sequence[RentedMachines],
    columns: list[Column],
    rows: list[Row],
    legend: Sequence[str],
    marks: Sequence[str] = (),
) -> Table:
    """Every row, the first marked as chosen; the `legend` says what becomes of a row at the high end of its range."""
    by_now = " by now" if OUTDATED in marks else ""
    order = f"Ranked by cost{by_now} and certainty" if DOUBTED in marks else f"Cheapest{by_now} first"
    title = f"{order}, one row per machine type"
    marks_of_prices = [
        *(["~: estimated"] if any(d.price_basis == "estimated" for d in rented) else []),
        *(["?: undated"] if any(d.price_first_seen for d in rented) else []),
    ]
    title += f" ({', '.join(marks_of_prices)})" if marks_of_prices else ""
    return Table(columns, rows, title, [*legend, *marks], 0 if rows else None)


def varied_columns(rented: Sequence[RentedMachines]) -> list[Column]:
    """Weights and engine: worth a narrow page's room where the rows differ in them."""
    ones = {"weights": {d.weight_format for d in rented}, "engine": {d.engine for d in rented}}
    return [
        Column(f"{name}_text", name, priority=1 if len(values) > 1 else UNVARIED, where="text")
        for name, values in ones.items()
    ]


def are_regions_asked(inputs: Sequence[Input]) -> bool:
    """Whether anybody said where machines may stand."""
    return any(i.name == "regions" and i.origin != "default" for i in inputs)


def machine_cells(rank: int, d: RentedMachines, machines: str, confidence: float) -> Row:
    """What machines are, where, how surely and of which day their price is."""
    return {
        "row": str(rank),
        "machines": machines,
        "place": place(d),
        "gpus": gpus(d),
        "weights_text": d.weight_format,
        "engine_text": d.engine,
        "verdict": range_word(d.is_tight, confidence),
        "price_day": d.price_day,
        "price_as_of": d.stated_price_day,
    }
