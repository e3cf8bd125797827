"""What is wrong with a file of Docker Compose, by a table of its fields and by what its parts name of each other."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("compose_fields.csv")
MAPS = ("services", "volumes")


def fields() -> dict[str, tuple[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["path"]: (row["type"], row["pattern"]) for row in csv.DictReader(file)}


def faults(content: Any) -> list[str]:
    """Each key that is unknown, value of another type or form, and name or GPU that does not fit."""
    return list(unlike_table(content, "", fields())) or list(unlike_each_other(content))


def unlike_table(content: Any, path: str, known: dict[str, tuple[str, str]]) -> Iterator[str]:
    for key, value in content.items():
        within = f"{path}.{key}" if path else key
        named = f"{path}.*" if path in MAPS else within
        if named not in known:
            yield f"{within} is no field"
            continue
        kind, pattern = known[named]
        if path in MAPS and re.fullmatch(pattern, key) is None:
            yield f"{within} is no name"
        yield from of_kind(value, kind, "" if path in MAPS else pattern, within, named, known)


def of_kind(
    value: Any, kind: str, pattern: str, place: str, named: str, known: dict[str, tuple[str, str]]
) -> Iterator[str]:
    of = {"string": str, "integer": int, "object": dict, "texts": dict, "strings": list, "objects": list}[kind]
    if not isinstance(value, of):
        yield f"{place} is no {kind}"
        return
    if kind == "object":
        yield from unlike_table(value, named, known)
    elif kind == "objects":
        for each in value:
            yield from unlike_table(each, named, known)
    else:
        texts = value if kind == "strings" else list(value.values()) if kind == "texts" else [value]
        for text in texts:
            if kind != "integer" and not isinstance(text, str):
                yield f"{place} holds {text!r}, no text"
            elif pattern and re.fullmatch(pattern, str(text)) is None:
                yield f"{place} is {text!r}"


def unlike_each_other(content: Any) -> Iterator[str]:
    services = content.get("services", {})
    ports = [port.rsplit(":", 1)[0] for each in services.values() for port in each.get("ports", [])]
    devices = [
        gpu
        for each in services.values()
        for device in each.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
        for gpu in device.get("device_ids", [])
    ]
    for what, found in (("port", ports), ("GPU", devices)):
        yield from (f"{what} {each} is given twice" for each in {e for e in found if found.count(e) > 1})
    for name, each in services.items():
        yield from (f"{name} waits for {other}" for other in each.get("depends_on", []) if other not in services)
        for volume in each.get("volumes", []):
            source = volume.split(":", 1)[0]
            if not source.startswith("./") and source not in content.get("volumes", {}):
                yield f"{name} mounts {source}"
