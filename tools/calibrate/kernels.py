"""Fits kernel curves: grids of ln(measured / (roofline + fixed)) per GPU, operator and precision.

PATH holds <gpu>/<family>/<engine>/<version>/<table>.parquet. Writes <operator>.json, kernels.toml and the error table
of docs/calibration.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tools.calibrate import kernel_tables
from tools.calibrate.grid_fit import fit_grid, grid_values

from gpufleet.catalog.load import load_catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import ACTIVATION_BYTES, Axis, Curves, GemmCurves, Grids
from gpufleet.domain.precision import PRECISIONS
from gpufleet.performance import attention, collectives, gemm, latent_attention, moe
from gpufleet.units import GIGA, MICROSECOND, PERCENT

Floats = NDArray[np.float64]
SOURCE = "aiconfigurator-core 0.12.0, Apache-2.0, systems/data"
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src/gpufleet/data/calibration"
GPUS = {
    "a100_sxm": "A100-SXM4-80GB",
    "l40s": "L40S",
    "h100_sxm": "H100-SXM",
    "h200_sxm": "H200-SXM",
    "b200_sxm": "B200",
    "b300_sxm": "B300",
    "rtx_pro_6000_server": "RTX-PRO-6000-Server",
}
PROBES = {"gb200": "GB200", "gb300": "GB300"}
LOANS = (
    ("B200", "GB200"),
    ("B300", "GB300"),
    ("H100-SXM", "H200-SXM"),
    ("H200-SXM", "H100-SXM"),
    ("B200", "B300"),
    ("B300", "B200"),
    ("A100-SXM4-80GB", "H100-SXM"),
    ("A100-SXM4-80GB", "L40S"),
    ("L40S", "RTX-PRO-6000-Server"),
    ("RTX-PRO-6000-Server", "L40S"),
    ("H100-SXM", "B200"),
)
PCIE_BYTES_PER_S = {"L40S": 32 * GIGA, "RTX-PRO-6000-Server": 64 * GIGA}
ABOVE_CEILING = 1.02
SLOW_PATH_SHARE = 0.3
SLOW_PATH_LAG = np.log(2)
LARGE_ROOFLINE_S = 300 * MICROSECOND
HELD_BACK_SHARE = 0.2
SEED = 20
MILLI = 1000
FEWEST_ROWS = 40
FEWEST_SHARED = 0.02
CACHES = 4
CLEARLY = 4
USUAL_SHARE = 0.85


@dataclass(frozen=True)
class Located:
    """Shapes of one GPU and precision: their roofline and their place in the grid."""

    roofline_s: Floats
    coordinates: tuple[Floats, ...]


@dataclass(frozen=True)
class Operator:
    """One family of kernels: how to read it, where its points lie, and the grid that holds it."""

    name: str
    fixed_s: float
    axes: tuple[Axis, ...]
    shape: tuple[str, ...]
    read: Callable[[Path], pd.DataFrame]
    locate: Callable[[pd.DataFrame, Accelerator, str], Located]
    drops_slow_engines: bool = False
    engines_cover_alike: bool = True
    streams_memory: bool = False


@dataclass(frozen=True)
class Sample:
    """Points of one table: ln(measured / (roofline + fixed)) and where they stand."""

    target: Floats
    coordinates: tuple[Floats, ...]
    dropped: int

    def part(self, chosen: NDArray[np.bool_]) -> Sample:
        return Sample(self.target[chosen], tuple(c[chosen] for c in self.coordinates), self.dropped)

    def minus(self, axes: tuple[Axis, ...], knots: Floats) -> Floats:
        """What a grid leaves unexplained."""
        return self.target - grid_values(axes, knots, self.coordinates)


@dataclass(frozen=True)
class Fit:
    """One table, its errors on shapes that it had not seen, and where it comes from."""

    operator: str
    accelerator: str
    key: str
    values: NDArray[np.int64]
    arithmetic: str | None
    engines: str
    points: int
    dropped: int
    residual_median: float
    held_back_median: float
    held_back_mean: float
    held_back_p90: float
    low_ratio: float
    high_ratio: float
    sample: Sample


@dataclass(frozen=True)
class Loan:
    """How well one GPU's curve predicts another GPU: measured / predicted on all of the borrower's shapes."""

    operator: str
    key: str
    donor: str
    borrower: str
    median_error: float
    bias: float
    low_ratio: float
    high_ratio: float


def bare(kind: type[Curves], accelerator: Accelerator, arithmetic: str, precision: str) -> Curves:
    """Curves that know the hardware but no table: for the roofline that the product uses too."""
    one = np.ones(1)
    fields = {
        "grids": Grids((Axis("none", 0, 1, 2),), np.zeros((1, 2)), 0.0),
        "table": np.zeros(1, dtype=np.int64),
        "peak_flop_per_s": one * accelerator.peak_flop_per_s[arithmetic],
        "bandwidth_bytes_per_s": one * accelerator.bandwidth_bytes_per_s,
        "bytes_per_element": one * PRECISIONS[precision].bytes_per_element,
        "log_slowdown": 0 * one,
        "grade": np.zeros(1, dtype=np.int64),
        "low_ratio": one,
        "high_ratio": one,
    }
    if kind is GemmCurves:
        fields["activation_bytes_per_element"] = one * ACTIVATION_BYTES.get(precision, 2.0)
    return kind(**fields)


def columns(frame: pd.DataFrame, *names: str) -> list[Floats]:
    return [frame[name].to_numpy(dtype=np.float64) for name in names]


def locate_gemm(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    m, n, k = columns(frame, "m", "n", "k")
    curves = bare(GemmCurves, accelerator, PRECISIONS[precision].arithmetic, precision)
    return Located(gemm.gemm_roofline_s(curves, m, n, k), gemm.gemm_coordinates(m, n, k))


def locate_decode(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("batch_size", "num_heads", "kv_heads", "head_dim", "isl", "step")
    batch, heads, kv_heads, head_dim, isl, step = columns(frame, *names)
    shape = (batch, heads, kv_heads, head_dim, isl + step)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    return Located(attention.decode_roofline_s(curves, *shape), attention.decode_coordinates(*shape))


def locate_prefill(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("batch_size", "isl", "num_heads", "kv_heads", "head_dim")
    batch, tokens, heads, kv_heads, head_dim = columns(frame, *names)
    pairs = attention.causal_pairs(tokens, tokens)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = attention.prefill_roofline_s(curves, batch, tokens, tokens, pairs, heads, kv_heads, head_dim)
    return Located(roofline, attention.prefill_coordinates(batch, tokens, pairs, heads, kv_heads, head_dim))


def locate_latent_decode(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, heads, isl, step = columns(frame, "batch_size", "num_heads", "isl", "step")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    shape = (batch, heads, isl + step)
    roofline = latent_attention.latent_decode_roofline_s(curves, *shape)
    return Located(roofline, latent_attention.latent_decode_coordinates(*shape))


def locate_latent_prefill(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, heads, tokens = columns(frame, "batch_size", "num_heads", "isl")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    shape = (batch, tokens, attention.causal_pairs(tokens, tokens), heads)
    roofline = latent_attention.latent_prefill_roofline_s(curves, *shape)
    return Located(roofline, latent_attention.latent_prefill_coordinates(*shape))


def locate_absorb(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    tokens, heads = columns(frame, "num_tokens", "num_heads")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = latent_attention.absorb_roofline_s(curves, tokens, heads)
    return Located(roofline, latent_attention.absorb_coordinates(tokens, heads))


def locate_experts(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("num_tokens", "num_experts", "topk", "hidden_size", "inter_size", "moe_ep_size", "moe_tp_size")
    tokens, num_experts, top_k, hidden, inter, ep, moe_tp = columns(frame, *names)
    arithmetic = expert_arithmetic(accelerator, precision) or PRECISIONS[precision].arithmetic
    curves = bare(Curves, accelerator, arithmetic, precision)
    load = moe.busiest_rank(tokens, num_experts, top_k, ep)
    roofline = moe.experts_roofline_s(curves, load, hidden, inter / moe_tp, frame.products.to_numpy(dtype=np.float64))
    return Located(roofline, moe.experts_coordinates(load, hidden, inter / moe_tp, ep))


def expert_arithmetic(accelerator: Accelerator, precision: str) -> str | None:
    """MXFP4 experts multiply in fp8 where fp4 units exist (activations in MXFP8), else in 16 bit."""
    return "fp8" if precision == "mxfp4" and accelerator.computes("fp4") else None


def own_arithmetic(operator: Operator, accelerator: Accelerator, precision: str) -> str | None:
    """The arithmetic of a table where it is not that of the precision it is used for."""
    if operator.name == "latent_absorb":
        return "bf16"
    return expert_arithmetic(accelerator, precision) if operator.name == "experts" else None


def locate_collective(frame: pd.DataFrame, accelerator: Accelerator, collective: str) -> Located:
    size_bytes, ranks = columns(frame, "size_bytes", "num_gpus")
    link_bytes = collectives.exchanged_bytes(size_bytes, ranks) * (2 if collective == "all_reduce" else 1)
    link = PCIE_BYTES_PER_S.get(accelerator.name) or accelerator.nvlink_bytes_per_s
    return Located(link_bytes / link, collectives.collective_coordinates(size_bytes, ranks))


OPERATORS = (
    Operator(
        "gemm",
        2 * MICROSECOND,
        (Axis("log2 m", 0, 1, 15), Axis("log2 n", 5, 1, 12), Axis("log2 k", 5, 1, 12)),
        ("m", "n", "k"),
        kernel_tables.gemm_rows,
        locate_gemm,
        streams_memory=True,
    ),
    Operator(
        "decode",
        5 * MICROSECOND,
        (
            Axis("log2 batch * kv heads", 0, 1.5, 12),
            Axis("log2 context", 1, 1.5, 12),
            Axis("log2 heads / kv heads", 0, 1.5, 4),
            Axis("log2 head_dim", 6, 1, 4),
        ),
        ("batch_size", "num_heads", "kv_heads", "head_dim", "isl", "step"),
        lambda gpu: kernel_tables.attention_rows(gpu, "generation"),
        locate_decode,
        drops_slow_engines=True,
        streams_memory=True,
    ),
    Operator(
        "prefill",
        8 * MICROSECOND,
        (
            Axis("log2 query rows", 2, 2, 11),
            Axis("log2 mean keys", 0, 1.4, 11),
            Axis("log2 head_dim", 6, 1, 4),
            Axis("log2 heads / kv heads", 0, 2.5, 3),
        ),
        ("batch_size", "isl", "num_heads", "kv_heads", "head_dim"),
        lambda gpu: kernel_tables.attention_rows(gpu, "context"),
        locate_prefill,
    ),
    Operator(
        "latent_decode",
        8 * MICROSECOND,
        (Axis("log2 batch", 0, 1, 11), Axis("log2 heads", 0, 1, 8), Axis("log2 context", 1, 2, 9)),
        ("num_heads", "batch_size", "isl", "step"),
        lambda gpu: kernel_tables.latent_rows(gpu, "generation"),
        locate_latent_decode,
        drops_slow_engines=True,
        streams_memory=True,
    ),
    Operator(
        "latent_prefill",
        8 * MICROSECOND,
        (Axis("log2 query rows", 0, 2, 13), Axis("log2 mean keys", 0, 1.4, 11)),
        ("num_heads", "batch_size", "isl"),
        lambda gpu: kernel_tables.latent_rows(gpu, "context"),
        locate_latent_prefill,
        drops_slow_engines=True,
    ),
    Operator(
        "latent_absorb",
        4 * MICROSECOND,
        (Axis("log2 tokens", 0, 1, 14), Axis("log2 heads", 0, 1, 8)),
        ("num_tokens", "num_heads"),
        kernel_tables.absorb_rows,
        locate_absorb,
    ),
    Operator(
        "experts",
        15 * MICROSECOND,
        (
            Axis("log2 rows per active expert", 0, 1, 13),
            Axis("log2 active experts", -3, 1.75, 8),
            Axis("log2 hidden * width", 15, 2.2, 6),
            Axis("log2 ep", 0, 3, 3),
        ),
        ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "products"),
        kernel_tables.expert_rows,
        locate_experts,
        engines_cover_alike=False,
        streams_memory=True,
    ),
    Operator(
        "collectives",
        4 * MICROSECOND,
        (Axis("log2 bytes", 8, 1, 23), Axis("log2 ranks", 1, 1, 3)),
        ("size_bytes", "num_gpus"),
        kernel_tables.collective_rows,
        locate_collective,
    ),
)


def fits_of(operator: Operator, gpu: Path, accelerator: Accelerator) -> Iterator[Fit]:
    """One fit per precision that was measured on this GPU."""
    rows = operator.read(gpu)
    if rows.empty:
        return
    for precision, measured in rows.groupby("precision", sort=True):
        if not accelerator.computes(
            PRECISIONS[str(precision)].arithmetic if operator.name != "collectives" else "bf16"
        ):
            continue
        usable = without_slow_engines(operator, measured, accelerator, str(precision))
        if len(usable) >= FEWEST_ROWS:
            yield fit_one(operator, usable, accelerator, str(precision))


def without_slow_engines(
    operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, precision: str
) -> pd.DataFrame:
    """Rows of engines whose large shapes reach a sane share of the roofline: neither a slow path nor impossible."""
    if not operator.drops_slow_engines:
        return rows
    share = operator.locate(rows, accelerator, precision).roofline_s / rows.latency_s
    large = share[share * rows.latency_s > LARGE_ROOFLINE_S]
    shares = large.groupby(rows.engine)
    slow, impossible = shares.median() < SLOW_PATH_SHARE, shares.quantile(0.95) > ABOVE_CEILING
    rejected = slow | (impossible & (~impossible).any())
    return rows[~rows.engine.isin(rejected[rejected].index)]


def sample_of(operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, precision: str) -> Sample:
    """Best kernel per shape as it runs from memory, without rows above the physical ceiling."""
    best = best_per_shape(operator, rows)
    place = operator.locate(best, accelerator, precision)
    latency_s = best.latency_s.to_numpy()
    if operator.streams_memory:
        latency_s = cold_latency_s(operator, best, accelerator, precision)
    real = place.roofline_s <= ABOVE_CEILING * latency_s
    target = np.log(latency_s / (place.roofline_s + operator.fixed_s))
    return Sample(target, place.coordinates, int((~real).sum())).part(real)


def cold_latency_s(operator: Operator, best: pd.DataFrame, accelerator: Accelerator, precision: str) -> Floats:
    """Latencies without the help of the L2 cache, which repeated runs enjoy and layers of a model do not.

    A shape that moves less than four caches takes no less than its bytes at the share of bandwidth that shapes of
    more than four caches reach.
    """
    latency_s = best.latency_s.to_numpy()
    endless = replace(accelerator, peak_flop_per_s=dict.fromkeys(accelerator.peak_flop_per_s, np.inf))
    memory_s = operator.locate(best, endless, precision).roofline_s
    instant = replace(accelerator, bandwidth_bytes_per_s=np.inf)
    bound = memory_s > CLEARLY * operator.locate(best, instant, precision).roofline_s
    large = memory_s * accelerator.bandwidth_bytes_per_s > CACHES * (accelerator.l2_bytes or 0.0)
    shares = (memory_s / latency_s)[bound & large]
    share = min(float(np.median(shares)), 1.0) if len(shares) >= FEWEST_ROWS else USUAL_SHARE
    return np.where(large, latency_s, np.maximum(latency_s, memory_s / share))


def fit_one(operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, precision: str) -> Fit:
    """The grid of all shapes, with the errors of a grid that saw 80 % of them on the other 20 %."""
    sample = sample_of(operator, rows, accelerator, precision)
    held_back = np.random.default_rng(SEED).random(len(sample.target)) < HELD_BACK_SHARE
    seen = sample.part(~held_back)
    unseen = sample.part(held_back).minus(operator.axes, fit_grid(operator.axes, seen.coordinates, seen.target))
    knots = fit_grid(operator.axes, sample.coordinates, sample.target)
    error = np.abs(np.expm1(-unseen))
    return Fit(
        operator=operator.name,
        accelerator=accelerator.name,
        key=precision,
        values=np.rint(knots * MILLI).astype(np.int64),
        arithmetic=own_arithmetic(operator, accelerator, precision),
        engines=", ".join(sorted(set(rows.engine + " " + rows.version))),
        points=len(sample.target),
        dropped=sample.dropped,
        residual_median=float(np.median(np.abs(np.expm1(-sample.minus(operator.axes, knots))))),
        held_back_median=float(np.median(error)),
        held_back_mean=float(error.mean()),
        held_back_p90=float(np.quantile(error, 0.9)),
        low_ratio=float(np.exp(np.quantile(unseen, 0.1))),
        high_ratio=float(np.exp(np.quantile(unseen, 0.9))),
        sample=sample,
    )


def loans_of(fits: list[Fit]) -> list[Loan]:
    """Every borrower predicted with the curve of another measured GPU, for the pairs that tell how lending works."""
    by_name = {(f.operator, f.key, f.accelerator): f for f in fits}
    operators = {operator.name: operator for operator in OPERATORS}
    pairs = [(f, by_name.get((f.operator, f.key, donor))) for f in fits for donor, to in LOANS if f.accelerator == to]
    return [loan_of(operators[borrower.operator], donor, borrower) for borrower, donor in pairs if donor]


def loan_of(operator: Operator, donor: Fit, borrower: Fit) -> Loan:
    unexplained = borrower.sample.minus(operator.axes, donor.values / MILLI)
    return Loan(
        operator=operator.name,
        key=borrower.key,
        donor=donor.accelerator,
        borrower=borrower.accelerator,
        median_error=float(np.median(np.abs(np.expm1(-unexplained)))),
        bias=float(np.expm1(-np.median(unexplained))),
        low_ratio=float(np.exp(np.quantile(unexplained, 0.1))),
        high_ratio=float(np.exp(np.quantile(unexplained, 0.9))),
    )


def best_per_shape(operator: Operator, rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest kernel of each shape; where not every engine measured it, less the usual lag of those that did."""
    shape = list(operator.shape)
    by_engine = rows.groupby([*shape, "engine"]).latency_s.min().unstack("engine")
    by_engine = by_engine.loc[:, by_engine.notna().mean() > FEWEST_SHARED]
    best = by_engine.min(axis=1)
    complete = by_engine.notna().all(axis=1)
    if not operator.engines_cover_alike and by_engine.shape[1] > 1 and complete.mean() > FEWEST_SHARED:
        lag = np.log(by_engine[complete].div(best[complete], axis=0)).median()
        by_engine = by_engine.loc[:, lag < SLOW_PATH_LAG]
        least_lag = by_engine.notna().mul(lag[lag < SLOW_PATH_LAG]).where(by_engine.notna()).min(axis=1)
        best = by_engine.min(axis=1) * np.exp(-least_lag.where(~complete, 0.0))
    return best.dropna().rename("latency_s").reset_index()


