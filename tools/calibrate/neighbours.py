"""Kernel tables far from the roofline or from their neighbours, in the part of the grid where the roofline decides.

    python -m tools.calibrate.neighbours

prints each table whose median factor on the roofline is above 3, or which takes twice as long as the fastest other
engine on the same GPU in the same format, and what is said of it: products and experts of few rows, which read weights,
decode attention of many long caches, which reads those, and prefill attention of long prompts, which computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpufleet.catalog.calibration import read_tables, set_aside

FEW, MANY = slice(None, 3), slice(4, None)  # of rows from 1, or of an expert; the axes double and more
LONG = slice(6, None)
DECISIVE: dict[str, tuple[slice, ...]] = {
    "gemm": (FEW,),
    "experts": (FEW,),
    "decode": (MANY, LONG),
    "latent_decode": (MANY, slice(None), MANY),
    "prefill": (MANY, LONG),
    "latent_prefill": (MANY, LONG),
}
"""The knots of the first axes where a kernel waits for memory or arithmetic, and not for its own start."""
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
    for operator, knots in DECISIVE.items():
        tables, of_engine = read_tables(operator), defaultdict(dict)
        for (accelerator, precision, engine), row in tables.rows.items():
            if engine and not engine.endswith("general"):
                of_engine[accelerator, precision][engine] = tables.grids.values[row][knots].ravel()
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
