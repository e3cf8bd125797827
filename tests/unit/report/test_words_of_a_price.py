"""A price keeps the words that decide it, however narrow the page: how it is bought, estimated, undated."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpufleet.report
from gpufleet.catalog.listing import list_prices
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import OfferFilter
from gpufleet.domain.offer import PriceKind
from gpufleet.report.catalog_pages import price_page
from gpufleet.report.page import Column, Page, Table
from gpufleet.report.text import page_as_text

WIDTHS = (40, 60, 80)
KINDS = [kind.value.replace("_", " ") for kind in PriceKind]
cells = st.text("abcdefgh-", min_size=1, max_size=30)


@given(
    st.lists(st.tuples(cells, cells, st.sampled_from(KINDS), cells), min_size=1, max_size=4), st.sampled_from(WIDTHS)
)
def test_no_page_is_too_narrow_for_what_qualifies_a_price(found: list[tuple[str, ...]], width: int) -> None:
    columns = [
        Column("cloud", "cloud"),
        Column("name", "instance"),
        Column("bought", "kind", priority=9, qualifies=True),
        Column("price", "$/h", align="right"),
        Column("more", "more", priority=1),
    ]
    rows = [{"cloud": a, "name": b, "bought": kind, "price": "$1,234.56", "more": c} for a, b, kind, c in found]
    text = page_as_text(Page("", [Table(columns, rows)]), width)
    assert max(map(len, text.splitlines())) <= width
    for kind in {row["bought"] for row in rows}:
        assert text.count(kind) >= sum(row["bought"] == kind for row in rows)
    assert text.count("$1,234.56") == len(rows)


def test_every_column_that_says_how_a_price_is_bought_qualifies_it() -> None:
    """A column by any of these names that people read; a new one must say so too."""
    for file in Path(gpufleet.report.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Column"):
                continue
            key, header = (getattr(part, "value", None) for part in [*call.args, None, None][:2])
            named = {word.arg: getattr(word.value, "value", None) for word in call.keywords}
            if named.get("where") != "data" and (key in ("price_kind", "bought") or header == "bought"):
                assert named.get("qualifies") or named.get("wraps"), f"{file.name}:{call.lineno}"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_listing_says_of_each_price_how_it_is_bought(width: int) -> None:
    listing = list_prices(load_catalog(), OfferFilter(accelerators={"H100-SXM"}))
    rows = listing.rows[:12]
    text = page_as_text(price_page(listing, 12, False), width)
    for kind in {row.price_kind for row in rows}:
        assert text.count(kind.replace("_", " ")) >= sum(row.price_kind == kind for row in rows)
    undated = [row for row in rows if row.first_seen]
    assert undated
    assert text.count("?") >= len(undated)
    assert "'?' is undated" in text


@pytest.mark.parametrize("amount", ["~$15.72", "~11.32 EUR", "~$130,000/mo", "$1.25?", "11.32 EUR?", "$2,000/h?"])
def test_a_mark_of_an_amount_is_explained_wherever_it_stands(amount: str) -> None:
    tables = [Table([Column("price", "$/h")], [{"price": amount}])]
    for page in (Page("", tables), Page(f"8x H100: {amount}"), Page("", notes=[f"On demand {amount}."])):
        assert sum(line[:2] in ("~:", "?:") for line in page_as_text(page, 80).splitlines()) == 1
    assert "~:" not in page_as_text(Page("$15.72, about ~3 tokens"), 80)
