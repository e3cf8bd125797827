"""Flags of engines' commands by version: `data/engine_flags/`, one file an engine, read from the engines' sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.engine_flags import EngineFlag, EngineFlags
from gpufleet.domain.versions import version_key

TABLES = SHIPPED / "engine_flags"
KNOWN = ("sglang", "tensorrt-llm", "text-embeddings-inference", "vllm")
COLUMNS = ("version", "flag", "aliases", "takes_value", "choices", "source")
SERIES = 2
"""A table stands for the whole series of its version: 0.5.8 for 0.5.9."""


@cache
def engine_flags(engine: str, version: str | None = None) -> EngineFlags | None:
    """The flags of a version, or of the nearest that has a table; None of engines without one.

    The nearest is the newest that is not newer, else the oldest; of the version's own series where it has a table.
    Without a version the newest counts.

    >>> engine_flags("vllm", "0.20.1").version, engine_flags("vllm", "0.20.1").is_exact
    ('0.19.1', False)
    >>> engine_flags("vllm", "0.19").version
    '0.19.1'
    """
    tables = flags_by_version(engine)
    if not tables:
        return None
    known = sorted(tables, key=version_key)
    if version is None:
        chosen, is_exact = known[-1], True
    else:
        series = [each for each in known if version_key(each)[:SERIES] == version_key(version)[:SERIES]]
        older = [each for each in series or known if version_key(each) <= version_key(version)]
        chosen, is_exact = (older[-1] if older else (series or known)[0]), bool(series)
    return EngineFlags.of(engine, chosen, tables[chosen], is_exact=is_exact)


@cache
def flags_by_version(engine: str) -> Mapping[str, tuple[EngineFlag, ...]]:
    """The flags of each version that has a table."""
    if engine not in KNOWN:
        return {}
    found: dict[str, list[EngineFlag]] = {}
    for _, row in rows_of(TABLES / f"{engine}.csv", COLUMNS):
        takes_value = {"yes": True, "no": False}.get(row["takes_value"])
        flag = EngineFlag(row["flag"], tuple(row["aliases"].split()), takes_value, tuple(row["choices"].split()))
        found.setdefault(row["version"], []).append(flag)
    return {version: tuple(flags) for version, flags in found.items()}
