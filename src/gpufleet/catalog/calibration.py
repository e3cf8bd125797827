"""Loads the measured kernel curves and decides which of them each accelerator uses."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gpufleet.catalog.kept import kept, key_of
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import AnyArray, FloatArray
from gpufleet.domain.calibration import (
    ENGINES_WITH_KERNELS,
    EVERY_ENGINE,
    MIXER_OPERATORS,
    UNSUPPORTED,
    WIDE_BYTES,
    Axis,
    Calibration,
    CollectiveTables,
    EngineStepFormula,
    Formulas,
    Grids,
    HandoverFormula,
    HostExchangeFormula,
    HostReadFormula,
    OperatorTables,
    RoutingFormula,
    SparsePromptFormula,
    StateFormulas,
    StreamFormula,
    VisionFormula,
    kernels_instead,
    precision_index,
)
from gpufleet.domain.habits import Habits
from gpufleet.domain.precision import PRECISIONS, Precision
from gpufleet.performance.gemm import gemm_bytes, gemm_flop
from gpufleet.performance.roofline import roofline_s
from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass
from gpufleet.units import GIGA

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parent.parent / "data" / "calibration"
OPERATORS = ("gemm", "decode", "window", "prefill", "latent_decode", "latent_prefill", "latent_absorb", "experts")
KINDS_OF_TABLES = ("*.json", "*.knots", "*.toml")
SAME_SILICON, OTHER_GENERATION = "same silicon", "other generation"
FORMAT_FREE = "latent_absorb"
TABLES_OF_A_LINK = 4
WIDE, WEIGHTS_ALONE = PRECISIONS["bf16"], ("int8_wo", "int4", "nf4")
RULES_OF = {
    "gemm": "gemm",
    "experts": "experts",
    "decode": "attention",
    "window": "attention",
    "prefill": "attention",
    "latent_decode": "latent",
    "latent_prefill": "latent",
    "latent_absorb": "latent",
    "delta_decode": "recurrence",
    "delta_prefill": "recurrence",
    "kda_decode": "recurrence",
    "kda_prefill": "recurrence",
    "index_decode": "index",
    "index_prefill": "index",
    "index_choice": "index",
    "sparse_prefill": "sparse",
    "block_prefill": "sparse",
}


@dataclass(frozen=True)
class TableFile:
    """The grids of one operator and the row of each (accelerator, precision or link, engine)."""

    grids: Grids
    rows: Mapping[tuple[str, str, str], int]
    arithmetic: Mapping[tuple[str, str, str], str]
    low_ratio: tuple[float, ...]
    high_ratio: tuple[float, ...]


@dataclass(frozen=True)
class Loan:
    """Whose curves an accelerator uses, how much slower it is taken to be, and how far that can be trusted.

    `kin` says how near the two are: what lending costs was measured for both kinds.
    """

    donor: str
    grade: Grade
    slowdown: float
    why: str
    kin: str = OTHER_GENERATION


class Choice(NamedTuple):
    """A table that could serve a precision; `is_own` if it was measured on the donor in this very format.

    `is_widened`: weights alone are in the format, for devices without its arithmetic.
    """

    row: int
    arithmetic: str
    is_own: bool
    owner: str
    is_widened: bool = False


class Pick(NamedTuple):
    """One table chosen for one accelerator and precision."""

    row: int
    peak_flop_per_s: float
    slowdown: float
    lost_ratio: float
    grade: Grade
    low_ratio: float
    high_ratio: float
    is_widened: bool = False


NO_PICK = Pick(UNSUPPORTED, 1.0, 1.0, 0.0, Grade.ROOFLINE, 1.0, 1.0)


def load_calibration(
    accelerators: Sequence[Accelerator], instead: Mapping[str, Loan] = MappingProxyType({})
) -> Calibration:
    """The kernel curves of these accelerators, stacked in their order; `instead` lends to some as if unmeasured."""
    of = kernel_digest(), tuple(accelerators)
    loans = {**kept("loans", (), of, lambda: {a.name: loan_for(a) for a in accelerators}), **instead}
    stack = key_of((), (of, loans))
    return Calibration(
        accelerators=tuple(a.name for a in accelerators),
        bandwidth_bytes_per_s=np.array([a.bandwidth_bytes_per_s for a in accelerators], dtype=np.float64),
        tables=KernelTables(accelerators, loans, stack),
        collective_tables=kept("collectives", (), stack, lambda: _collective_tables(accelerators, loans)),
        formulas=load_formulas(),
    )


class Devices:
    """Accelerators as a key: the same where all of their figures are, in whatever catalog."""

    def __init__(self, accelerators: Iterable[Accelerator]) -> None:
        self.accelerators = tuple(accelerators)

    def __hash__(self) -> int:
        return hash(tuple(a.name for a in self.accelerators))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Devices) and self.accelerators == other.accelerators


def calibration_of(tables: Catalog) -> Calibration:
    """Kernel curves of every accelerator of a catalog, loaded once for all catalogs with these."""
    return _curves_of(Devices(tables.accelerators.values()))


@lru_cache(maxsize=4)
def _curves_of(devices: Devices) -> Calibration:
    return load_calibration(devices.accelerators)


class KernelTables(Mapping[str, OperatorTables]):
    """The tables of every operator, read when a model has it."""

    def __init__(self, accelerators: Sequence[Accelerator], loans: Mapping[str, Loan], stack: bytes) -> None:
        """`stack` is a digest of all that the tables are made from."""
        self._accelerators, self._loans, self._stack = tuple(accelerators), loans, stack
        self._names = (*OPERATORS, *MIXER_OPERATORS)
        self._found: dict[str, OperatorTables] = {}

    def __getitem__(self, operator: str) -> OperatorTables:
        if operator not in self._names:
            raise KeyError(operator)
        if operator not in self._found:
            self._found[operator] = kept(
                operator, (), self._stack, lambda: _operator_tables(operator, self._accelerators, self._loans)
            )
        return self._found[operator]

    def __contains__(self, operator: object) -> bool:
        return operator in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@lru_cache(maxsize=1)
def kernel_digest() -> str:
    """A digest of the tables that the kernel curves and the engines' constants are read from."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for kind in KINDS_OF_TABLES for path in DATA.glob(kind)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def loan_for(accelerator: Accelerator) -> Loan:
    """Whose curves this accelerator uses: its own, a named donor's, or those of the first matching rule.

    A slice borrows from its GPU, or from whom that borrows.
    """
    if accelerator.slice_of is not None:
        bandwidth = accelerator.bandwidth_bytes_per_s / accelerator.slice_ratio
        of = replace(accelerator, name=accelerator.slice_of, slice_of=None, bandwidth_bytes_per_s=bandwidth)
        whole = loan_for(of)
        grade = max(whole.grade, Grade.TRANSFERRED)
        return replace(whole, grade=grade, why="a slice of a GPU: nobody measured one", kin=OTHER_GENERATION)
    if (accelerator.name, "bf16", EVERY_ENGINE) in read_tables("gemm").rows:
        return Loan(accelerator.name, Grade.MEASURED, 1.0, "measured")
    named = transfer_rules()["accelerator"].get(accelerator.name)
    entry = named or next(rule for rule in transfer_rules()["rule"] if _applies(rule, accelerator))
    return Loan(entry["donor"], _grade_of(entry), entry.get("slowdown", 1.0), entry["why"], _kin_of(entry))


