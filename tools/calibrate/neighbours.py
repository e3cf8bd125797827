"""Kernel tables far from the roofline or from their neighbours, where weights and caches decide and not arithmetic.

    python -m tools.calibrate.neighbours

prints each table whose median factor on the roofline is above 3, or which takes twice as long as the fastest other
engine on the same GPU in the same format, in the part of the grid that few rows reach; and what is said of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpufleet.catalog.calibration import read_tables, set_aside

MEMORY_BOUND_KNOTS = {"gemm": 3, "experts": 3}  # the first axis counts rows: 1 to 4, or 1 to 8 an expert
MOST_FACTOR, MOST_RATIO, SHARE = 3.0, 2.0, 0.75


@dataclass(frozen=True)
class Outlier:
    """A table, its factor on the roofline and its time over that of the fastest neighbour (upper quartile)."""

    operator: str
    accelerator: str
    precision: str
    engine: str
    factor: float
    ratio: float | None

    @property
    def is_set_aside(self) -> bool:
        """Whether another table stands for it."""
        return (self.operator, self.precision, self.engine) in set_aside()


def outliers() -> Iterator[Outlier]:
    """Tables of an engine that are far from the roofline or from their neighbours."""
    for operator, knots in MEMORY_BOUND_KNOTS.items():
        tables, of_engine = read_tables(operator), defaultdict(dict)
        for (accelerator, precision, engine), row in tables.rows.items():
            if engine and not engine.endswith("general"):
                of_engine[accelerator, precision][engine] = tables.grids.values[row][:knots].ravel()
        for (accelerator, precision), logs in of_engine.items():
            for engine, log in logs.items():
                others = [other for name, other in logs.items() if name != engine]
                ratio = float(np.exp(np.quantile(log - np.min(others, axis=0), SHARE))) if others else None
                factor = float(np.exp(np.median(log)))
                if factor > MOST_FACTOR or (ratio or 0.0) > MOST_RATIO:
                    yield Outlier(operator, accelerator, precision, engine, factor, ratio)


def main() -> None:
    """Print them."""
    for x in outliers():
        ratio = "no neighbour" if x.ratio is None else f"{x.ratio:.1f} x the fastest neighbour"
        said = "set aside" if x.is_set_aside else "kept"
        print(f"{x.operator} {x.accelerator} {x.precision} {x.engine}: {x.factor:.1f} x roofline, {ratio}; {said}")


if __name__ == "__main__":
    main()