def calibrate(path: Path) -> list[Fit]:
    """All fits of all measured GPUs."""
    accelerators = load_catalog().accelerators
    found = []
    for operator in OPERATORS:
        for folder, name in {**GPUS, **PROBES}.items():
            if (path / folder).is_dir():
                found += sorted(fits_of(operator, path / folder, accelerators[name]), key=place_in_file)
    return found


def place_in_file(fit: Fit) -> tuple[int, str]:
    """Collectives stand in the order that the product indexes them by."""
    return (collectives.COLLECTIVES.index(fit.key) if fit.operator == "collectives" else 0, fit.key)


def write_grids(fits: list[Fit], directory: Path) -> None:
    """<operator>.json: axes once, then one record per table with the knots as whole thousandths of ln."""
    for operator in OPERATORS:
        records = [record for fit in fits if fit.operator == operator.name for record in [grid_record(fit)]]
        axes = [[axis.name, axis.low, axis.step, axis.count] for axis in operator.axes]
        head = json.dumps({"fixed_s": operator.fixed_s, "axes": axes})[:-1]
        lines = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
        (directory / f"{operator.name}.json").write_text(f'{head}, "tables": [\n{lines}\n]}}\n', encoding="utf-8")


def grid_record(fit: Fit) -> dict[str, object]:
    key = fit.key
    if fit.operator == "collectives":
        key = f"{'pcie' if fit.accelerator in PCIE_BYTES_PER_S else 'switched'} {fit.key}"
    record: dict[str, object] = {"accelerator": fit.accelerator, "key": key}
    if fit.arithmetic:
        record["arithmetic"] = fit.arithmetic
    record |= {"low_ratio": round(fit.low_ratio, 3), "high_ratio": round(fit.high_ratio, 3)}
    return record | {"milli_ln": fit.values.tolist()}