def _kin_of(entry: Mapping[str, Any]) -> str:
    return str(entry.get("kin", SAME_SILICON if entry.get("shared") else OTHER_GENERATION))


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
def load_formulas() -> Formulas:
    """What times kernels without a curve (formulas.toml)."""
    tables = tomllib.loads((DATA / "formulas.toml").read_text(encoding="utf-8"))
    rows = {kind: {name: sourced(row) for name, row in table.items()} for kind, table in tables.items()}
    return Formulas(
        streams=StreamFormula(**rows["streams"]),
        scale_search=StreamFormula(**rows["scale_search"]),
        split_sums=StreamFormula(**rows["split_sums"]),
        vision=VisionFormula(**rows["vision"]),
        state_space=StateFormulas(**rows["state_space"]),
        sparse_prompts=SparsePromptFormula(**rows["sparse_prompts"]),
        engine_steps=EngineStepFormula(**rows["engine_steps"]),
        routing=RoutingFormula(**rows["routing"]),
        handover=HandoverFormula(**rows["handover"]),
        host_exchange=HostExchangeFormula(**rows["host_exchange"]),
        host_read=HostReadFormula(**rows["host_read"]),
    )


@lru_cache(maxsize=1)
def load_habits() -> Habits:
    """What people do (habits.toml)."""
    tables = tomllib.loads((DATA / "habits.toml").read_text(encoding="utf-8"))
    return Habits(**{name: sourced(row) for name, row in tables.items()})


