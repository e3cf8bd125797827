"""A whole page in the currency that is shown: its figures, what heads them, and amounts within its sentences.

`numbers.usd` writes amounts that a page is made from. What is left in dollars here are sentences of the answer itself
and the heads of columns. CSV has its columns under the name of the currency, at full precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpufleet.domain.currency import Currency
from gpufleet.report.numbers import shown_currency, usd
from gpufleet.report.page import Column, Fact, Page, Row, Table

WRITTEN_USD = re.compile(r"(-?)\$(\d[\d,]*(?:\.\d+)?)")
HEAD_USD = re.compile(r"\$(?=/| )")
USD_IN_KEY = re.compile(r"(?<![a-z])usd(?![a-z])")


def page_in_shown_currency(page: Page) -> Page:
    """The page as it is in dollars; in any other currency all of its money, and a line that states the rate."""
    currency = shown_currency()
    if currency is None:
        return page
    return Page(
        in_words(page.headline),
        [table_in(table, currency) for table in page.tables],
        [*map(in_words, page.notes), rate_note(currency)],
        [in_words(text) for text in page.paragraphs],
        [fact_in(fact) for fact in page.facts],
        in_words(page.title),
        in_words(page.next_step),
    )


def fact_in(fact: Fact) -> Fact:
    """What is read first in the shown currency."""
    return replace(fact, label=in_words(fact.label), value=in_words(fact.value), note=in_words(fact.note))


def rate_note(currency: Currency) -> str:
    """Whose rate it is.

    >>> rate_note(Currency("EUR", 0.92))
    'Money is in EUR at 0.92 EUR per USD, as you state; prices are held in USD.'
    """
    code = currency.code
    return f"Money is in {code} at {currency.per_usd:g} {code} per USD, as you state; prices are held in USD."


def in_words(text: str) -> str:
    """A sentence or a head in the shown currency: '$2.50/h' is an amount, '$/h' a unit."""
    currency = shown_currency()
    if currency is None:
        return text
    amounts = WRITTEN_USD.sub(lambda found: usd(float(found[1] + found[2].replace(",", ""))), text)
    return HEAD_USD.sub(currency.code, amounts)


def table_in(table: Table, currency: Currency) -> Table:
    """A table in the shown currency; commands to copy and pictures stay what they are."""
    columns = [part for column in table.columns for part in columns_in(column, currency)]
    keys = [column.key for column in table.columns if is_data_in_usd(column)]
    rate = [Column(rate_key(currency), "", where="data")] if keys else []
    return replace(
        table,
        columns=[*columns, *rate],
        rows=[row_in(row, keys, currency) for row in table.rows],
        title=in_words(table.title),
        notes=[in_words(note) for note in table.notes],
        empty=in_words(table.empty),
        drawing=[in_words(text) for text in table.drawing],
    )


def is_data_in_usd(column: Column) -> bool:
    """Whether a column of CSV holds dollars."""
    return column.where != "text" and USD_IN_KEY.search(column.key) is not None


def columns_in(column: Column, currency: Currency) -> list[Column]:
    """A column as people read it, and dollars of CSV under the name of the currency."""
    read = replace(column, header=in_words(column.header), show=words_of(column.show))
    if not is_data_in_usd(column):
        return [read]
    data = Column(key_in(column.key, currency), read.header, where="data")
    return [data] if column.where == "data" else [replace(read, where="text"), data]


def words_of(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """What a column shows, in the shown currency."""
    return lambda value: in_words(show(value))


def row_in(row: Row, keys: Sequence[str], currency: Currency) -> Row:
    """A row with its amounts of dollars in the currency beside them."""
    amounts = {key_in(key, currency): amount_in(row[key], currency) for key in keys}
    return {**row, **amounts, rate_key(currency): currency.per_usd}


def amount_in(usd_cell: object, currency: Currency) -> float | None:
    """One cell; unknown stays unknown."""
    return currency.amount(usd_cell) if isinstance(usd_cell, int | float) else None


def rate_key(currency: Currency) -> str:
    """The column of CSV that holds the rate."""
    return f"{currency.code.lower()}_per_usd"


def key_in(key: str, currency: Currency) -> str:
    """The key of an amount in a currency.

    >>> key_in("usd_per_month", Currency("EUR", 0.92))
    'eur_per_month'
    """
    return USD_IN_KEY.sub(currency.code.lower(), key)
