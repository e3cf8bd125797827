"""Tables whose header says once what every row has in a column."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog.list_prices import rows_of as light_rows_of
from gpufleet.catalog.table_files import rows_of
from gpufleet.errors import UsageError

COLUMNS = ("cloud", "region", "price")


def test_what_a_header_says_once_stands_in_every_row(tmp_path: Path) -> None:
    """Both readers, that of catalogs and that of the standard library alone, read what the long form says."""
    once, long = tmp_path / "once.csv", tmp_path / "long.csv"
    once.write_text("region,price,cloud=aws,note=\neu,1\nus,2\n", encoding="utf-8")
    long.write_text("region,price,cloud,note\neu,1,aws,\nus,2,aws,\n", encoding="utf-8")
    told, written = ([row for _, row in rows_of(path, COLUMNS)] for path in (once, long))
    assert told == written == list(light_rows_of(once)) == list(light_rows_of(long))


def test_a_row_with_a_cell_for_what_was_said_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("region,price,cloud=aws\neu,1,gcp\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"line 2: wrong number of cells.*found 3.*expected 2"):
        list(rows_of(path, COLUMNS))


def test_a_column_that_nobody_names_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("region,cloud=aws\neu\n", encoding="utf-8")
    with pytest.raises(UsageError, match="price"):
        list(rows_of(path, COLUMNS))