@lru_cache(maxsize=1)
def load_hosts() -> Mapping[str, Sourced]:
    """What machines beside a GPU do (hosts.toml)."""
    tables = tomllib.loads((DATA / "hosts.toml").read_text(encoding="utf-8"))
    return {name: sourced(row) for name, row in tables.items()}


@lru_cache(maxsize=1)
def transfer_rules() -> Mapping[str, Any]:
    """transfer.toml."""
    rules: Mapping[str, Any] = tomllib.loads((DATA / "transfer.toml").read_text(encoding="utf-8"))
    return rules


@lru_cache(maxsize=1)
def lending_spreads() -> Mapping[str, Any]:
    """What borrowed curves miss, by nearness and kind of operator (lending.toml)."""
    spreads: Mapping[str, Any] = tomllib.loads((DATA / "lending.toml").read_text(encoding="utf-8"))["spread"]
    return spreads


@lru_cache(maxsize=16)
def read_tables(operator: str) -> TableFile:
    """The grids of one operator from <operator>.json and <operator>.knots."""
    content = json.loads((DATA / f"{operator}.json").read_text(encoding="utf-8"))
    axes = tuple(Axis(*axis) for axis in content["axes"])
    records = content["tables"]
    values = _knots(DATA / f"{operator}.knots", (len(records), *(axis.count for axis in axes))) * content["unit"]
    keys = [(record["accelerator"], record["key"], record.get("engine", EVERY_ENGINE)) for record in records]
    return TableFile(
        grids=Grids(axes, values, content["fixed_s"]),
        rows={key: row for row, key in enumerate(keys)},
        arithmetic={key: r["arithmetic"] for key, r in zip(keys, records, strict=True) if "arithmetic" in r},
        low_ratio=tuple(record["low_ratio"] for record in records),
        high_ratio=tuple(record["high_ratio"] for record in records),
    )


def _knots(path: Path, shape: tuple[int, ...]) -> FloatArray:
    """Whole multiples of the file's unit [table, *axes], kept as what `packed_knots` makes of them."""
    low, high = np.frombuffer(zlib.decompress(path.read_bytes()), dtype=np.uint8).reshape(2, -1).astype(np.int32)
    folded = low + 256 * high
    knots = ((folded >> 1) ^ -(folded & 1)).astype(np.int16).reshape(shape)
    for axis in range(1, len(shape)):
        np.cumsum(knots, axis=axis, dtype=np.int16, out=knots)
    return knots.astype(np.float64)


def packed_knots(knots: AnyArray) -> bytes:
    """Neighbours differ little: differences along every axis, signs folded in, low bytes before high ones, deflated.

    Whole numbers of 16 bits [table, *axes]; what does not fit into them wraps, and wraps back.
    """
    differences = knots.astype(np.int16)
    for axis in range(1, knots.ndim):
        differences = np.diff(differences, axis=axis, prepend=np.int16(0))
    folded = ((differences.astype(np.int32) << 1) ^ (differences.astype(np.int32) >> 15)).ravel() & 0xFFFF
    return zlib.compress(np.stack([folded & 0xFF, folded >> 8]).astype(np.uint8).tobytes(), 9)


def curve_names() -> Mapping[str, Sequence[str]]:
    """Whose measurements each table is, by operator: 'H100-SXM bf16', 'B200 nvfp4 vllm', 'L40S pcie'."""
    names = {
        operator: [" ".join(key).strip() for key in read_tables(operator).rows]
        for operator in (*OPERATORS, *MIXER_OPERATORS)
    }
    return {**names, "collectives": [" ".join(key).strip() for key in _collective_keys(read_tables("collectives"))]}


