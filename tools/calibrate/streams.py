"""What kernels that only stream memory reach: the fp8 quantisation of activations, as measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from tools.calibrate.kernel_tables import table_files

from gpufleet.domain.accelerator import Accelerator
from gpufleet.units import MICROSECOND, MILLISECOND

ENGINES = ("vllm", "trtllm")  # SGLang's rows are an unfused path, ten times slower
SMALL_ELEMENTS = 2**16
LARGE_ELEMENTS = 2**28
BYTES_PER_ELEMENT = 3  # two read, one written


def stream_table(path: Path, gpus: Mapping[str, str], accelerators: Mapping[str, Accelerator]) -> str:
    """Markdown: seconds of the smallest kernels and the share of bandwidth of the largest, with their medians."""
    found = [row for folder, name in gpus.items() for row in _measured(path / folder, accelerators[name])]
    lines = ["| GPU | kernel of | floor µs | share of bandwidth |", "| --- | --- | --: | --: |"]
    lines += [f"| {gpu} | {engine} | {floor / MICROSECOND:.2f} | {share:.2f} |" for gpu, engine, floor, share in found]
    floor, share = (float(np.median([row[i] for row in found])) for i in (2, 3))
    return "\n".join([*lines, f"| median | | {floor / MICROSECOND:.2f} | {share:.2f} |"])


def _measured(gpu: Path, accelerator: Accelerator) -> list[tuple[str, str, float, float]]:
    rows = []
    for engine, version, path in table_files(gpu, "quantize", "scale_matrix_perf"):
        if engine in ENGINES:
            frame = pd.read_parquet(path)
            elements, seconds = (frame.m * frame.k).to_numpy(), frame.latency.to_numpy() * MILLISECOND
            floor = float(np.median(seconds[elements <= SMALL_ELEMENTS]))
            large = elements >= LARGE_ELEMENTS
            least = BYTES_PER_ELEMENT * elements[large] / accelerator.bandwidth_bytes_per_s
            rows.append((accelerator.name, f"{engine} {version}", floor, float(np.median(least / seconds[large]))))
    return rows
