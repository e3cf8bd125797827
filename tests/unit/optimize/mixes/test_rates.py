"""What a replica sustains of each bucket alone, and what a mix sends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpufleet.api.fleets import solved_by_name
from gpufleet.api.serve_questions import Prepared
from gpufleet.catalog.load import load_catalog
from gpufleet.optimize.mixes.rates import Service, classes_of
from gpufleet.questions.fields import RequestKind, ServeRequest

CHAT = ServeRequest("llama-3.1-8b", 20.0, 1000, 200, slo="ttft.p95<1s", clouds=["aws"], gpus=["L40S"])


def prepared(request: ServeRequest = CHAT) -> Prepared:
    return solved_by_name(request, load_catalog())


@pytest.fixture(scope="module")
def service() -> Service:
    p = prepared()
    return Service.of(p.question, p.calibration, by_answer=False)


def test_buckets_have_the_rate_of_the_service_together(service: Service) -> None:
    assert sum(b.rate_requests_per_s for b in service.buckets) == pytest.approx(20.0)
    assert service.planned_requests_per_s.sum() == pytest.approx(20.0 * 1.2)


def test_a_replica_carries_more_short_requests_than_long_ones(service: Service) -> None:
    rates = service.requests_per_s
    assert rates.shape == (len(service.buckets), len(service.every))
    assert np.all(np.diff(rates.max(axis=1)) < 0)


def test_what_is_sent_whole_is_the_question_itself(service: Service) -> None:
    demand = service.sent(np.ones(len(service.buckets)))
    assert demand is not None
    assert demand.workload.rate_requests_per_s == pytest.approx(20.0)
    asked = service.question.demand.workload.classes or classes_of(service.question.demand.workload)
    assert demand.workload.classes[0].input_tokens == asked[0].input_tokens
    assert service.sustained_of(demand, service.every) == pytest.approx(service.whole_requests_per_s)


def test_a_part_has_its_own_lengths_and_rate_and_nothing_is_no_demand(service: Service) -> None:
    share = np.zeros(len(service.buckets))
    assert service.sent(share) is None
    share[:2] = (1.0, 0.5)
    demand = service.sent(share)
    assert demand is not None
    assert demand.workload.rate_requests_per_s == pytest.approx(20.0 * (0.25 + 0.125))
    assert demand.workload.input_tokens < service.question.demand.workload.input_tokens


def test_all_as_one_bucket_is_what_a_plan_of_one_type_rates() -> None:
    p = prepared()
    whole = Service.of(p.question, p.calibration, by_answer=False, is_cut=False)
    [only] = whole.buckets
    assert only.rate_requests_per_s == pytest.approx(20.0)
    assert whole.whole_requests_per_s.max() == pytest.approx(p.solution.found.requests_per_s.max())


def test_classes_are_cut_apart_each_with_its_objectives() -> None:
    kinds = (
        RequestKind("chat", 15.0, 800, 200, "ttft.p95<1s"),
        RequestKind("reports", 5.0, 6000, 300, "latency.p95<60s"),
    )
    p = prepared(ServeRequest("llama-3.1-8b", 20.0, 1, 1, classes=kinds, clouds=["aws"], gpus=["L40S"]))
    service = Service.of(p.question, p.calibration, by_answer=True)
    assert {b.request_class.name for b in service.buckets} == {"chat", "reports"}
    assert len(service.classes) == 2
    share = np.array([1.0 if b.request_class.name == "chat" else 0.0 for b in service.buckets])
    sent = service.sent(share)
    assert sent is not None
    assert [c.name for c in sent.workload.classes] == ["chat"]
    assert sent.workload.rate_requests_per_s == pytest.approx(15.0)


NEAR = ("a cloud", "near")


def test_a_row_is_rated_once_from_a_region_and_stands_wherever_it_is_asked_for() -> None:
    rated: list[tuple[float, list[int]]] = []

    def reached(bucket: float, _: object, rows: np.ndarray) -> np.ndarray:
        rated.append((bucket, rows.tolist()))
        return bucket * rows

    served: Any = SimpleNamespace(reach=object(), buckets=(1.0, 2.0), _reached=reached, _from_region={})
    assert Service.rates_from(served, NEAR, [3, 1, 3]).tolist() == [[3, 1, 3], [6, 2, 6]]
    assert Service.rates_from(served, NEAR, [1, 4]).tolist() == [[1, 4], [2, 8]]
    assert Service.rates_from(served, ("a cloud", "far"), [1]).tolist() == [[1], [2]]
    assert rated == [(b, rows) for rows in ([3, 1], [4], [1]) for b in (1.0, 2.0)]


def test_of_requests_that_are_alike_the_strictest_limit_of_those_that_are_sent_counts() -> None:
    alone: Any = SimpleNamespace(
        every=np.arange(3), reach=object(), classes=("all",), rates_from=lambda *_: np.array([[5.0], [3.0], [2.0]])
    )
    demand: Any = None
    assert Service.sustained_as_sent(alone, demand, np.array([1.0, 0.5, 0.0]), 1, NEAR) == 3.0