def _operator_tables(operator: str, accelerators: Sequence[Accelerator], loans: Mapping[str, Loan]) -> OperatorTables:
    tables, by_name = read_tables(operator), {a.name: a for a in accelerators}
    precisions, own = PRECISIONS.values(), {engine for _, _, engine in tables.rows}
    of_engine = {
        engine: [_pick(operator, by_name, a, loans[a.name], p, engine) for a in accelerators for p in precisions]
        for engine in ENGINES_WITH_KERNELS
        if engine == EVERY_ENGINE or engine in own
    }
    known = {
        engine: next(of_engine[e] for e in kernels_instead(engine) if e in of_engine) for engine in ENGINES_WITH_KERNELS
    }
    picks = [pick for engine in ENGINES_WITH_KERNELS for pick in known[engine]]
    shape = len(ENGINES_WITH_KERNELS), len(accelerators), len(precisions)
    columns = dict(zip(Pick._fields, zip(*picks, strict=True), strict=True))

    def column(name: str, kind: type) -> Any:
        return np.array(columns[name], dtype=kind).reshape(shape)

    found = OperatorTables(
        grids=tables.grids,
        table=column("row", np.int64),
        peak_flop_per_s=column("peak_flop_per_s", np.float64),
        log_slowdown=np.log(column("slowdown", np.float64)),
        lost_ratio=column("lost_ratio", np.float64),
        grade=column("grade", np.int64),
        low_ratio=column("low_ratio", np.float64),
        high_ratio=column("high_ratio", np.float64),
        is_widened=column("is_widened", np.bool_),
    )
    return with_wide_bounds(found, accelerators) if operator == "gemm" else found


def with_wide_bounds(tables: OperatorTables, accelerators: Sequence[Accelerator]) -> OperatorTables:
    """Products whose weights alone are narrow, of each device: near what the same product takes in 16 bits.

    t_16 - x n k (2 - bytes) / bandwidth <= t <= t_16 + n k (2 + bytes) / bandwidth + fixed, x = exp(grid of 16)   [s]
    Both do the same arithmetic: the first reads less, and an engine may widen all weights first. What was measured of
    few rows, where these formats pay, and on other devices reaches too far over many.
    """
    grids, found = [tables.grids.values], dict[tuple[int, int, int, str], int]()
    of_row = list(range(len(tables.grids.values)))
    table, wide_column = tables.table.copy(), precision_index(WIDE.name)
    for engine, device, name in itertools.product(range(len(table)), range(len(accelerators)), PRECISIONS):
        place, wide = (engine, device, precision_index(name)), (0, device, wide_column)
        is_alone = name in WEIGHTS_ALONE or tables.is_widened[place]
        is_alike = tables.peak_flop_per_s[place] == tables.peak_flop_per_s[wide]
        if not (is_alone and is_alike) or UNSUPPORTED in (table[place], tables.table[wide]):
            continue
        key = int(table[place]), int(tables.table[wide]), device, name
        if key not in found:
            found[key] = sum(map(len, grids))
            grids.append(bounded(tables.grids, key, accelerators[device], float(tables.peak_flop_per_s[wide]))[None])
            of_row.append(key[0])
        table[place] = found[key]
    widened = replace(tables.grids, values=np.concatenate(grids))
    return replace(tables, grids=widened, table=table, of_row=tuple(of_row))


