"""Loads the measured kernel curves and decides which of them each accelerator uses."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import (
    UNSUPPORTED,
    Axis,
    Calibration,
    CollectiveTables,
    Grids,
    OperatorTables,
)
from gpufleet.domain.precision import PRECISIONS, Precision
from gpufleet.provenance import Grade
from gpufleet.units import GIGA

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parent.parent / "data" / "calibration"
MILLI = 1e-3
OPERATORS = ("gemm", "decode", "prefill", "latent_decode", "latent_prefill", "latent_absorb", "experts")
FORMAT_FREE = "latent_absorb"
RULES_OF = {
    "gemm": "gemm",
    "experts": "experts",
    "decode": "attention",
    "prefill": "attention",
    "latent_decode": "latent",
    "latent_prefill": "latent",
    "latent_absorb": "latent",
}


@dataclass(frozen=True)
class TableFile:
    """The grids of one operator and the row of each (accelerator, precision or link)."""

    grids: Grids
    rows: Mapping[tuple[str, str], int]
    arithmetic: Mapping[tuple[str, str], str]
    low_ratio: tuple[float, ...]
    high_ratio: tuple[float, ...]


@dataclass(frozen=True)
class Loan:
    """Whose curves an accelerator uses, how much slower it is taken to be, and how far that can be trusted."""

    donor: str
    grade: Grade
    slowdown: float
    why: str


class Choice(NamedTuple):
    """A table that could serve a precision; `is_own` if it was measured on the donor in this very format."""

    row: int
    arithmetic: str
    is_own: bool


class Pick(NamedTuple):
    """One table chosen for one accelerator and precision."""

    row: int
    peak_flop_per_s: float
    slowdown: float
    grade: Grade
    low_ratio: float
    high_ratio: float


NO_PICK = Pick(UNSUPPORTED, 1.0, 1.0, Grade.ROOFLINE, 1.0, 1.0)


def load_calibration(accelerators: Sequence[Accelerator]) -> Calibration:
    """The kernel curves of these accelerators, stacked in their order."""
    loans = {a.name: loan_for(a) for a in accelerators}
    tables = {name: _operator_tables(name, accelerators, loans) for name in OPERATORS}
    return Calibration(
        accelerators=tuple(a.name for a in accelerators),
        bandwidth_bytes_per_s=np.array([a.bandwidth_bytes_per_s for a in accelerators], dtype=np.float64),
        gemm_tables=tables["gemm"],
        decode_tables=tables["decode"],
        prefill_tables=tables["prefill"],
        latent_decode_tables=tables["latent_decode"],
        latent_prefill_tables=tables["latent_prefill"],
        latent_absorb_tables=tables["latent_absorb"],
        expert_tables=tables["experts"],
        collective_tables=_collective_tables(accelerators, loans),
    )


def loan_for(accelerator: Accelerator) -> Loan:
    """Whose curves this accelerator uses: its own, a named donor's, or those of the first matching rule."""
    if (accelerator.name, "bf16") in read_tables("gemm").rows:
        return Loan(accelerator.name, Grade.MEASURED, 1.0, "measured")
    named = transfer_rules()["accelerator"].get(accelerator.name)
    entry = named or next(rule for rule in transfer_rules()["rule"] if _applies(rule, accelerator))
    return Loan(entry["donor"], _grade_of(entry), entry.get("slowdown", 1.0), entry["why"])


def _grade_of(entry: Mapping[str, Any]) -> Grade:
    if entry.get("shared"):
        return Grade.MEASURED
    return Grade.ROOFLINE if entry.get("grade") == "roofline" else Grade.TRANSFERRED


def _applies(rule: Mapping[str, Any], accelerator: Accelerator) -> bool:
    if accelerator.bandwidth_bytes_per_s < rule.get("least_bandwidth_gb_per_s", 0.0) * GIGA:
        return False
    if "generation" in rule:
        return accelerator.vendor == "nvidia" and bool(rule["generation"] == accelerator.generation)
    return rule["vendor"] in ("*", accelerator.vendor)


