"""Spot markets drawn many times over: availability of zones that nobody measured, or that somebody did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpufleet.domain.arrays import BoolArray, IntArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.domain.spot import HazardCounts, on_longer_ticks
from gpufleet.simulate.spot_availability import drawn_zones, generated_nodes

ZoneDraw = Callable[[np.random.Generator], Sequence[SpotZone]]
DRAWS_PER_ZONES = 4
PRIOR_ZONES, PRIOR_TICKS, LEAST_TICKS, LEAST_WORTH, MOST_WORTH = 40, 4000, 20, 1.0, 1000.0


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


def usual_hazards(
    rng: np.random.Generator, fit: AvailabilityFit, edges_s: tuple[float, ...], every: int = 1
) -> HazardCounts:
    """What is believed of a zone that nobody saw: changes as of zones of the fit, worth as many ticks as these say.

    A beta distribution of mean m and variance v is worth m (1 - m) / v - 1 ticks; v is that of zones, counting aside.
    """
    [nodes] = generated_nodes(rng, fit, drawn_zones(rng, fit, PRIOR_ZONES, PRIOR_ZONES), PRIOR_TICKS)
    has_one = on_longer_ticks(nodes > 0, every)
    zones = [HazardCounts.of(zone[None], fit.tick_s * every, edges_s) for zone in has_one]
    ticks, changes = (np.stack([getattr(zone, name) for zone in zones]) for name in ("ticks", "changes"))
    is_known = ticks >= LEAST_TICKS
    seen = np.maximum(is_known.sum(axis=0), 1)
    ratio = np.where(is_known, changes / np.maximum(ticks, 1), 0.0)
    mean = ratio.sum(axis=0) / seen
    by_chance = (mean * (1 - mean) * np.where(is_known, 1 / np.maximum(ticks, 1), 0.0)).sum(axis=0) / seen
    variance = (np.where(is_known, ratio - mean, 0.0) ** 2).sum(axis=0) / seen - by_chance
    worth = mean * (1 - mean) / np.maximum(variance, 1 / MOST_WORTH**2) - 1
    worth = np.where(is_known.any(axis=0), np.clip(worth, LEAST_WORTH, MOST_WORTH), 0.0)
    return HazardCounts(fit.tick_s * every, edges_s, mean * worth, worth)
