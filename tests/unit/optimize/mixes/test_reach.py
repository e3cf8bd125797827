"""Limits kept at users: the network between them and a region leaves the rest of a limit to the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api.fleets import solved_by_name
from gpufleet.api.serve_questions import Prepared
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.network_latency import NetworkLatency
from gpufleet.domain.place import Place
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.reach import Reach, UserGroup, as_planned, probing, rates_over
from gpufleet.provenance import Grade
from gpufleet.questions.fields import RequestKind, ServeRequest

CHAT = ServeRequest("llama-3.1-8b", 20.0, 1000, 200, slo="ttft.p95<600ms,tpot.p95<60ms", clouds=["aws"], gpus=["L40S"])
HERE, THERE = ("aws", "here"), ("aws", "there")


def prepared(slo: str | None = CHAT.slo) -> Prepared:
    return solved_by_name(replace(CHAT, slo=slo), load_catalog())


def trip(median_s: float, p95_s: float) -> NetworkLatency:
    return NetworkLatency(median_s, p95_s, median_s, median_s, Grade.MEASURED, "a test")


def sustained_over(network: NetworkLatency, slo: str | None = CHAT.slo) -> FloatArray:
    """What every layout sustains where limits hold behind a network."""
    p = prepared(slo)
    service = Service.of(p.question, p.calibration, by_answer=False, is_cut=False)
    (c,) = service.classes
    copies, kept = service.runnable(service.demand_of((probing(c),)), service.every)
    rows = np.arange(int(kept.sum()))
    return rates_over(copies.capacity(), rows, c.slo.limits, network)


def sustained_by_model(slo: str | None) -> FloatArray:
    """What every layout sustains of a question without a network."""
    p = prepared(slo)
    service = Service.of(p.question, p.calibration, by_answer=False, is_cut=False)
    copies, _ = service.runnable(service.demand_of(service.classes), service.every)
    return copies.capacity().requests_per_s


def test_no_network_leaves_all_of_the_limit() -> None:
    assert sustained_over(trip(0.0, 0.0)) == pytest.approx(sustained_by_model(CHAT.slo), rel=1e-6)


@pytest.mark.parametrize("metric", ["ttft", "latency"])
def test_a_network_that_always_takes_as_long_leaves_the_limit_less_that(metric: str) -> None:
    limit_ms = {"ttft": 600, "latency": 8000}[metric]
    asked, left = (f"{metric}.p95<{ms}ms" for ms in (limit_ms, limit_ms - 100))
    assert sustained_over(trip(0.1, 0.1), asked) == pytest.approx(sustained_by_model(left), rel=1e-3)


def test_a_mean_has_the_mean_of_the_network_less() -> None:
    mean_s = 0.08 * math.exp((math.log(2) / 1.6448536) ** 2 / 2)
    over = sustained_over(trip(0.08, 0.16), "ttft.mean<400ms")
    assert over == pytest.approx(sustained_by_model(f"ttft.mean<{400 - 1000 * mean_s:.6f}ms"), rel=1e-3)


def test_steps_after_the_first_token_do_not_wait_for_the_network() -> None:
    assert sustained_over(trip(0.3, 0.5), "tpot.p95<60ms") == pytest.approx(sustained_by_model("tpot.p95<60ms"))


def test_farther_users_never_get_more() -> None:
    rates = np.array([sustained_over(trip(s, 1.6 * s)) for s in (0.01, 0.05, 0.1, 0.2, 0.3, 0.7)])
    assert np.all(np.diff(rates, axis=0) <= 1e-9)
    assert rates[0].max() > 0
    assert np.all(rates[-1] == 0)  # the network alone takes longer than the limit


def test_percentiles_do_not_add() -> None:
    """A p95 of 0.2 s beside the model's own leaves it more than the limit less 0.2 s: both are seldom late together."""
    over, as_if_added = sustained_over(trip(0.08, 0.2)), sustained_by_model("ttft.p95<400ms,tpot.p95<60ms")
    assert np.all(over >= as_if_added)
    assert over.max() > as_if_added.max()
    assert over.max() < sustained_by_model("ttft.p95<520ms,tpot.p95<60ms").max()


def reach_of(stays_in: frozenset[tuple[str, str]] | None = None) -> Reach:
    users = (
        UserGroup(Place("near", "DE", 50.0, 9.0), 0.7, stays_in),
        UserGroup(Place("far", "US", 39.0, -77.0), 0.3),
    )
    network = {(0, HERE): trip(0.02, 0.03), (1, HERE): trip(0.12, 0.15), (0, THERE): trip(0.12, 0.15)}
    return Reach(users, network)


def test_who_has_to_stay_elsewhere_is_not_served() -> None:
    reach = reach_of(frozenset({THERE}))
    assert reach.between(0, HERE) is None
    assert reach.between(0, THERE) is not None
    assert reach.between(1, HERE) is not None


def test_a_service_has_a_bucket_for_each_place_and_the_farther_one_is_carried_less() -> None:
    p = prepared()
    service = Service.of_users(p.question, p.calibration, reach_of())
    assert [(b.users, b.rate_requests_per_s) for b in service.buckets] == [
        (0, pytest.approx(14)),
        (1, pytest.approx(6)),
    ]
    rates = service.rates_from(HERE, [int(np.argmax(service.whole_requests_per_s))])[:, 0]
    assert 0 < rates[1] < rates[0]


def test_where_the_network_is_not_known_nothing_is_served() -> None:
    p = prepared()
    service = Service.of_users(p.question, p.calibration, reach_of())
    best = int(np.argmax(service.whole_requests_per_s))
    assert service.rates_from(THERE, [best])[1, 0] == 0
    assert service.sustained_whole(best, THERE) == 0


def test_several_classes_are_served_together_where_the_network_of_all_their_users_is_known() -> None:
    kinds = tuple(RequestKind(name, 10.0, 1000, 200, "ttft.p95<600ms") for name in ("chat", "code"))
    p = solved_by_name(replace(CHAT, rate=1.0, slo=None, classes=kinds), load_catalog())
    service = Service.of_users(p.question, p.calibration, reach_of())
    best = int(np.argmax(service.whole_requests_per_s))
    assert 0 < service.sustained_whole(best, HERE) < service.whole_requests_per_s[best]
    assert service.sustained_whole(best, THERE) == 0


def test_users_who_share_a_replica_are_held_to_the_limit_of_those_farther_off() -> None:
    p = prepared()
    service = Service.of_users(p.question, p.calibration, reach_of())
    best = int(np.argmax(service.whole_requests_per_s))
    alone = service.rates_from(HERE, [best])[:, 0]
    assert service.sustained_whole(best, HERE) == pytest.approx(alone.min(), rel=1e-6)


def test_a_network_is_planned_as_late_as_the_confidence_asks_with_what_varies_around_it() -> None:
    known = NetworkLatency(0.1, 0.15, 0.09, 0.12, Grade.MEASURED, "here")
    assert as_planned(known, 0.5) == known
    late = as_planned(known, 0.9)
    assert (late.median_s, late.p95_s, late.low_s, late.high_s) == pytest.approx((0.12, 0.17, 0.09, 0.12))
    surer = as_planned(known, 0.99)
    assert surer.high_s == surer.median_s > 0.12
    none = trip(0.0, 0.0)
    assert as_planned(none, 0.9) is none
