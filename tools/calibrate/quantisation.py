"""How long engines quantise the input of a measured product: calls of a layer hold it, products do not.

The tables hold whole calls. TensorRT-LLM's fp8 call looks for the scale of its input (`computescale`) and quantises by
it (`scale_matrix`), vLLM's finds a scale that is stored. What was not measured apart takes the formula that predictions
add where an engine quantises in a kernel of its own, so that both together are the call again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tools.calibrate.kernel_tables import GPUS, PROBES, gemm_rows, table_files

from gpufleet.catalog.calibration import load_formulas
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import ACTIVATION_BYTES, WIDE_BYTES
from gpufleet.performance.elementwise import elementwise_s
from gpufleet.units import MILLISECOND

Floats = NDArray[np.float64]
STEPS = {"trtllm": ("computescale", "scale_matrix"), "vllm": ("scale_matrix",)}
MEASURED_FORMAT = "fp8"
SHAPE = ["m", "k"]
MOST_BY_FORMULA = 0.5


def product_rows(gpu: Path) -> pd.DataFrame:
    """m, n, k: the measured calls without what they spend on their input.

    Calls that the formula takes most of are dropped: they say little of their product.
    """
    rows, accelerator = gemm_rows(gpu), load_catalog().accelerators[{**GPUS, **PROBES}[gpu.name]]
    measured_s, formula_s = measured_quantising_s(rows, gpu), formula_quantising_s(rows, accelerator)
    is_measured = np.isfinite(measured_s)
    quantising_s = np.where(is_measured, measured_s, formula_s)
    most_s = rows.latency_s * np.where(is_measured, 1.0, MOST_BY_FORMULA)
    return rows.assign(latency_s=rows.latency_s - quantising_s)[quantising_s < most_s]


def measured_quantising_s(rows: pd.DataFrame, gpu: Path) -> Floats:
    """Seconds that each call spends on its input, as its engine was measured; NaN where it was not."""
    seconds = np.full(len(rows), np.nan)
    for engine, steps in STEPS.items():
        of_engine = ((rows.engine == engine) & (rows.precision == MEASURED_FORMAT)).to_numpy()
        places = pd.MultiIndex.from_frame(rows.loc[of_engine, SHAPE])
        seconds[of_engine] = sum(step_s(gpu, engine, step).reindex(places).to_numpy() for step in steps)
    return seconds


def formula_quantising_s(rows: pd.DataFrame, accelerator: Accelerator) -> Floats:
    """What the product takes for quantising an input; nothing where it stays in 16 bits."""
    width = rows.precision.map(lambda name: ACTIVATION_BYTES.get(name, WIDE_BYTES)).to_numpy(dtype=np.float64)
    moved_bytes = (rows.m * rows.k).to_numpy(dtype=np.float64) * (WIDE_BYTES + width)
    seconds = elementwise_s(load_formulas().streams, accelerator.bandwidth_bytes_per_s, moved_bytes)
    return np.where(width < WIDE_BYTES, seconds, 0.0)


def step_s(gpu: Path, engine: str, step: str) -> pd.Series:
    """Seconds of one step by rows and columns of the input; empty where an engine was not measured."""
    paths = [path for name, _, path in table_files(gpu, "quantize", f"{step}_perf") if name == engine]
    frames = [pd.read_parquet(path) for path in paths[-1:]] or [pd.DataFrame(columns=[*SHAPE, "latency"], dtype=float)]
    fastest: pd.Series = frames[0].groupby(SHAPE).latency.min() * MILLISECOND
    return fastest