def write_provenance(fits: list[Fit], directory: Path) -> None:
    """kernels.toml: one table per fit."""
    lines = ["# Written by `python tools/calibrate kernels`: where every kernel grid comes from and how well it holds."]
    for fit in fits:
        lines += ["", "[[table]]", f'operator = "{fit.operator}"', f'accelerator = "{fit.accelerator}"']
        lines += [f'key = "{fit.key}"', 'source = "aiconfigurator-core-0.12.0"', f'engines = "{fit.engines}"']
        lines += [f"points = {fit.points}", f"dropped_above_ceiling = {fit.dropped}"]
        for name in (
            "residual_median",
            "held_back_median",
            "held_back_mean",
            "held_back_p90",
            "low_ratio",
            "high_ratio",
        ):
            lines.append(f"{name} = {getattr(fit, name):.4f}")
    (directory / "kernels.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def error_table(fits: list[Fit]) -> str:
    """Markdown: errors on held-back shapes."""
    lines = [
        "| operator | GPU | precision | points | median % | mean % | p90 % |",
        "| --- | --- | --- | --: | --: | --: | --: |",
    ]
    for f in fits:
        errors = " | ".join(f"{PERCENT * e:.1f}" for e in (f.held_back_median, f.held_back_mean, f.held_back_p90))
        lines.append(f"| {f.operator} | {f.accelerator} | {f.key} | {f.points:,} | {errors} |")
    return "\n".join(lines)


def loan_table(loans: list[Loan]) -> str:
    """Markdown: errors of borrowed curves."""
    lines = ["| operator | precision | curve of | predicts | median % | bias % | p10 | p90 |"]
    lines.append("| --- | --- | --- | --- | --: | --: | --: | --: |")
    for x in loans:
        errors = f"{PERCENT * x.median_error:.1f} | {PERCENT * x.bias:+.1f} | {x.low_ratio:.2f} | {x.high_ratio:.2f}"
        lines.append(f"| {x.operator} | {x.key} | {x.donor} | {x.borrower} | {errors} |")
    return "\n".join(lines)


def replace_between(page: Path, what: str, text: str) -> None:
    """Replaces what stands between the markers of a page."""
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="folder with one subfolder per measured GPU")
    parser.add_argument("--into", type=Path, default=DATA, help="where the grids go")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/calibration.md", help="page with the error table")


def run(arguments: argparse.Namespace) -> None:
    everything = calibrate(arguments.path)
    loans = loans_of(everything)
    fits = [fit for fit in everything if fit.accelerator in GPUS.values()]
    write_grids(fits, arguments.into)
    write_provenance(fits, arguments.into)
    if arguments.page.exists():
        replace_between(arguments.page, "kernel errors", error_table(fits))
        replace_between(arguments.page, "lending errors", loan_table(loans))
    print(error_table(fits), loan_table(loans), sep="\n\n")
