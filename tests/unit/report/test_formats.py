"""The same page as text, markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.provenance import SUPPOSED
from gpufleet.report.formats import as_csv, as_json, page_as_csv, page_as_markdown
from gpufleet.report.html import page_as_html
from gpufleet.report.numbers import usd_per_hour
from gpufleet.report.page import Column, Page, Table
from gpufleet.report.text import page_as_text


def money(value: Any) -> str:
    return usd_per_hour(value)


COLUMNS = (
    Column("gpu", "GPU"),
    Column("price_usd_per_hour", "price", show=money, align="right"),
    Column("region", "region", priority=2),
    Column("note", "remark of the seller", priority=1),
    Column("id", "id", where="data"),
    Column("range", "TPOT", where="text"),
)
ROWS = (
    {"gpu": "H100", "price_usd_per_hour": 12.2900001, "region": "us-east-1", "note": "a|b", "id": 1, "range": "31 ms"},
    {
        "gpu": "L4",
        "price_usd_per_hour": None,
        "region": "eu-west-1",
        "note": 'say "hi", then',
        "id": 2,
        "range": "9 ms",
    },
)
PAGE = Page(
    headline="H100 it is.", tables=(Table(COLUMNS, ROWS, title="Offers", chosen=0),), notes=("Prices of 2026-01-01.",)
)


def test_the_text_says_the_headline_first_and_marks_the_chosen_row() -> None:
    lines = page_as_text(PAGE, 100).splitlines()
    assert lines[0] == "H100 it is."
    assert [line for line in lines if line.startswith("> ")] == [
        "> H100  $12.29/h  us-east-1  a|b                   31 ms"
    ]
    assert lines[-1] == "Prices of 2026-01-01."


def test_an_unknown_price_is_said_and_never_zero() -> None:
    assert "unknown" in page_as_text(PAGE, 100)
    assert "$0" not in page_as_text(PAGE, 100)


def test_a_narrow_page_leaves_out_the_least_important_column_and_says_so() -> None:
    text = page_as_text(PAGE, 50)
    assert "us-east-1" not in text
    assert "a|b" in text
    assert "Not shown at this width: region." in text


@pytest.mark.parametrize("width", [12, 20, 40, 80, 200])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(len(line) for line in page_as_text(PAGE, width).splitlines()) <= width


@given(st.text(max_size=200), st.integers(min_value=20, max_value=120))
def test_a_hostile_name_neither_widens_the_page_nor_moves_the_cursor(name: str, width: int) -> None:
    rows = ({**ROWS[0], "gpu": name, "note": name},)
    text = page_as_text(Page(headline=name, tables=(Table(COLUMNS, rows),)), width)
    assert all(len(line) <= width for line in text.split("\n"))
    assert all(character.isprintable() or character == "\n" for character in text)


ODD = "\x00\t\r\x1b\x7f\x85\x9b\u061c\u200e\u200f\u2028\u202e\u2066\u2069\ud800"
KEPT = "é東京 ½ 🦙 naïve\N{NO-BREAK SPACE}x \u0627\u200c\u0628"
LAYOUT = {"text": "\n", "md": "\n", "html": "\n", "csv": "\r\n", "json": "\n"}


def every_form(name: str) -> dict[str, str]:
    """A page that says `name` wherever a page says anything, in every form."""
    columns = (Column("gpu", name, where="everywhere"), Column("note", f"{name}2", below=True))
    rows = ({"gpu": name, "note": name},)
    drawn = Table(columns, rows, title=name, notes=[name], drawing=[name], listing=[[[name]]])
    page = Page(headline=name, tables=(drawn, Table(columns, (), empty=name)), notes=[name], paragraphs=[name])
    forms = {"text": page_as_text(page, 120), "md": page_as_markdown(page), "html": page_as_html(page)}
    return {**forms, "csv": page_as_csv(page), "json": as_json({name: [name]})}


@pytest.mark.parametrize("form", LAYOUT)
def test_no_control_and_no_turn_of_direction_reaches_a_reader(form: str) -> None:
    written = every_form(f"a{ODD}b")[form]
    assert [c for c in written if c in ODD and c not in LAYOUT[form]] == []
    written.encode()


def test_json_reads_back_what_it_escapes() -> None:
    assert json.loads(every_form(ODD)["json"]) == {ODD: [ODD]}


def test_text_of_any_script_stays_as_it_is_in_data() -> None:
    assert KEPT in every_form(KEPT)["csv"]
    assert KEPT in every_form(KEPT)["json"]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "＝", "＠"])
def test_no_cell_of_csv_is_a_formula(sign: str) -> None:
    [_, row] = csv.reader(io.StringIO(as_csv(["cell"], [[f"{sign}HYPERLINK(1)"]]), newline=""))
    assert row[0][0] in "'\\"
    assert row[0].endswith("HYPERLINK(1)")


@pytest.mark.parametrize("cell", ["-3.5", "+1e-3", "-", "a=1", "us-east-1", "2026-01-01", "H100:8", "-0"])
def test_numbers_and_plain_names_are_no_formulas(cell: str) -> None:
    assert as_csv(["cell"], [[cell]]) == f"cell\r\n{cell}\r\n"


def test_an_empty_table_says_so_instead_of_showing_a_header() -> None:
    page = Page(tables=(Table(COLUMNS, (), empty="No GPU has 900 GiB."),))
    assert page_as_text(page, 80) == "No GPU has 900 GiB.\n"
    assert page_as_markdown(page) == "No GPU has 900 GiB.\n"


def test_csv_keeps_full_precision_and_leaves_unknown_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(page_as_csv(PAGE))))
    assert rows[0]["price_usd_per_hour"] == "12.2900001"
    assert rows[1]["price_usd_per_hour"] == ""
    assert rows[1]["note"] == 'say "hi", then'
    assert list(rows[0]) == ["gpu", "price_usd_per_hour", "region", "note", "id"]
    assert page_as_csv(PAGE).count("\r\n") == 3


def test_markdown_is_a_table_that_a_pipe_in_a_cell_does_not_break() -> None:
    lines = [line for line in page_as_markdown(PAGE).splitlines() if line.startswith("|")]
    assert lines[1] == "| --- | ---: | --- | --- | --- |"
    assert "a\\|b" in lines[2]
    assert lines[2].startswith("| \\> H100 |")


def test_json_is_strict_and_tells_unlimited_from_unknown() -> None:
    text = as_json({"users": math.inf, "price": None, "rows": [{"ttft_s": 0.5}]})
    assert json.loads(text) == {"users": "Infinity", "price": None, "rows": [{"ttft_s": 0.5}]}


def test_a_result_that_is_not_a_number_is_our_bug_and_not_silent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"ttft_s": math.nan})


def test_a_spreadsheet_reads_unlimited_in_a_word_and_unknown_as_nothing() -> None:
    table = Table((Column("low", "Low"), Column("high", "High")), [{"low": None, "high": math.inf}])
    assert page_as_csv(Page(tables=(table,))) == "low,high\r\n,unlimited\r\n"


def test_what_a_whole_answer_supposes_is_in_its_first_sentence_once() -> None:
    supposed = f"{SUPPOSED}acme/a-7b is planned as a-7b"
    page = Page("a-7b fits", notes=[f"{supposed}.", supposed, "Warning: no table knows it", "a remark"])
    assert page.first_sentence == f"{supposed}: a-7b fits"
    assert page.leading == ["Warning: no table knows it"]
    assert page.closing == ["a remark"]
    for written in (page_as_text(page, 200), page_as_markdown(page), page_as_html(page)):
        assert written.count(f"{supposed}: a-7b fits") == (2 if "<title>" in written else 1)
