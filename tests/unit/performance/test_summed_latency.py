"""The model's latency and the network's together: exact at the ends, as drawn between, and the limit that is left."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.network_latency import NetworkLatency
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.summed_latency import (
    NO_NETWORK,
    NetworkDelays,
    limit_left_s,
    network_delays,
    network_quantiles_s,
    summed_percentile_s,
)
from gpufleet.provenance import Grade

KNOWN = np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
DENSE = np.concatenate([np.arange(1, 20) / 20, [0.97, 0.98, 0.99, 0.995, 0.999]])
SPREAD, TIGHT = [0.1, 0.12, 0.15, 0.2, 0.3, 0.45, 0.6, 1.0, 1.5], [0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.2]
MODEL = np.array([SPREAD, TIGHT])
P95 = list(KNOWN).index(0.95)


def delays(median_s: list[float], p95_s: list[float], share: list[float]) -> NetworkDelays:
    return NetworkDelays(np.array(median_s), np.array(p95_s), np.array(share))


NEAR, TWO_PLACES = delays([0.03], [0.05], [1.0]), delays([0.02, 0.18], [0.05, 0.25], [0.7, 0.3])
ALWAYS = delays([0.1], [0.1], [1.0])


def log_normal_quantiles(median_s: float, p95_s: float, probabilities: FloatArray) -> FloatArray:
    z = np.array([normal_quantile(p) for p in probabilities])
    return median_s * (p95_s / median_s) ** (z / normal_quantile(0.95))


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.95, 0.99])
def test_without_a_network_the_sum_is_the_models_own_percentile(quantile: float) -> None:
    own = MODEL[:, list(KNOWN).index(quantile)]
    assert summed_percentile_s(quantile, KNOWN, MODEL, NO_NETWORK) == pytest.approx(own, rel=1e-9)
    assert limit_left_s(0.5, quantile, KNOWN, MODEL, NO_NETWORK) == pytest.approx([0.5, 0.5], rel=1e-9)


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_a_constant_round_trip_adds_to_every_percentile(quantile: float) -> None:
    own = MODEL[:, list(KNOWN).index(quantile)]
    assert summed_percentile_s(quantile, KNOWN, MODEL, ALWAYS) == pytest.approx(own + 0.1, rel=1e-9)
    assert limit_left_s(0.5, quantile, KNOWN, MODEL, ALWAYS) == pytest.approx([0.4, 0.4], rel=1e-9)


@pytest.mark.parametrize("network", [NEAR, TWO_PLACES])
@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_a_model_that_always_takes_as_long_adds_to_the_networks_percentile(
    network: NetworkDelays, quantile: float
) -> None:
    steady = np.full((1, len(KNOWN)), 0.4)
    expected = 0.4 + network_quantiles_s([quantile], network)
    assert summed_percentile_s(quantile, KNOWN, steady, network) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("median_s", "p95_s"), [(0.2, 0.5), (0.05, 0.06), (0.02, 0.1)])
@pytest.mark.parametrize("network", [NEAR, TWO_PLACES, ALWAYS])
def test_the_percentiles_are_those_of_drawn_sums(median_s: float, p95_s: float, network: NetworkDelays) -> None:
    generator, num = np.random.default_rng(19), 400_000
    z = normal_quantile(0.95)
    model = median_s * (p95_s / median_s) ** (generator.standard_normal(num) / z)
    place = generator.choice(len(network.median_s), p=network.share_ratio, size=num)
    ratio = network.p95_s[place] / network.median_s[place]
    drawn = model + network.median_s[place] * ratio ** (generator.standard_normal(num) / z)
    quantiles = log_normal_quantiles(median_s, p95_s, DENSE)[None]
    for quantile in (0.5, 0.9, 0.95, 0.99):
        found = float(summed_percentile_s(quantile, DENSE, quantiles, network)[0])
        assert found == pytest.approx(np.quantile(drawn, quantile), rel=0.015)


def test_percentiles_do_not_add() -> None:
    [slow, _] = summed_percentile_s(0.95, KNOWN, MODEL, TWO_PLACES)
    added = MODEL[0, P95] + network_quantiles_s([0.95], TWO_PLACES)[0]
    assert max(MODEL[0, P95], 0.18) < slow < added - 0.1


def test_a_candidate_meets_its_own_limit_if_and_only_if_the_sum_meets_the_limit() -> None:
    generator = np.random.default_rng(5)
    model = np.cumsum(generator.exponential(0.05, size=(200, len(KNOWN))), axis=1)
    for network in (NEAR, TWO_PLACES, ALWAYS, NO_NETWORK):
        summed = summed_percentile_s(0.95, KNOWN, model, network)
        limit_s = float(np.median(summed)) + 1e-6
        left = limit_left_s(limit_s, 0.95, KNOWN, model, network)
        assert ((model[:, P95] <= left) == (summed <= limit_s)).all()
        assert (left <= limit_s).all()


def test_what_just_meets_its_sum_has_its_own_percentile_left() -> None:
    summed = summed_percentile_s(0.95, KNOWN, MODEL, TWO_PLACES)
    assert limit_left_s(summed, 0.95, KNOWN, MODEL, TWO_PLACES) == pytest.approx(MODEL[:, P95], rel=1e-5)


def test_where_the_network_alone_is_too_slow_nothing_is_left() -> None:
    assert limit_left_s(0.05, 0.95, KNOWN, MODEL, ALWAYS).tolist() == [0.0, 0.0]
    assert (limit_left_s(0.2, 0.95, KNOWN, MODEL, TWO_PLACES) < 0.02).all()


def test_a_longer_limit_never_leaves_less_and_more_users_far_away_never_more() -> None:
    limits = np.linspace(0.1, 2.0, 20)
    left = np.array([limit_left_s(limit, 0.95, KNOWN, MODEL, TWO_PLACES) for limit in limits])
    assert (np.diff(left, axis=0) >= -1e-9).all()
    shares = [delays([0.02, 0.18], [0.05, 0.25], [1 - far, far]) for far in (0.0, 0.04, 0.06, 0.5, 1.0)]
    summed = np.array([summed_percentile_s(0.95, KNOWN, MODEL, network) for network in shares])
    assert (np.diff(summed, axis=0) >= -1e-9).all()


def test_an_overloaded_candidate_has_no_percentile_and_spoils_no_other() -> None:
    model = np.vstack([MODEL[0], np.full(len(KNOWN), np.inf), MODEL[1]])
    summed = summed_percentile_s(0.95, KNOWN, model, TWO_PLACES)
    assert summed[1] == np.inf
    assert summed[[0, 2]] == pytest.approx(summed_percentile_s(0.95, KNOWN, MODEL, TWO_PLACES))
    assert limit_left_s(1.0, 0.95, KNOWN, model, TWO_PLACES)[1] == 0.0
    assert summed_percentile_s(0.95, KNOWN, model[:0], TWO_PLACES).shape == (0,)


def test_a_mixture_of_one_place_with_itself_is_that_place() -> None:
    twice = delays([0.03, 0.03], [0.05, 0.05], [0.4, 0.6])
    asked = [0.1, 0.5, 0.95, 0.999]
    assert network_quantiles_s(asked, twice) == pytest.approx(network_quantiles_s(asked, NEAR), rel=1e-6)


def test_users_of_places_are_weighted_by_their_requests() -> None:
    here, there = (NetworkLatency(s, 2 * s, s, s, Grade.MEASURED, "x") for s in (0.02, 0.2))
    network = network_delays([here, there], [90.0, 10.0])
    assert network.share_ratio.tolist() == [0.9, 0.1]
    assert network_quantiles_s([0.5], network)[0] < 0.03 < 0.15 < network_quantiles_s([0.95], network)[0]


@pytest.mark.parametrize(
    ("median_s", "p95_s", "share", "words"),
    [
        ([0.1], [0.05], [1.0], "95th percentile not below it"),
        ([0.1], [0.2], [0.5], "sum to one, found 0.5"),
        ([0.1, 0.2], [0.3], [1.0], "same places"),
    ],
)
def test_nonsense_is_refused(median_s: list[float], p95_s: list[float], share: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        delays(median_s, p95_s, share)
    with pytest.raises(ValueError, match="probabilities rise"):
        summed_percentile_s(0.95, KNOWN[::-1], MODEL, NEAR)
