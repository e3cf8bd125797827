"""The tables of measured round trips and the fit to them."""

from __future__ import annotations

import numpy as np

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.network_latency import load_measured_round_trips, load_network_model, measured_pairs
from gpufleet.performance.network_latency import distance_between_km, distance_s, fibre_s

PAIRS = list(measured_pairs())
KM = np.array([distance_between_km(pair.place, pair.other) for pair in PAIRS])
MEDIAN_S = np.array([pair.median_s for pair in PAIRS])


def test_every_pair_stands_once_and_names_a_source() -> None:
    rows, sources = load_measured_round_trips().rows, load_catalog().sources
    assert len(set(rows.values())) == len(PAIRS)
    assert {pair.source for pair in PAIRS} <= sources.keys()
    assert load_network_model().per_km_s.source.partition(":")[0] in sources


def test_no_measured_pair_beats_light_so_every_region_lies_where_the_table_puts_it() -> None:
    assert (0.95 * fibre_s(KM) < MEDIAN_S).all()


def test_eight_of_ten_measured_pairs_lie_in_the_range_of_the_distance() -> None:
    model, far = load_network_model(), KM > 100
    ratio = MEDIAN_S[far] / distance_s(KM[far], model)
    inside = (ratio >= model.distance_ratio.low) & (ratio <= model.distance_ratio.high)
    assert 0.78 < inside.mean() < 0.82
    assert 0.95 < np.median(ratio) < 1.05