@lru_cache(maxsize=1)
def transfer_rules() -> Mapping[str, Any]:
    """transfer.toml."""
    rules: Mapping[str, Any] = tomllib.loads((DATA / "transfer.toml").read_text(encoding="utf-8"))
    return rules


@lru_cache(maxsize=1)
def kernel_provenance() -> tuple[Mapping[str, Any], ...]:
    """One record per table: engine versions, points, residuals, held-back error (kernels.toml)."""
    return tuple(tomllib.loads((DATA / "kernels.toml").read_text(encoding="utf-8"))["table"])


@lru_cache(maxsize=16)
def read_tables(operator: str) -> TableFile:
    """The grids of one operator from <operator>.json."""
    content = json.loads((DATA / f"{operator}.json").read_text(encoding="utf-8"))
    axes = tuple(Axis(*axis) for axis in content["axes"])
    records = content["tables"]
    values = np.array([record["milli_ln"] for record in records], dtype=np.float64) * MILLI
    shape = (-1, *(axis.count for axis in axes))
    keys = [(record["accelerator"], record["key"]) for record in records]
    return TableFile(
        grids=Grids(axes, values.reshape(shape), content["fixed_s"]),
        rows={key: row for row, key in enumerate(keys)},
        arithmetic={key: r["arithmetic"] for key, r in zip(keys, records, strict=True) if "arithmetic" in r},
        low_ratio=tuple(record["low_ratio"] for record in records),
        high_ratio=tuple(record["high_ratio"] for record in records),
    )


def curve_names() -> Mapping[str, Sequence[str]]:
    """Whose measurements each table is, by operator: 'H100-SXM bf16', 'L40S pcie'."""
    names = {operator: [" ".join(key) for key in read_tables(operator).rows] for operator in OPERATORS}
    return {**names, "collectives": [" ".join(key) for key in _collective_keys(read_tables("collectives"))]}


def _operator_tables(operator: str, accelerators: Sequence[Accelerator], loans: Mapping[str, Loan]) -> OperatorTables:
    tables = read_tables(operator)
    picks = [[_pick(operator, tables, a, loans[a.name], p) for p in PRECISIONS.values()] for a in accelerators]

    def column(name: str, kind: type) -> Any:
        return np.array([[getattr(pick, name) for pick in row] for row in picks], dtype=kind)

    return OperatorTables(
        grids=tables.grids,
        table=column("row", np.int64),
        peak_flop_per_s=column("peak_flop_per_s", np.float64),
        log_slowdown=np.log(column("slowdown", np.float64)),
        grade=column("grade", np.int64),
        low_ratio=column("low_ratio", np.float64),
        high_ratio=column("high_ratio", np.float64),
    )


def _pick(operator: str, tables: TableFile, accelerator: Accelerator, loan: Loan, precision: Precision) -> Pick:
    for choice in _choices(operator, loan.donor, precision.name):
        peak = _peak(accelerator, choice.arithmetic, precision)
        if peak is not None:
            borrowed_format = loan.grade is Grade.MEASURED and not choice.is_own
            grade = Grade.TRANSFERRED if borrowed_format else loan.grade
            low, high = _spread(grade, tables.low_ratio[choice.row], tables.high_ratio[choice.row])
            return Pick(choice.row, peak, loan.slowdown, grade, low, high)
    return NO_PICK