def bounded(grids: Grids, rows: tuple[int, int, int, str], gpu: Accelerator, peak_flop_per_s: float) -> FloatArray:
    """The grid of one such format on a device, from its own row and that of 16 bits: see `with_wide_bounds`."""
    knots = [np.exp2(axis.low + axis.step * np.arange(axis.count, dtype=np.float64)) for axis in grids.axes]
    (m, n, k), (own, wide, _, name) = np.meshgrid(*knots, indexing="ij"), rows
    stored, byte_s, ratio_16 = PRECISIONS[name].bytes_per_element, n * k / gpu.bandwidth_bytes_per_s, grids.values[wide]

    def least_s(weight_bytes: float) -> FloatArray:
        moved_bytes = gemm_bytes(m, n, k, weight_bytes, WIDE_BYTES)
        return roofline_s(gemm_flop(m, n, k), peak_flop_per_s, moved_bytes, gpu.bandwidth_bytes_per_s) + grids.fixed_s

    in_16_s = np.exp(ratio_16) * least_s(WIDE_BYTES)
    fewest_s = in_16_s - np.exp(ratio_16) * byte_s * (WIDE_BYTES - stored)
    most_s = in_16_s + byte_s * (WIDE_BYTES + stored) + grids.fixed_s
    return np.asarray(np.log(np.clip(np.exp(grids.values[own]) * least_s(stored), fewest_s, most_s) / least_s(stored)))


def _pick(
    operator: str,
    by_name: Mapping[str, Accelerator],
    accelerator: Accelerator,
    loan: Loan,
    precision: Precision,
    engine: str,
) -> Pick:
    tables = read_tables(operator)
    for choice in _choices_and_widened(operator, loan.donor, precision.name, engine):
        peak = _peak(accelerator, choice.arithmetic, precision)
        if peak is not None:
            borrowed_format = loan.grade is Grade.MEASURED and not choice.is_own
            grade = Grade.TRANSFERRED if borrowed_format else loan.grade
            kin = OTHER_GENERATION if borrowed_format else loan.kin
            low, high = _spread(
                grade, kin, RULES_OF[operator], tables.low_ratio[choice.row], tables.high_ratio[choice.row]
            )
            lost = _lost_ratio(accelerator, peak, by_name.get(choice.owner), choice.arithmetic, precision)
            return Pick(choice.row, peak, loan.slowdown, lost, grade, low, high, choice.is_widened)
    return NO_PICK


def _lost_ratio(
    accelerator: Accelerator, peak: float, owner: Accelerator | None, arithmetic: str, precision: Precision
) -> float:
    """How much of bandwidth and peak a device lacks, at least, of the one that was measured; 0 where it has more."""
    of_owner = None if owner is None else _peak(owner, arithmetic, precision)
    if owner is None or of_owner is None:
        return 0.0
    return max(1 - max(accelerator.bandwidth_bytes_per_s / owner.bandwidth_bytes_per_s, peak / of_owner), 0.0)


@lru_cache(maxsize=2048)
def _choices_and_widened(operator: str, donor: str, precision: str, engine: str) -> tuple[Choice, ...]:
    """The tables of a precision, and those of the weights-only format that devices without its arithmetic take."""
    twin = transfer_rules()["widened"].get(RULES_OF[operator], {}).get(precision)
    widened = () if twin is None else _choices(operator, donor, twin, engine)
    return (
        *_choices(operator, donor, precision, engine),
        *(choice._replace(is_own=False, is_widened=True) for choice in widened),
    )


@lru_cache(maxsize=2048)
def _choices(operator: str, donor: str, precision: str, engine: str) -> tuple[Choice, ...]:
    """Tables that could serve a precision, best first: the donor's own, a lender's, then the donor's fallbacks.

    Of each the engine's own table, or what stands for it, else that of the fastest kernels.
    """
    tables, group = read_tables(operator), RULES_OF[operator]
    lenders = transfer_rules()["lender"].get(group, {})
    keys = [precision, *transfer_rules()["fallback"][group].get(precision, ())]
    owners = [(owner, key) for key in keys for owner in (donor, lenders.get(key, ""))]
    places = [(*owner, kernels) for owner in owners for kernels in kernels_instead(engine)]
    native = PRECISIONS[precision].arithmetic
    return tuple(
        Choice(
            row=tables.rows[owner, key, kernels],
            arithmetic=tables.arithmetic.get((owner, key, kernels), native),
            is_own=owner == donor and (operator == FORMAT_FREE or _same_format(key, precision)),
            owner=owner,
        )
        for owner, key, kernels in places
        if (owner, key, kernels) in tables.rows and (operator, key, kernels) not in set_aside()
    )


