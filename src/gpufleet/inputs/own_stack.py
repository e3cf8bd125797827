"""The file of what one's own measurements say of an engine on a GPU: `calibrate` writes it, questions read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from gpufleet.domain.own_stack import STEP, TIMES, Factor, Fitted, OwnStack, Spreads
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file, toml_table
from gpufleet.units import MB

VERSION = 1
LARGEST_LOG, LARGEST_SPREAD = 3.0, 2.0
DIGEST_BYTES = 8
JOINED = " | "
EXPECTED = "a file that 'gpufleet calibrate --save' wrote"


def as_toml(stack: OwnStack) -> str:
    """The file of a stack."""
    return "\n".join(lines_of(stack)) + "\n"


def lines_of(stack: OwnStack) -> Iterator[str]:
    """Its lines: what was measured, then each time with the factors of all models, of models, of layouts."""
    yield f"# {stack.engine} on {stack.gpu}, {stack.num_runs} runs: ln of factors on times, by 'gpufleet calibrate'"
    stated = {"engine": stack.engine, "engine_version": stack.version, "gpu": stack.gpu, "runs": stack.num_runs}
    yield from (f"{name} = {json.dumps(value)}" for name, value in {"version": VERSION, **stated}.items())
    for time, fitted in stack.times.items():
        yield from ("", f"[{time}]", f"shared = {inline(asdict(fitted.shared))}")
        yield f"spreads = {inline(asdict(fitted.spreads))}"
        layouts = {JOINED.join(names): factor for names, factor in fitted.layouts.items()}
        for part, factors in (("models", fitted.models), ("layouts", layouts)):
            yield f"[{time}.{part}]"
            yield from (f"{json.dumps(name)} = {inline(asdict(factor))}" for name, factor in factors.items())


def inline(numbers: Mapping[str, float]) -> str:
    """Numbers as an inline table."""
    return "{ " + ", ".join(f"{name} = {value:.6g}" for name, value in numbers.items()) + " }"


def read_own_stack(path: str | PathLike[str]) -> OwnStack:
    """The stack that a file keeps."""
    return stack_in(read_text_file(str(path), "a calibration", MB), str(path))


@lru_cache(maxsize=8)
def stack_in(text: str, path: str) -> OwnStack:
    """The stack that a text keeps, one object for one text."""
    table = toml_table(text, path, EXPECTED)
    if table.get("version") != VERSION:
        raise UsageError(f"{path} is no calibration", found=f"version {table.get('version')}", expected=EXPECTED)
    named = {name: table.get(name) for name in ("engine", "engine_version", "gpu")}
    if not all(isinstance(value, str) for value in named.values()) or type(table.get("runs")) is not int:
        raise UsageError(f"{path} does not say its engine, its version, its GPU or its runs", expected=EXPECTED)
    return OwnStack(
        engine=str(named["engine"]),
        gpu=str(named["gpu"]),
        version=str(named["engine_version"]),
        num_runs=int(table["runs"]),
        times={
            time: fitted_in(table[time], f"{path}, {time}")
            for time in (*TIMES, STEP)
            if isinstance(table.get(time), Mapping)
        },
        name=Path(path).name,
        digest=hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest(),
    )


def fitted_in(table: Mapping[str, Any], where: str) -> Fitted:
    """The factors of one time."""
    spreads = [number_in(table.get("spreads"), f.name, where, 0.0, LARGEST_SPREAD, f.default) for f in fields(Spreads)]
    layouts = factors_in(table.get("layouts"), where)
    parts = {name: name.split(JOINED) for name in layouts}
    wrong = next((name for name, part in parts.items() if len(part) != 2), None)
    if wrong is not None:
        raise UsageError(f"{where} names no model with a layout", found=wrong, expected="'llama-3.1-8b in bf16 | TP1'")
    return Fitted(
        shared=factor_in(table.get("shared"), where),
        models=factors_in(table.get("models"), where),
        layouts={(parts[name][0], parts[name][1]): factor for name, factor in layouts.items()},
        far=(),
        spreads=Spreads(*spreads),
    )


def factors_in(table: Any, where: str) -> dict[str, Factor]:
    """Factors by name; none where nothing is said."""
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} holds something else than factors", found=table, expected=EXPECTED)
    return {name: factor_in(factor, f"{where}, {name}") for name, factor in table.items()}


def factor_in(table: Any, where: str) -> Factor:
    """One factor: no stack is twenty times as slow as predicted."""
    log = number_in(table, "log", where, -LARGEST_LOG, LARGEST_LOG)
    spread = number_in(table, "spread", where, 0.0, LARGEST_SPREAD)
    return Factor(log, spread, number_in(table, "slope", where, -LARGEST_SPREAD, LARGEST_SPREAD, 0.0))


def number_in(table: Any, name: str, where: str, least: float, most: float, otherwise: Any = None) -> float:
    """A number between two ends."""
    value = table.get(name, None if otherwise is MISSING else otherwise) if isinstance(table, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise UsageError(
            f"{where}: {name} is no number that can be", found=value, expected=f"from {least:g} to {most:g}"
        )
    return float(value)
