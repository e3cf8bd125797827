"""Spot markets drawn many times over: availability of zones that nobody measured, or that somebody did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpufleet.domain.arrays import BoolArray, IntArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.simulate.spot_availability import generated_nodes

ZoneDraw = Callable[[np.random.Generator], Sequence[SpotZone]]
DRAWS_PER_ZONES = 4


def drawn_nodes(
    rng: np.random.Generator, fit: AvailabilityFit, zones_of: ZoneDraw, num_draws: int, num_ticks: int, most_nodes: int
) -> IntArray:
    """How many nodes of `most_nodes` can be had: [draw, zone, tick]. Every few draws have zones of their own."""
    drawn = []
    for begun in range(0, num_draws, DRAWS_PER_ZONES):
        traces = min(DRAWS_PER_ZONES, num_draws - begun)
        drawn.append(generated_nodes(rng, fit, zones_of(rng), num_ticks, traces, most_nodes))
    return np.concatenate(drawn)


def drawn_availability(
    rng: np.random.Generator, fit: AvailabilityFit, zones_of: ZoneDraw, num_draws: int, num_ticks: int, num_nodes: int
) -> BoolArray:
    """Whether so many nodes can be had at once, draw after draw along time: [zone, draw x tick]."""
    nodes = drawn_nodes(rng, fit, zones_of, num_draws, num_ticks, num_nodes)
    return np.concatenate(list(nodes >= num_nodes), axis=1)
