"""Engine profiles from `data/engines/<name>.toml`, and a user's overlay of the same files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from gpufleet.catalog.kept import kept
from gpufleet.catalog.load import OVERLAY_VARIABLE
from gpufleet.catalog.profiles import profiles_in, sourced
from gpufleet.catalog.table_files import SHIPPED
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.beside import AdapterRules, HostMemoryRules
from gpufleet.domain.engine import (
    CardLimits,
    DroppedGeneration,
    EarlierFigure,
    EarlierFusion,
    EngineGeneration,
    EngineProfile,
    FormatSupport,
    Implemented,
    MemoryEra,
)
from gpufleet.errors import UnknownName, UsageError
from gpufleet.files import files_below
from gpufleet.layout.support import architecture_refusal
from gpufleet.provenance import Sourced
from gpufleet.units import GIB

DEFAULT_ENGINE, ENGINE_OF_GGUF = "vllm", "llama.cpp"


def usual_engine(arch: Architecture) -> str:
    """The engine of a model where none is named: llama.cpp for its files, else vLLM."""
    return ENGINE_OF_GGUF if arch.weights.is_gguf else DEFAULT_ENGINE


def named_version(engine: str | None, version: str | None) -> tuple[str | None, str | None]:
    """The name and the version of 'vllm==0.19.1', or those that are said apart.

    >>> named_version("vllm==0.19.1", None), named_version("vllm", "0.19.1"), named_version(None, None)
    (('vllm', '0.19.1'), ('vllm', '0.19.1'), (None, None))
    """
    name, equals, said = (engine or "").partition("==")
    if not equals:
        return engine, version
    if not name.strip() or not said.strip():
        raise UsageError("cannot read an engine with its version", found=engine, expected="such as vllm==0.19.1")
    if version is not None and version != said.strip():
        raise UsageError("two versions of the engine", found=f"{said.strip()} and {version}", expected="one of them")
    return name.strip(), said.strip()


def load_engines() -> Mapping[str, EngineProfile]:
    """All engine profiles by name: the shipped ones, and files in `engines/` of the user's overlay over them."""
    return _engines_in(os.environ.get(OVERLAY_VARIABLE))


@lru_cache(maxsize=4)
def _engines_in(overlay: str | None) -> Mapping[str, EngineProfile]:
    if overlay is not None:
        return profiles_in("engines", overlay, "engine", engine_from)
    files = files_below(SHIPPED / "engines", ".toml")
    return kept("engines", files, None, lambda: profiles_in("engines", None, "engine", engine_from))


def find_engine(name: str) -> EngineProfile:
    """The engine of this name or alias, in any case: 'trtllm' is TensorRT-LLM."""
    names = _names_in(os.environ.get(OVERLAY_VARIABLE))
    try:
        return names[name.strip().casefold()]
    except KeyError:
        known = ", ".join(sorted(load_engines()))
        raise UnknownName("engine", name, names, hint=f"Known: {known}.") from None


@lru_cache(maxsize=4)
def _names_in(overlay: str | None) -> Mapping[str, EngineProfile]:
    """Names and aliases as they are compared."""
    return {alias.casefold(): e for name, e in _engines_in(overlay).items() for alias in (name, *e.aliases)}


def engines_that_implement(arch: Architecture) -> list[str]:
    """Titles of the engines that a model runs on, on some device."""
    return [engine.title for engine in load_engines().values() if architecture_refusal(engine, arch) is None]