@lru_cache(maxsize=2048)
def _choices(operator: str, donor: str, precision: str) -> tuple[Choice, ...]:
    """Tables that could serve a precision, best first: the donor's own, a lender's, then the donor's fallbacks."""
    tables, group = read_tables(operator), RULES_OF[operator]
    lenders = transfer_rules()["lender"].get(group, {})
    keys = [precision, *transfer_rules()["fallback"][group].get(precision, ())]
    places = [(owner, key) for key in keys for owner in (donor, lenders.get(key)) if (owner, key) in tables.rows]
    native = PRECISIONS[precision].arithmetic
    return tuple(
        Choice(
            row=tables.rows[owner, key],
            arithmetic=tables.arithmetic.get((owner, key), native),
            is_own=owner == donor and (operator == FORMAT_FREE or _same_format(key, precision)),
        )
        for owner, key in places
    )


def _same_format(key: str, name: str) -> bool:
    return key == name or (key, name) == ("bf16", "fp16")


def _peak(accelerator: Accelerator, arithmetic: str, precision: Precision) -> float | None:
    """The peak of an arithmetic; a device without bf16 multiplies weights-only formats and fp16 in fp16."""
    peaks = accelerator.peak_flop_per_s
    if precision.name == "fp16" or (arithmetic == "bf16" and "bf16" not in peaks and precision.name != "bf16"):
        return peaks.get("fp16") or peaks.get("bf16")
    return peaks.get(arithmetic)


@lru_cache(maxsize=2048)
def _spread(grade: Grade, low_ratio: float, high_ratio: float) -> tuple[float, float]:
    """Residuals of the curve and, where it is borrowed, of lending, as independent log errors."""
    lending = transfer_rules()["spread"][grade.label]
    if grade is Grade.MEASURED:
        return min(low_ratio, lending["low_ratio"]), max(high_ratio, lending["high_ratio"])
    low = -math.hypot(math.log(low_ratio), math.log(lending["low_ratio"]))
    return math.exp(low), math.exp(math.hypot(math.log(high_ratio), math.log(lending["high_ratio"])))


def _collective_tables(accelerators: Sequence[Accelerator], loans: Mapping[str, Loan]) -> CollectiveTables:
    tables = read_tables("collectives")
    owners = {key: row for row, key in enumerate(_collective_keys(tables))}
    table = np.array([[_link_row(owners, a, loans[a.name], pcie) for pcie in (False, True)] for a in accelerators])
    own = np.array([[_measures(owners, loans[a.name], link) for link in ("switched", "pcie")] for a in accelerators])
    foreign = np.array([[loans[a.name].grade is Grade.ROOFLINE] * 2 for a in accelerators])
    grade = np.where(own, int(Grade.MEASURED), np.where(foreign, int(Grade.ROOFLINE), int(Grade.TRANSFERRED)))
    spreads = [
        [_spread(Grade(int(g)), tables.low_ratio[r * 4], tables.high_ratio[r * 4]) for g, r in zip(gs, rs, strict=True)]
        for gs, rs in zip(grade, table, strict=True)
    ]
    bounds = np.array(spreads, dtype=np.float64).reshape(len(accelerators), 2, 2)
    return CollectiveTables(tables.grids, table.astype(np.int64), grade, bounds[..., 0], bounds[..., 1])


def _collective_keys(tables: TableFile) -> list[tuple[str, str]]:
    """Owner and link of each group of four tables (one per collective)."""
    return [(owner, key.split(" ")[0]) for owner, key in tables.rows if key.endswith(" all_reduce")]


def _measures(owners: Mapping[tuple[str, str], int], loan: Loan, link: str) -> bool:
    return loan.grade is Grade.MEASURED and (loan.donor, link) in owners


def _link_row(owners: Mapping[tuple[str, str], int], accelerator: Accelerator, loan: Loan, pcie: bool) -> int:
    """The nearest measured table of the same kind of link."""
    kind = "pcie" if pcie else "switched"
    spare = _pcie_lender(accelerator) if pcie else "H100-SXM"
    return next(owners[name, kind] for name in (accelerator.name, loan.donor, spare) if (name, kind) in owners)


def _pcie_lender(accelerator: Accelerator) -> str:
    return "RTX-PRO-6000-Server" if (accelerator.pcie_generation or 4) >= 5 else "L40S"
