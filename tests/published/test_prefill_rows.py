"""Times to first token that were published for transformers (measurements/inference_throughput.csv)."""

import csv
from collections.abc import Iterator
from pathlib import Path

from gpufleet.accuracy.conditions import engine_of_row
from gpufleet.architecture.flops import prefill_flop
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.errors import UnknownName
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.units import MILLISECOND

MEASUREMENTS = Path(__file__).parents[2] / "measurements" / "inference_throughput.csv"


def first_tokens_of_transformers() -> Iterator[MeasurementRow]:
    with MEASUREMENTS.open(encoding="utf-8", newline="") as stream:
        rows = [MeasurementRow(i, row) for i, row in enumerate(csv.DictReader(stream), start=2)]
    for row in rows:
        try:
            engine = find_engine(engine_of_row(row).name).name
        except UnknownName:
            continue
        if engine == "transformers" and all(row.text(c) for c in ("ttft_ms", "isl", "model_id", "gpu_id")):
            yield row


def test_no_measured_prefill_is_beyond_the_datasheet() -> None:
    rates = []
    for row in first_tokens_of_transformers():
        flop = prefill_flop(shipped_architecture(row.text("model_id")), float(row.text("isl"))).total
        peak = load_catalog().accelerators[row.text("gpu_id")].peak_flop_per_s["fp16"]
        rates.append(float(flop) / (float(row.text("ttft_ms")) * MILLISECOND) / peak)
    assert len(rates) >= 12
    assert 0.5 < max(rates) < 1