def engine_from(name: str, table: Mapping[str, Any]) -> EngineProfile:
    """One engine from the tables of its file."""
    formats = _supports(table, "formats")
    return EngineProfile(
        name=name,
        title=table["title"],
        version_era=table["version_era"],
        memory_fraction=_figure(table, "memory_fraction"),
        reserve_bytes=_figure(table, "reserve_bytes"),
        graph_bytes=_figure(table, "graph_bytes"),
        kv_block_tokens=int(table["kv_block_tokens"]),
        max_batch=int(table["max_batch"]),
        prefill_budget_tokens=int(table["prefill_budget_tokens"]),
        constants={key: _figure(table["constants"], key) for key in table["constants"]},
        weight_formats=tuple(dict.fromkeys(support.name for support in formats)),
        vendors=tuple(table["vendors"]),
        grade=table["grade"],
        aliases=tuple(table["aliases"]),
        formats=formats,
        kv_formats=_supports(table, "kv_formats"),
        refusals=dict(table["refusals"]),
        kv_of_weights=dict(table.get("kv_of_weights", {})),
        fused_quantisation={name: tuple(by) for name, by in table.get("fused_quantisation", {}).items()},
        cards=tuple(_card(row) for row in table.get("cards", ())),
        memory_eras=tuple(_memory_era(row) for row in table.get("memory_eras", ())),
        earlier=tuple(_earlier(row) for row in table.get("earlier", ())),
        earlier_fusions=tuple(_earlier_fusion(row) for row in table.get("earlier_fusions", ())),
        releases=tuple(table.get("releases", ())),
        repository=table.get("repository"),
        newest_version=table.get("newest_version"),
        dropped=tuple(_dropped(row) for row in table.get("dropped", ())),
        splits_by_layer=bool(table.get("splits_by_layer", False)),
        architectures=_implemented(table.get("architectures")),
        generations=tuple(_generation(row) for row in table.get("generations", ())),
        adapters=_adapters(table.get("adapters")),
        host_memory=_host_memory(table.get("host_memory")),
    )


def _supports(table: Mapping[str, Any], key: str) -> tuple[FormatSupport, ...]:
    with _inside(key):
        return tuple(_support(row) for row in table[key])


def _support(row: Mapping[str, Any]) -> FormatSupport:
    return FormatSupport(
        row["name"],
        tuple(row["generations"]),
        row["arithmetic"],
        since=row.get("since"),
        until=row.get("until"),
        head_dims=tuple(row.get("head_dims", ())),
        lacks=tuple(row.get("lacks", ())),
        source=row.get("source", ""),
    )


def _implemented(table: Mapping[str, Any] | None) -> Implemented:
    """What a file says of architectures; nothing said is nothing lacking."""
    if table is None:
        return Implemented()
    with _inside("architectures"):
        return Implemented(tuple(table.get("has", ())), tuple(table.get("lacks", ())), table["source"])


def _card(row: Mapping[str, Any]) -> CardLimits:
    with _inside("cards"):
        below_gib = row.get("below_gib", math.inf)
        return CardLimits(below_gib * GIB, int(row["prefill_budget_tokens"]), int(row["graph_batch"]))


def _dropped(row: Mapping[str, Any]) -> DroppedGeneration:
    with _inside("dropped"):
        return DroppedGeneration(row["generation"], row["until"], row["why"], row["source"])


def _generation(row: Mapping[str, Any]) -> EngineGeneration:
    with _inside("generations"):
        bounds = {name: row.get(name) for name in ("oldest", "newest", "first", "last")}
        return EngineGeneration(row["name"], source=row["source"], asked_by=row.get("asked_by", ""), **bounds)


def _adapters(table: Mapping[str, Any] | None) -> AdapterRules | None:
    if table is None:
        return None
    with _inside("adapters"):
        lists = {name: tuple(table.get(name, ())) for name in ("ranks", "lacks")}
        return AdapterRules(**{"since": table["since"], "source": table["source"], **table, **lists})


def _host_memory(table: Mapping[str, Any] | None) -> HostMemoryRules | None:
    if table is None:
        return None
    with _inside("host_memory"):
        return HostMemoryRules(table["source"], table.get("weights_since"), table.get("kv_since"))


def _memory_era(row: Mapping[str, Any]) -> MemoryEra:
    with _inside("memory_eras"):
        return MemoryEra(
            name=row["name"],
            newest=row["newest"],
            until=row["until"],
            until_date=str(row["until_date"]),
            until_issue=int(row["until_issue"]),
            figures={key: _figure(row["figures"], key) for key in row["figures"]},
            max_batch=row.get("max_batch"),
        )


def _earlier(row: Mapping[str, Any]) -> EarlierFigure:
    with _inside("earlier"):
        return EarlierFigure(row["figure"], row["until"], sourced(row))


def _earlier_fusion(row: Mapping[str, Any]) -> EarlierFusion:
    with _inside("earlier_fusions"):
        return EarlierFusion(row["format"], row["until"], tuple(row["written_by"]), row["source"])


def _figure(table: Mapping[str, Any], key: str) -> Sourced:
    figure = table[key]
    with _inside(key):
        return sourced(figure)


@contextmanager
def _inside(key: str) -> Iterator[None]:
    """A key that is missing in a table of the file is named with that table."""
    try:
        yield
    except KeyError as error:
        missing = error.args[0]
        raise KeyError(key if missing == key else f"{key}.{missing}") from None
