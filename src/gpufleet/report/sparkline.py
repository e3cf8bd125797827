"""A line of blocks that stand for a course or a spread, in characters."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
NOTHING = " "


def course(values: Sequence[float], width: int, high: float | None = None) -> str:
    """The highest value of each part of a course, as a share of `high`, or of the highest of all; nothing is a blank.

    >>> course([0, 1, 4, 8, 2], 5), course([1, 2, 3, 4], 2)
    (' ▁▄█▂', '▄█')
    """
    top = max([*values, 0.0]) if high is None else high
    if not values or top <= 0:
        return ""
    parts = min(width, len(values))
    edges = [round(i * len(values) / parts) for i in range(parts + 1)]
    highest = [max(values[begin:end]) for begin, end in pairwise(edges)]
    return "".join(block(value / top) for value in highest)


def block(share: float) -> str:
    """A block as high as a share.

    >>> block(0.0), block(0.001), block(1.0)
    (' ', '▁', '█')
    """
    return NOTHING if share <= 0 else BLOCKS[min(math.ceil(share * len(BLOCKS)), len(BLOCKS)) - 1]


def spread(values: Sequence[float], shares: Sequence[float], width: int) -> str:
    """The share that stays below each of `width` values between the least above zero and the greatest, in equal ratios.

    >>> spread([1.0, 2.0, 4.0, 8.0], [0.25, 0.5, 0.75, 1.0], 4)
    '▂▄▆█'
    """
    low, high = next((value for value in values if value > 0), 0.0), values[-1]
    if not 0 < low < high:
        return block(1.0)
    ratio = (high / low) ** (1 / (width - 1))
    return "".join(block(share_below(low * ratio**i, values, shares)) for i in range(width))


def share_below(value: float, values: Sequence[float], shares: Sequence[float]) -> float:
    """The share of the greatest known value that is no greater."""
    at = bisect_right(values, value * (1 + math.ulp(1.0) * 64))
    return shares[at - 1] if at else 0.0
