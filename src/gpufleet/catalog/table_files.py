"""Files of tables, TOML and CSV: every row with its place, and what is no table refused."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpufleet.catalog.schema import (
    Place,
)
from gpufleet.errors import UsageError, nearest_names
from gpufleet.files import entries_of, files_below, read_text_file, told_once, toml_table
from gpufleet.units import MB

SHIPPED = Path(__file__).parent.parent / "data"
MAX_FILE_BYTES = 50 * MB

Item = TypeVar("Item")


def merged(directories: list[Path], read: Callable[[Path], dict[Any, Item]]) -> dict[Any, Item]:
    """One table of all directories; a later row replaces an earlier one of the same key."""
    table: dict[Any, Item] = {}
    for directory in directories:
        table.update(read(directory))
    return table


def table_in(
    directory: Path, name: str, columns: tuple[str, ...], read: Callable[[Place, Mapping[str, str]], Item]
) -> Iterator[Item]:
    """Rows of a single table, none where there is no such file."""
    path = directory / name
    return (read(place, row) for place, row in rows_of(path, columns)) if os.path.lexists(path) else iter(())


def toml_files(folder: Path) -> list[Path]:
    """TOML files of a folder, in a stable order."""
    return [entry for entry in entries_of(folder) if entry.suffix == ".toml"]


def placed_rows(
    folder: Path, columns: tuple[str, ...], read: Callable[[Place, Mapping[str, str]], Item]
) -> Iterator[tuple[Place, Item]]:
    """What every row of the CSV files of a folder says, each with its place."""
    return ((place, read(place, row)) for path in files_below(folder, ".csv") for place, row in rows_of(path, columns))


def rows_of(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[Place, dict[str, str]]]:
    """Rows of a CSV file with the place of each."""
    return rows_in(path, content_of(path), columns)


def rows_in(path: Path, content: str, columns: tuple[str, ...]) -> Iterator[tuple[Place, dict[str, str]]]:
    """Rows of CSV with the place of each; a header without one of the columns is refused.

    A header `name=value` says once what every row has in that column: rows have no cell for it.
    """
    lines = cells_of(path, content)
    header, same = told_once(next(lines, []))
    missing = [column for column in columns if column not in header and column not in same]
    if missing:
        raise lacking(path, [*header, *same], missing[0], columns)
    for line_number, cells in enumerate(lines, start=2):
        place = Place(str(path), f"line {line_number}")
        if len(cells) != len(header):
            raise UsageError(f"{place}: wrong number of cells", found=len(cells), expected=str(len(header)))
        yield place, {**dict(zip(header, cells, strict=True)), **same}


def cells_of(path: Path, content: str) -> Iterator[list[str]]:
    """Cells of every line; what is no CSV (a cell without end, NUL before Python 3.11) is refused."""
    try:
        yield from csv.reader(content.splitlines())
    except csv.Error as error:
        raise UsageError(
            f"{path} cannot be read as CSV", found=str(error), expected="cells separated by commas"
        ) from None


def lacking(path: Path, header: Sequence[str], column: str, columns: Sequence[str]) -> UsageError:
    """The error of a header without a column, with the column that may have been meant by it."""
    nearest = nearest_names(column, [name for name in header if name not in columns], count=1)
    hint = f"{nearest[0]} is called {column} here." if nearest else None
    if len(header) == 1 and header[0].count(";") >= len(columns) // 2:
        hint = "Its cells are separated by semicolons; a comma separates them here, and a dot the decimals."
    elif column == "price_per_instance_usd_per_hour" and any("_per_hour" in name for name in header):
        hint = "Prices in another currency go into foreign_offers/, whose rows name it (docs/prices.md)."
    return UsageError(f"{path}: the header lacks a column", found=",".join(header), expected=column, hint=hint)


def tables_of(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Tables of a TOML file by name."""
    for name, table in toml_of(path).items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} stands outside a table", expected=f"a heading such as [{name}]")
        yield name, table


def toml_of(path: Path) -> dict[str, Any]:
    """A TOML file."""
    return toml_table(content_of(path), path)


def content_of(path: Path) -> str:
    """A text file of sane size."""
    return read_text_file(path, "a catalog table", MAX_FILE_BYTES)
