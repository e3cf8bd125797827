"""Runtime profiles from `data/runtimes/<name>.toml`, and a user's overlay of the same files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpufleet.catalog.engines import OVERLAY_VARIABLE
from gpufleet.domain.runtime import Passes, Runtime
from gpufleet.errors import UnknownName, UsageError
from gpufleet.provenance import Sourced

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED = Path(__file__).parent.parent / "data" / "runtimes"
FIGURES = ("launch_s", "reserve_bytes", "hidden_copies", "log_low", "log_high")


def load_runtimes() -> Mapping[str, Runtime]:
    """All runtimes by name: the shipped ones, and files in `runtimes/` of the user's overlay over them."""
    return _runtimes_in(os.environ.get(OVERLAY_VARIABLE))


@lru_cache(maxsize=4)
def _runtimes_in(overlay: str | None) -> Mapping[str, Runtime]:
    folders = [SHIPPED, *([Path(overlay) / "runtimes"] if overlay else [])]
    files = [file for folder in folders for file in sorted(folder.glob("*.toml"))]
    return {file.name.removesuffix(".toml"): _read(file) for file in files}


def find_runtime(name: str) -> Runtime:
    """The runtime of this name or alias, in any case: 'ft' is FasterTransformer."""
    runtimes = load_runtimes()
    names = {alias.casefold(): key for key, each in runtimes.items() for alias in (key, *each.aliases)}
    try:
        return runtimes[names[name.strip().casefold()]]
    except KeyError:
        hint = f"Encoders run in: {', '.join(sorted(runtimes))}."
        raise UnknownName("engine of encoders", name, names, hint=hint) from None


def _read(file: Path) -> Runtime:
    try:
        return runtime_from(file.name.removesuffix(".toml"), tomllib.loads(file.read_text(encoding="utf-8")))
    except KeyError as error:
        hint = "See the shipped runtime files for what each table holds."
        raise UsageError(f"the runtime profile {file} lacks {error.args[0]!r}", hint=hint) from error
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, ValueError, OSError) as error:
        hint = "Every figure needs value, unit and source; see the shipped runtime files."
        raise UsageError(f"cannot read the runtime profile {file.name}", found=str(error), hint=hint) from error


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
        product_kernels=int(table["product_kernels"]),
        fused_head_dims=tuple(int(size) for size in table["fused_head_dims"]),
        formats=tuple(table["formats"]),
        grade=table["grade"],
        **{key: _figure(table[key]) for key in FIGURES},
    )


def _figure(figure: Mapping[str, Any]) -> Sourced:
    low, high, points = (figure.get(bound) for bound in ("low", "high", "points"))
    return Sourced(float(figure["value"]), figure["unit"], figure["source"], low, high, points)
