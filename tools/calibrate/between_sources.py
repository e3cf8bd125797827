"""What to expect of a source that no fit has seen, from how far apart those are that were left out in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TAIL = 0.1
FEWEST_SOURCES, LEAST_FREEDOM = 3, 2
MOST_ROWS_OF_A_SOURCE = 40


@dataclass(frozen=True)
class Sources:
    """Errors, as logarithms, of sources left out in turn: their means, and how far rows and sources scatter."""

    means: Floats
    within_log: float
    noise_log: float

    @classmethod
    def of(cls, log_errors: Sequence[float], sources: Sequence[str]) -> Sources:
        """Rows by source, sources alike; of one with many rows forty tell how far its rows scatter."""
        errors, names = np.asarray(log_errors, dtype=np.float64), sorted(set(sources))
        of_source = np.array([names.index(source) for source in sources])
        counts = np.bincount(of_source)
        means = np.bincount(of_source, errors) / counts
        freedom = np.minimum(counts - 1, MOST_ROWS_OF_A_SOURCE)
        own = np.bincount(of_source, (errors - means[of_source]) ** 2) / np.maximum(counts - 1, 1)
        within = float((own * freedom).sum() / max(int(freedom.sum()), 1))
        return cls(means, math.sqrt(within), math.sqrt(within * float(np.mean(1 / counts))))

    @property
    def between_log(self) -> float:
        """Standard deviation of what sources have of their own; 0 of one source."""
        if len(self.means) < 2:
            return 0.0
        return math.sqrt(max(float(self.means.var(ddof=1)) - self.noise_log**2, 0.0))

    def range_of_a_new_one(self, beside_log: float = 0.0) -> tuple[float, float]:
        """10th and 90th percentile of an error, as a logarithm, in a source that is new.

        mean +- t_(k-1) sqrt(between^2 (1 + 1/k) + beside^2 + within^2 + noise^2/k)   of k sources: random effects
        (Higgins, Thompson and Spiegelhalter 2009) with the rows of a source beside them. `beside_log`: what parents say
        sources are apart, where groups are models of one or two sources. A range holds what is expected.
        """
        number = len(self.means)
        squares = self.between_log**2 * (1 + 1 / number) + self.noise_log**2 / number
        variance = squares + beside_log**2 + self.within_log**2
        half = student_quantile(1 - TAIL, max(number - 1, LEAST_FREEDOM)) * math.sqrt(variance)
        middle = float(self.means.mean())
        return min(middle - half, 0.0), max(middle + half, 0.0)


def student_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t, by the expansion about the normal one (Abramowitz and Stegun 26.7.5).

    >>> [round(student_quantile(0.9, freedom), 2) for freedom in (2, 5, 30)]
    [1.88, 1.48, 1.31]
    """
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))
