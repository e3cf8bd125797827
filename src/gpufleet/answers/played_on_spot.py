"""What draws of a market come to, with their range, and what a plan says of a job that is played on them."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.spot import MovingMarket
from gpufleet.optimize.spot_plays import SpotPlay as DrawnPlay
from gpufleet.provenance import Grade
from gpufleet.results.base import Figure
from gpufleet.results.job import PlayedOnSpot

TENTH, NINETIETH = 10, 90


def drawn_figure(
    values: FloatArray,
    unit: str,
    grade: str,
    alike: FloatArray | None = None,
    moving: MovingMarket | None = None,
) -> Figure:
    """The mean of draws, from their 10th to their 90th percentile; a skewed mean may lie beyond one of them.

    Windows of one trace are more like each other than those to come: ends reach as far as those of draws `alike` do.
    A stated market is not that of tomorrow: they reach as far as it may move.
    """
    mean = float(np.mean(values))
    told = [values] if alike is None else [values, alike]
    low = min(mean, *(float(np.percentile(each, TENTH)) for each in told))
    high = max(mean, *(float(np.percentile(each, NINETIETH)) for each in told))
    if moving is not None:
        low, high = moving.ends(mean, low, high)
    return Figure(value=mean, unit=unit, low=low, high=high, grade=grade)


def played_figure(values: FloatArray, seldom: Figure) -> Figure:
    """What drawn markets come to; the low end is at the rate of the advisor alone, `seldom`, where that is lower."""
    drawn = drawn_figure(values, seldom.unit, seldom.grade)
    low = min(end for end in (drawn.low, seldom.low, seldom.value) if end is not None)
    grade = Grade.TRANSFERRED.label if seldom.grade == Grade.MEASURED.label else seldom.grade
    return drawn.model_copy(update={"low": low, "grade": grade})


def played_on_spot(play: DrawnPlay, usd_if_seldom_taken: float) -> PlayedOnSpot:
    """What is said of a play."""
    return PlayedOnSpot.made_of(
        play, usd_if_seldom_taken=usd_if_seldom_taken, zones=play.num_zones, draws=len(play.usd)
    )
