"""Where the layouts that were published stand among ours: their rank, and how much slower they are predicted.

Run as `python -m tools.published_layouts FILE.csv [--models DIR]`: every distinct layout of more than one machine that
Megatron's kind of parallelism was chosen for, at the published GPUs, sequence and batch; recomputation and sharding as
they are stated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.training_cells import sharding_of, stated_recompute
from gpufleet.accuracy.training_rows import StatedRun, run_of
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.layout.training import FINE, Cluster, Grid, training_layouts
from gpufleet.memory.training import training_memory
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime

SHAPE = ("tp", "pp", "cp", "ep")
BEST = 5


@dataclass(frozen=True)
class Standing:
    """One published layout: its rank among the shapes that fit, of how many, and its predicted regret."""

    source: str
    name: str
    shape: tuple[int, ...]
    rank: int | None
    num_shapes: int
    num_layouts: int
    regret_ratio: float
    best: tuple[int, ...]


def standings(path: str, models: str | None) -> list[Standing]:
    """Every distinct published layout of several GPUs."""
    finder, seen, found = ModelFinder(Path(models) if models else None), set(), []
    for row in read_measurements(path).rows:
        key = tuple(row.text(n) for n in ("model", "seq_len", "gpu_id", "num_gpus", "global_batch", *SHAPE))
        if key in seen or not is_laid_out(row):
            continue
        try:
            found.append(standing(row, run_of(row, finder)))
        except GpufleetError as refusal:
            print(f"  line {row.line}: {str(refusal)[:100]}", file=sys.stderr)
        seen.add(key)
    return found


def is_laid_out(row: MeasurementRow) -> bool:
    """Whether somebody chose a layout over several machines: Megatron's, with a global batch."""
    many = (row.whole("num_gpus") or 1) > 8
    return many and bool(row.text("global_batch")) and not row.text("zero_or_fsdp").startswith("fsdp")


def grid_of(row: MeasurementRow) -> Grid:
    """All layouts with the recomputation and sharding that are stated."""
    said = stated_recompute(row)
    grid = replace(FINE, sharding=(sharding_of(row),))
    return grid if said is None else replace(grid, recompute=(said,))


def standing(row: MeasurementRow, run: StatedRun) -> Standing:
    """Where one published layout stands."""
    batch = int(run.layouts.global_batch[0])
    num_gpus = int(run.layouts.num_devices[0])
    recipe, cluster = run.recipe, Cluster(0, run.machine, num_gpus)
    layouts, _ = training_layouts(run.arch, recipe, cluster, batch, grid_of(row))
    memory = training_memory(
        run.arch, recipe, layouts, run.machine.accelerator.memory_bytes, load_training_memory_constants()
    )
    kept = layouts.take(memory.fits)
    model = KernelModel(run.arch, recipe, (run.machine,), calibration_of(load_catalog()))
    step_s = step_terms(TrainingTime(model, kept, load_training_time(), run.software_year)).total
    fastest: dict[tuple[int, ...], float] = {}
    for shape, seconds in zip(zip(*(getattr(kept, name) for name in SHAPE), strict=True), step_s, strict=True):
        named = tuple(int(size) for size in shape)
        fastest[named] = min(fastest.get(named, np.inf), float(seconds))
    ordered = sorted(fastest, key=lambda shape: fastest[shape])
    published = tuple(int(getattr(run.layouts, name)[0]) for name in SHAPE)
    rank = ordered.index(published) + 1 if published in fastest else None
    regret = fastest[published] / fastest[ordered[0]] - 1 if rank else np.inf
    name = f"{row.text('model')} on {num_gpus}x {row.text('gpu_id')}, batch {batch}"
    return Standing(
        row.text("source"), name, published, rank, len(ordered), len(kept), regret, ordered[0] if ordered else ()
    )


def summary(found: Iterable[Standing]) -> tuple[float, float]:
    """Share of published shapes among our five fastest, and the median regret."""
    every = list(found)
    among = sum(s.rank is not None and s.rank <= BEST for s in every) / len(every)
    return among, float(np.median([s.regret_ratio for s in every]))


def main() -> None:
    """Prints the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--models")
    said = parser.parse_args()
    found = standings(said.file, said.models)
    for s in found:
        rank = "does not fit" if s.rank is None else f"{s.rank} of {s.num_shapes}"
        regret = f"{s.regret_ratio * 100:5.1f} %"
        shapes = f"{in_words(s.shape):16s} rank {rank:14s} regret {regret} best {in_words(s.best)}"
        print(f"{s.name:58s} {shapes} ({s.num_layouts} layouts)")
    sources = list(dict.fromkeys(s.source for s in found))
    for source in [*sources, "all"]:
        own = [s for s in found if source in (s.source, "all")]
        among, median = summary(own)
        regret = f"median predicted regret {median * 100:.1f} %"
        print(f"{source[:60]:60s} among our {BEST} fastest: {among * 100:.0f} % of {len(own)}; {regret}")


def in_words(shape: Iterable[int]) -> str:
    """A shape in field shorthand."""
    return "/".join(f"{n.upper()}{x}" for n, x in zip(SHAPE, shape, strict=False) if x > 1) or "DP"


if __name__ == "__main__":
    main()
