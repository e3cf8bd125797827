"""docs/accuracy.md and its picture: what was left out first, the worst first, the same bytes again."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools.accuracy_page import (
    LEFT_OUT_NAMES,
    MEASUREMENTS,
    TERMS,
    WAS_LEFT_OUT,
    LeftOut,
    calibration_section,
    digest,
    documents,
    made_from,
    measurement_files,
    missed_groups_table,
    read_left_out,
    summary_table,
    terms_table,
)

from gpufleet.results.accuracy import AccuracyReport

DOCS = Path(__file__).resolve().parents[2] / "docs"
HEADER = "engine,era,source,quantity,rows,median_error_percent,mean_error_percent,bias_percent,in_range_percent"
GROUPS = (
    "vllm,V1,good,tpot,20,9.1,13,1,80",
    "vllm,V1,bad,tpot,20,42.1,43,1,70",
    "vllm,V2,bad,tpot,20,12.1,43,1,90",
    "vllm,V1,few,tpot,2,99.0,99,1,0",
    "all engines,,all sources,tpot,62,11.0,30,1,77.4",
)


@pytest.fixture
def left_out(tmp_path: Path) -> LeftOut:
    """A small table of what was left out."""
    table = tmp_path / "left_out_gpu.csv"
    table.write_text("\n".join([HEADER, *GROUPS]) + "\n")
    return LeftOut.read(table)


@pytest.fixture(scope="module")
def few_measurements(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A folder with every hundredth row of each shipped file."""
    folder = tmp_path_factory.mktemp("measurements")
    for path in MEASUREMENTS.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
        with (folder / path.name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *rows[::100]])
    return measurement_files(folder)


def test_the_summary_says_what_to_expect_how_sure_it_is_and_where_it_is_worst(left_out: LeftOut) -> None:
    (row,) = summary_table(AccuracyReport(files=[]), [left_out]).rows
    assert (row["key"], row["rows"], row["median"], row["mean"]) == ("GPU", "62", "11%", "30%")
    assert row["worst"] == "42% bad (vllm V1)"
    assert row["alike"] == f"{(13 + (43 * 20 + 43 * 20) / 40 + 99) / 3:.0f}%"
    assert str(row["held"]).startswith("77% (")
    assert row["width"] == "-"


def test_a_width_that_the_left_out_table_states_is_shown(tmp_path: Path) -> None:
    table = tmp_path / "left_out_model.csv"
    table.write_text(f"{HEADER},half_width_percent\nall engines,,all sources,tpot,62,11.0,30,1,77.4,18.5\n")
    (row,) = summary_table(AccuracyReport(files=[]), [LeftOut.read(table)]).rows
    assert row["width"] == "±18%"


def test_the_page_shows_what_each_quantile_held_where_the_left_out_table_says_it(tmp_path: Path) -> None:
    assert calibration_section([LeftOut("model", [])]) == []
    table, shares = tmp_path / "left_out_model.csv", [12.0, 20.4, 30, 41, 50, 61, 69, 80, 91]
    header = ",".join([HEADER, *(f"below_{decile}_percent" for decile in range(10, 100, 10))])
    row = ",".join(map(str, ["all engines", "", "all sources", "tpot", 62, 11.0, 30, 1, 77.4, *shares]))
    table.write_text(f"{header}\n{row}\n")
    _, shown = calibration_section([LeftOut.read(table)])
    assert "| model | time per output token | 12 | 20 | 30 | 41 | 50 | 61 | 69 | 80 | 91 |" in shown


def test_misses_begin_with_the_largest_and_leave_out_groups_of_a_few_rows(left_out: LeftOut) -> None:
    assert [row["source"] for row in missed_groups_table([left_out]).rows] == ["bad", "bad", "good"]
    assert [row["source"] for row in left_out.rows][:2] == ["few", "bad"]


def test_terms_stand_below_all_of_them_together_by_what_time_per_token_loses_without_each() -> None:
    first, *terms = terms_table(WAS_LEFT_OUT / TERMS).rows
    assert str(first["term"]).startswith("nothing")
    medians = [float(str(row["tpot"]).split()[0]) for row in terms]
    assert medians == sorted(medians, reverse=True)
    assert len(terms) >= 8


def test_the_summary_of_the_shipped_tables_is_short() -> None:
    shipped = read_left_out(WAS_LEFT_OUT)
    assert [table.key for table in shipped] == list(LEFT_OUT_NAMES)
    assert len(summary_table(AccuracyReport(files=[]), shipped).rows) <= 12


def test_the_page_is_the_same_bytes_again_and_stands_in_the_promised_order(few_measurements: list[Path]) -> None:
    page, picture = documents(few_measurements, read_left_out(WAS_LEFT_OUT), None)
    assert (page, picture) == documents(few_measurements, read_left_out(WAS_LEFT_OUT), None)
    places = [
        page.index(words)
        for words in (
            "| left out | of |",
            "## Training",
            "## Misses",
            "(accuracy.svg)",
            "## What each term is worth",
            "## What is compared",
            "## Left out of the fit, by group",
            "## In sample, by group",
        )
    ]
    assert places == sorted(places)
    assert str(few_measurements[0].parent) not in page
    assert all(f"| {name} |" in page for name in ("roofline", "constant efficiency", "kernel curves", "gpufleet"))
    assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_the_shipped_page_was_made_from_the_shipped_tables() -> None:
    """Where this fails, `make accuracy` writes the page again."""
    first, *_ = (DOCS / "accuracy.md").read_text(encoding="utf-8").splitlines()
    assert first == f"<!-- made from tables {digest(made_from(measurement_files(MEASUREMENTS)))} -->"


def test_the_shipped_picture_is_well_formed_and_small() -> None:
    text = (DOCS / "accuracy.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert len(text) < 400_000
