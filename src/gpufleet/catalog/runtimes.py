"""Runtime profiles from `data/runtimes/<name>.toml`, and a user's overlay of the same files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gpufleet.catalog.engine_eras import RELEASE
from gpufleet.catalog.engine_images import engine_images
from gpufleet.catalog.engines import named_version
from gpufleet.catalog.load import OVERLAY_VARIABLE
from gpufleet.catalog.profiles import profiles_in, sourced
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.encoder import EncoderModel
from gpufleet.domain.runtime import Copies, LogRange, Measured, Passes, Runtime, Speech, Unfused, Usual
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.provenance import Sourced

EVERY_ENGINE, FOR_ALL_OTHERS = "all", "transformers"
COPIES = ("mlp", "scores", "convolved")


def load_runtimes() -> Mapping[str, Runtime]:
    """All runtimes by name: the shipped ones, and files in `runtimes/` of the user's overlay over them."""
    return _runtimes_in(os.environ.get(OVERLAY_VARIABLE))


@lru_cache(maxsize=4)
def _runtimes_in(overlay: str | None) -> Mapping[str, Runtime]:
    return profiles_in("runtimes", overlay, "runtime", runtime_from)


def find_runtime(name: str) -> Runtime:
    """The runtime of this name or alias, in any case: 'ft' is FasterTransformer; of a version in 'tei==1.9.3'."""
    alone, version = named_version(name, None)
    if version is not None:
        return of_version(find_runtime(alone or ""), version)
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


def of_version(runtime: Runtime, version: str) -> Runtime:
    """A runtime of the version that was asked for: its flags and its image; what is timed is not told by version."""
    if re.fullmatch(RELEASE, version, re.ASCII) is None:
        raise UsageError(f"not a version of {runtime.title}", found=version, expected="numbers, such as 1.9.3")
    return replace(runtime, version=version)


def chosen_runtime(
    name: str | None, model: EncoderModel, gpu: Accelerator | None = None, formats: Collection[str] = ()
) -> Runtime:
    """The runtime that was named, or the usual one of a model; refused where it does not run the model."""
    if name is None:
        return usual_runtime(model, gpu, formats)
    runtime = find_runtime(name)
    if not runtime.runs(model.family):
        able = sorted(each.name for each in load_runtimes().values() if each.runs(model.family))
        raise Infeasible(
            f"{runtime.title} does not run {model.family} models such as {model.name}",
            found=f"--engine {name}",
            expected=f"one of {', '.join(able)}",
        )
    return runtime


def usual_runtime(model: EncoderModel, gpu: Accelerator | None = None, formats: Collection[str] = ()) -> Runtime:
    """What people serve such a model with: of those with these formats the first in rank that runs on the device.

    transformers for all other models and formats.
    """
    runtimes = load_runtimes()
    ranked = [
        (each.usual.rank, each.name) for each in runtimes.values() if each.usual and model.family in each.usual.families
    ]
    usual = [runtimes[name] for _, name in sorted(ranked) if set(formats) <= set(runtimes[name].formats)]
    there = [each for each in usual if gpu is None or each.runs_on(gpu)]
    return (there or usual or [runtimes[FOR_ALL_OTHERS]])[0]


def running_there(model: EncoderModel, gpu: Accelerator) -> list[str]:
    """Names of the runtimes that run a model on a device."""
    return sorted(r.name for r in load_runtimes().values() if r.runs(model.family) and r.runs_on(gpu))


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
        families=tuple(table.get("families", ())),
        usual=usual_from(table["usual"]) if "usual" in table else None,
        unfused=unfused_from(table.get("unfused", {})),
        images=engine_images(name),
        least_compute_capability=table.get("least_compute_capability"),
        hosts=tuple(table.get("hosts", ())),
        launch_s=sourced(table["launch_s"]),
        reserve_bytes=sourced(table["reserve_bytes"]),
        hidden_copies=sourced(table["hidden_copies"]),
    )


def usual_from(table: Mapping[str, Any]) -> Usual:
    """What is served with a runtime unless another is named."""
    return Usual(int(table["rank"]), tuple(table["families"]))


def unfused_from(table: Mapping[str, Any]) -> Unfused:
    """Where attention is several kernels."""
    return Unfused(tuple(table.get("families", ())), tuple(table.get("generations", ())))


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
