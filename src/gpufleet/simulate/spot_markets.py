"""Spot markets drawn many times over: availability of zones that nobody measured, or that somebody did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.simulate.spot_availability import generated_nodes

ZoneDraw = Callable[[np.random.Generator], Sequence[SpotZone]]
DRAWS_PER_ZONES = 4


def drawn_availability(
    rng: np.random.Generator, fit: AvailabilityFit, zones_of: ZoneDraw, num_draws: int, num_ticks: int, num_nodes: int
) -> BoolArray:
    """Whether so many nodes can be had at once, draw after draw along time: [zone, draw x tick].

    Every few draws have zones of their own.
    """
    drawn = []
    for begun in range(0, num_draws, DRAWS_PER_ZONES):
        traces = min(DRAWS_PER_ZONES, num_draws - begun)
        nodes = generated_nodes(rng, fit, zones_of(rng), num_ticks, traces, num_nodes)
        drawn += list(nodes >= num_nodes)
    return np.concatenate(drawn, axis=1)