@lru_cache(maxsize=1)
def set_aside() -> frozenset[tuple[str, str, str]]:
    """Operator, format and engine of tables that are not what the engine runs (transfer.toml)."""
    rows = transfer_rules()["set_aside"]
    return frozenset((row["operator"], row["precision"], row["engine"]) for row in rows)


def _same_format(key: str, name: str) -> bool:
    return key == name or (key, name) == ("bf16", "fp16")


def _peak(accelerator: Accelerator, arithmetic: str, precision: Precision) -> float | None:
    """The peak of an arithmetic; a device without bf16 multiplies weights-only formats and fp16 in fp16."""
    peaks = accelerator.peak_flop_per_s
    if precision.name == "fp16" or (arithmetic == "bf16" and "bf16" not in peaks and precision.name != "bf16"):
        return peaks.get("fp16") or peaks.get("bf16")
    return peaks.get(arithmetic)


@lru_cache(maxsize=2048)
def _spread(grade: Grade, kin: str, kind: str, low_ratio: float, high_ratio: float) -> tuple[float, float]:
    """Residuals of the curve and, where it is borrowed, of lending, as independent log errors."""
    stated = transfer_rules()["spread"].get(grade.label)
    lending = stated or lending_spreads()[kin][kind]
    if grade is Grade.MEASURED:
        return min(low_ratio, lending["low_ratio"]), max(high_ratio, lending["high_ratio"])
    low = -math.hypot(math.log(min(low_ratio, 1.0)), math.log(min(lending["low_ratio"], 1.0)))
    return math.exp(low), math.exp(
        math.hypot(math.log(max(high_ratio, 1.0)), math.log(max(lending["high_ratio"], 1.0)))
    )


def _collective_tables(accelerators: Sequence[Accelerator], loans: Mapping[str, Loan]) -> CollectiveTables:
    tables = read_tables("collectives")
    owners = {key: row for row, key in enumerate(_collective_keys(tables))}
    links = [
        [_links(tables, owners, a, loans[a.name], engine) for a in accelerators] for engine in ENGINES_WITH_KERNELS
    ]

    def column(position: int, kind: type) -> Any:
        return np.array([[[link[position] for link in row] for row in rows] for rows in links], dtype=kind)

    return CollectiveTables(
        tables.grids, column(0, np.int64), column(1, np.int64), column(2, np.float64), column(3, np.float64)
    )


def _links(
    tables: TableFile, owners: Mapping[tuple[str, str, str], int], accelerator: Accelerator, loan: Loan, engine: str
) -> list[tuple[int, int, float, float]]:
    """Table, grade and spread over its own links and over PCIe."""
    picked = []
    for link in ("switched", "pcie"):
        row = _link_row(owners, accelerator, loan, link, engine)
        is_own = loan.grade is Grade.MEASURED and (loan.donor, link, EVERY_ENGINE) in owners
        is_foreign = loan.grade is Grade.ROOFLINE
        grade = Grade.MEASURED if is_own else Grade.ROOFLINE if is_foreign else Grade.TRANSFERRED
        first = row * TABLES_OF_A_LINK
        spread = _spread(grade, loan.kin, "collectives", tables.low_ratio[first], tables.high_ratio[first])
        picked.append((row, int(grade), *spread))
    return picked


def _collective_keys(tables: TableFile) -> list[tuple[str, str, str]]:
    """Owner, link and engine of each group of four tables (one per collective)."""
    return [(owner, key.split(" ")[0], engine) for owner, key, engine in tables.rows if key.endswith(" all_reduce")]


def _link_row(
    owners: Mapping[tuple[str, str, str], int], accelerator: Accelerator, loan: Loan, link: str, engine: str
) -> int:
    """The nearest measured table of the same kind of link, the engine's own where there is one."""
    spare = _pcie_lender(accelerator) if link == "pcie" else "H100-SXM"
    return next(
        owners[n, link, e] for n in (loan.donor, spare) for e in (engine, EVERY_ENGINE) if (n, link, e) in owners
    )


def _pcie_lender(accelerator: Accelerator) -> str:
    return "RTX-PRO-6000-Server" if (accelerator.pcie_generation or 4) >= 5 else "L40S"
