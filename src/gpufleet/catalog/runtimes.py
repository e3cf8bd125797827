"""Runtime profiles from `data/runtimes/<name>.toml`, and a user's overlay of the same files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpufleet.catalog.load import OVERLAY_VARIABLE
from gpufleet.catalog.profiles import profiles_in, sourced
from gpufleet.domain.runtime import Copies, LogRange, Measured, Passes, Runtime, Speech
from gpufleet.errors import UnknownName, UsageError
from gpufleet.provenance import Sourced

EVERY_ENGINE = "all"
FIGURES = ("launch_s", "reserve_bytes", "hidden_copies")
COPIES = ("mlp", "scores", "convolved")


def load_runtimes() -> Mapping[str, Runtime]:
    """All runtimes by name: the shipped ones, and files in `runtimes/` of the user's overlay over them."""
    return _runtimes_in(os.environ.get(OVERLAY_VARIABLE))


@lru_cache(maxsize=4)
def _runtimes_in(overlay: str | None) -> Mapping[str, Runtime]:
    return profiles_in("runtimes", overlay, "runtime", runtime_from)


def find_runtime(name: str) -> Runtime:
    """The runtime of this name or alias, in any case: 'ft' is FasterTransformer."""
    runtimes = load_runtimes()
    names = {alias.casefold(): key for key, each in runtimes.items() for alias in (key, *each.aliases)}
    asked, known = name.strip().casefold(), ", ".join(sorted(runtimes))
    if asked in names:
        return runtimes[names[asked]]
    if asked == EVERY_ENGINE:
        hint = "Their windows and beams differ: ask for each by itself and compare the costs."
        raise UsageError(
            "encoders are planned with one engine at a time", found=name, expected=f"one of {known}", hint=hint
        )
    raise UnknownName("engine of encoders", name, runtimes, hint=f"Encoders run in: {known}.")


def runtime_from(name: str, table: Mapping[str, Any]) -> Runtime:
    """One runtime from the tables of its file."""
    passes = table["passes"]
    return Runtime(
        name=name,
        title=table["title"],
        aliases=tuple(table["aliases"]),
        vendors=tuple(table["vendors"]),
        passes=Passes(
            hidden=float(passes["hidden"]),
            mlp=float(passes["mlp"]),
            scores=float(passes["scores"]),
            kernels=int(passes["kernels"]),
            score_kernels=int(passes["score_kernels"]),
        ),
        copies=Copies(**{name: float(table["copies"][name]) for name in COPIES}),
        product_kernels=int(table["product_kernels"]),
        fused_head_dims=tuple(int(size) for size in table["fused_head_dims"]),
        formats=tuple(table["formats"]),
        passes_range=range_from(table["passes_range"]),
        answers_range=range_from(table["answers_range"]),
        speech=speech_from(table["speech"]) if "speech" in table else None,
        **{key: sourced(table[key]) for key in FIGURES},
    )


def range_from(table: Mapping[str, Any]) -> LogRange:
    """Both ends of ln(measured / predicted), and what the constants of that kind of model rest on."""
    low, high = (
        Sourced(float(table[end]), "ln ratio", table["source"], points=int(table["points"])) for end in ("low", "high")
    )
    return LogRange(low, high, Measured(int(table["rows"]), tuple(table["gpus"])))


def speech_from(table: Mapping[str, Any]) -> Speech:
    """How a recording is read and cut."""
    most = table.get("most_windows")
    return Speech(
        host_s_per_audio_s=sourced(table["host_s_per_audio_s"]),
        new_audio_ratio=sourced(table["new_audio_ratio"]),
        most_windows=None if most is None else int(most),
        beams=int(table["beams"]),
    )
