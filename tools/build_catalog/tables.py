"""Gathered facts are read, and the tables of `src/gpufleet/data` are written."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from gpufleet.catalog.table_files import toml_of

Tables = dict[str, dict[str, Any]]
Row = dict[str, str]
DATA = Path(__file__).resolve().parents[2] / "src" / "gpufleet" / "data"


def read(path: Path, delimiter: str = ",") -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def write_csv(path: Path, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_told_once(path: Path, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    """The same with the columns in which all rows agree told in the header alone: `cloud=aws`."""
    told = [{name: str(row[name]) for name in columns} for row in rows]
    same = {name: told[0][name] for name in columns if len({row[name] for row in told}) == 1} if len(told) > 1 else {}
    others = [name for name in columns if name not in same]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*others, *(f"{name}={value}" for name, value in same.items())])
        writer.writerows([row[name] for name in others] for row in told)


def write_toml(path: Path, tables: Tables) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = [toml_block(name, table) for name, table in tables.items()]
    path.write_text("\n".join(blocks), encoding="utf-8")


def tables_in(path: Path) -> Tables:
    """What a file holds already; nothing where there is none."""
    return toml_of(path) if path.exists() else {}


def toml_block(name: str, table: dict[str, Any]) -> str:
    lines = [f"{key} = {toml_value(value)}\n" for key, value in table.items() if value not in (None, "")]
    return f"[{name if re.fullmatch('[A-Za-z0-9_-]+', name) else json.dumps(name)}]\n" + "".join(lines)


def toml_value(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)


def offer_row(cloud: str, region: str, instance: str, price: float, source: str, as_of: str, **other: str) -> Row:
    defaults = {"price_kind": "on_demand", "upfront_usd": "0", "basis": "list", "interruption": ""}
    return {
        **defaults,
        "cloud": cloud,
        "region": region,
        "instance_type": instance,
        "price_per_instance_usd_per_hour": f"{price:.10g}",
        "source_id": source,
        "as_of": as_of,
        **other,
    }


def figure(cell: str) -> float | None:
    return float(cell) if cell else None


def plain_evidence(words: str) -> str:
    """What was read somewhere is confirmed; what was not is unconfirmed."""
    words = re.sub(r"\brecalled\b", "unconfirmed", words)
    return re.sub(r"\bseen\b", "confirmed", words)


def public_notes(words: str) -> str:
    """Notes without sentences about material that readers do not have."""
    sentences = re.split(r"(?<=\.)\s+", words)
    return " ".join(s for s in sentences if not re.search(r"seeds?\b|truth|lightning", s, re.IGNORECASE))


@cache
def source_date(source: str) -> str:
    """The day that a source of sources.toml speaks of."""
    return date.isoformat(toml_of(DATA / "sources.toml")[source]["as_of"])
