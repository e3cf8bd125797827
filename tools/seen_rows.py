"""Writes what the shipped constants were fitted to into `data/seen/`: `python -m tools.seen_rows`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpufleet.accuracy.seen_rows import COUNTED, FIGURES, PUBLISHERS, tables_of
from gpufleet.inputs.measurements import MeasurementRow, read_measurements

MEASUREMENTS = Path(__file__).resolve().parents[1] / "measurements"


def fitted_rows() -> list[tuple[str, MeasurementRow]]:
    """Every row of our measurements, but for those of `own/`, with its kind of file."""
    files = [read_measurements(path) for path in sorted(MEASUREMENTS.glob("*.csv"))]
    return [(file.kind, row) for file in files if file.kind != COUNTED for row in file.rows]


def main() -> None:
    """Write both tables."""
    figures, publishers = tables_of(fitted_rows())
    FIGURES.parent.mkdir(exist_ok=True)
    np.save(FIGURES, figures)
    np.save(PUBLISHERS, publishers)
    print(f"{len(figures):,} figures, {len(publishers)} sources by kind of file")


if __name__ == "__main__":
    main()
