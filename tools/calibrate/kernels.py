"""Fits kernel curves: grids of ln(measured / (roofline + fixed)) per GPU, operator and precision.

PATH holds <gpu>/<family>/<engine>/<version>/<table>.parquet. Writes <operator>.json, <operator>.knots,
measurements/left_out/kernels.csv and the error table of docs/calibration.md.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tools.calibrate.fits import ENGINES, Fit, fits_of, window_fits
from tools.calibrate.kernel_tables import GPUS, PROBES
from tools.calibrate.lending import left_out_table, loan_table, loans_of, write_spreads
from tools.calibrate.locations import PCIE_BYTES_PER_S
from tools.calibrate.operators import DECODE, OPERATORS, WINDOW
from tools.calibrate.streams import stream_table

from gpufleet.catalog.calibration import packed_knots
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.calibration import EVERY_ENGINE
from gpufleet.performance import collectives
from gpufleet.units import PERCENT

SOURCE = "aiconfigurator-core 0.12.0, Apache-2.0, systems/data"
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src/gpufleet/data/calibration"
ERRORS = ROOT / "measurements/left_out"
UNIT = 0.002
SOURCE_ID = "aiconfigurator-core-0.12.0"
WORDS_OF_KERNELS = ("operator", "accelerator", "key", "engine", "source", "engines")
MISSES = ("residual_median", "held_back_median", "held_back_mean", "held_back_p90", "low_ratio", "high_ratio")
NCCL_ONLY = {("collectives", name) for name in collectives.COLLECTIVES if name != "all_reduce"}


def calibrate(path: Path) -> list[Fit]:
    """All fits of all measured GPUs."""
    accelerators = load_catalog().accelerators
    found = []
    for operator in OPERATORS:
        for folder, name in {**GPUS, **PROBES}.items():
            if (path / folder).is_dir():
                fits = fits_of(operator, path / folder, accelerators[name], by_engine=folder in GPUS)
                here = sorted(fits, key=place_in_file)
                found += here
                if operator is DECODE:
                    found += window_fits(here, path / folder, accelerators[name])
    return found


def place_in_file(fit: Fit) -> tuple[str, int] | tuple[str, str]:
    """Collectives stand in the order that the product indexes them by."""
    is_collective = fit.operator == "collectives"
    return (fit.engine, collectives.COLLECTIVES.index(fit.key)) if is_collective else (fit.key, fit.engine)


def write_grids(fits: list[Fit], directory: Path) -> None:
    """<operator>.json: axes once, then one record per table; <operator>.knots: theirs as whole multiples of `UNIT`."""
    for operator in (*OPERATORS, WINDOW):
        own = [fit for fit in fits if fit.operator == operator.name]
        records = [grid_record(fit) for fit in own]
        axes = [[axis.name, axis.low, axis.step, axis.count] for axis in operator.axes]
        head = json.dumps({"source": SOURCE_ID, "fixed_s": operator.fixed_s, "unit": UNIT, "axes": axes})[:-1]
        lines = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
        (directory / f"{operator.name}.json").write_text(f'{head}, "tables": [\n{lines}\n]}}\n', encoding="utf-8")
        shape = (len(own), *(axis.count for axis in operator.axes))
        knots = np.rint(np.stack([fit.knots for fit in own]) / UNIT).reshape(shape)
        (directory / f"{operator.name}.knots").write_bytes(packed_knots(knots))


def grid_record(fit: Fit) -> dict[str, object]:
    key = fit.key
    if fit.operator == "collectives":
        key = f"{'pcie' if fit.accelerator in PCIE_BYTES_PER_S else 'switched'} {fit.key}"
    record: dict[str, object] = {"accelerator": fit.accelerator, "key": key}
    if fit.engine:
        record["engine"] = fit.engine
    if fit.arithmetic:
        record["arithmetic"] = fit.arithmetic
    return record | {"low_ratio": round(fit.low_ratio, 3), "high_ratio": round(fit.high_ratio, 3)}


def write_provenance(fits: list[Fit], directory: Path) -> None:
    """kernels.csv: where every kernel grid comes from and how well it holds, one row per fit."""
    with (directory / "kernels.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((*WORDS_OF_KERNELS, "points", "dropped_above_ceiling", *MISSES))
        for fit in fits:
            words = (fit.operator, fit.accelerator, fit.key, fit.engine, SOURCE_ID, fit.engines)
            writer.writerow((*words, fit.points, fit.dropped, *(f"{getattr(fit, name):.4f}" for name in MISSES)))


def error_table(fits: Sequence[Fit]) -> str:
    """Markdown: errors on held-back shapes of the fastest kernels."""
    lines = [
        "| operator | GPU | precision | points | median % | mean % | p90 % |",
        "| --- | --- | --- | --: | --: | --: | --: |",
    ]
    for f in fits:
        if f.engine == EVERY_ENGINE:
            errors = " | ".join(f"{PERCENT * e:.1f}" for e in (f.held_back_median, f.held_back_mean, f.held_back_p90))
            lines.append(f"| {f.operator} | {f.accelerator} | {f.key} | {f.points:,} | {errors} |")
    return "\n".join(lines)


def engine_table(fits: Sequence[Fit]) -> str:
    """Markdown: how an engine's own kernels compare with the fastest of all, and how well its own table holds."""
    whole = {(f.operator, f.accelerator, f.key): f for f in fits if f.engine == EVERY_ENGINE}
    lines = [
        "| operator | GPU | precision | engine | points | all, median % | own, median % | own, mean % |",
        "| --- | --- | --- | --- | --: | --: | --: | --: |",
    ]
    for f in fits:
        if f.engine in ENGINES.values() and (f.operator, f.key) not in NCCL_ONLY:
            shared = PERCENT * f.error_of(whole[f.operator, f.accelerator, f.key].knots)
            own = f"{PERCENT * f.held_back_median:.1f} | {PERCENT * f.held_back_mean:.1f}"
            lines.append(
                f"| {f.operator} | {f.accelerator} | {f.key} | {f.engine} | {f.points:,} | {shared:.1f} | {own} |"
            )
    return "\n".join(lines)


def replace_between(page: Path, what: str, text: str) -> None:
    """Replaces what stands between the markers of a page."""
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="folder with one subfolder per measured GPU")
    parser.add_argument("--into", type=Path, default=DATA, help="where the grids go")
    parser.add_argument("--errors", type=Path, default=ERRORS, help="where the errors on unseen shapes go")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/calibration.md", help="page with the error table")


def run(arguments: argparse.Namespace) -> None:
    everything = calibrate(arguments.path)
    loans = loans_of(everything)
    fits = [fit for fit in everything if fit.accelerator in GPUS.values()]
    write_grids(fits, arguments.into)
    write_provenance(fits, arguments.errors)
    write_spreads(loans, arguments.into)
    tables = {
        "kernel errors": error_table(fits),
        "engine errors": engine_table(fits),
        "left-out errors": left_out_table(loans),
        "lending errors": loan_table(loans),
        "stream kernels": stream_table(arguments.path, GPUS, load_catalog().accelerators),
    }
    for name, table in tables.items():
        if arguments.page.exists():
            replace_between(arguments.page, name, table)
        print(f"{name}\n\n{table}\n")
