"""From what one replica sustains to machines and money."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from tests.unit.performance.handmade_curves import curves_of

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.fabric import Fabric
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.domain.precision_labels import kv_precision
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.domain.slo import Limit, Slo
from gpufleet.domain.workload import Workload
from gpufleet.optimize.copies.decoder import capacity
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import best_of_each_type, rank, within_budget
from gpufleet.optimize.placement import once_per_host, place
from gpufleet.optimize.replicas import EveryRejection
from gpufleet.optimize.service import REASONS, missed_objective
from gpufleet.optimize.size import (
    LOAD,
    ROOM,
    SATURATION,
    Capacity,
    binding_limit,
    needed_together,
    operate,
)
from gpufleet.report.words import at_least_ms

BATCH = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
GPU = load_catalog().accelerators["L40S"]
PCIE = Fabric("pcie", 16e9)


def replicas(*tensor_parallel: int) -> Candidates:
    """One bf16 candidate per TP degree on L40S over PCIe."""
    arch = shipped_architecture("llama-3.1-8b")
    zero = np.zeros(len(tensor_parallel), dtype=np.int64)
    tp = np.array(tensor_parallel)
    return Candidates(
        Palette((GPU,), (arch.weights,), (kv_precision(arch.weights, find_engine("vllm")),), (find_engine("vllm"),)),
        accelerator=zero, weight_format=zero, kv_precision=zero, engine=zero, tp=tp, pp=zero + 1, ep=zero + 1,
        attention_dp=zero + 1, link_is_pcie=tp > 1, through_host=tp < 0, link_bytes_per_s=np.where(tp > 1, 16e9, 0.0),
    )  # fmt: skip


def curves(rows: int = 1, largest_batch: float = 300.0) -> LoadCurves:
    """TPOT of 10 ms and 0.1 ms more per sequence, answers of 100 tokens; row r is r + 1 times as slow."""
    slower = np.arange(1, rows + 1)[:, None]
    tpot = slower * (0.01 + 1e-4 * BATCH[None, :])
    return curves_of(BATCH, BATCH / (100 * tpot), tpot, largest_batch=np.full(rows, largest_batch))


def demand(rate: float = 10.0, *limits: Limit, headroom: float = 0.0, least: int = 1) -> Demand:
    return Demand(Workload(500.0, 100.0, rate, Slo(limits)), headroom, least)


def machine(gpus: float = 4, name: str = "four", fabric: Fabric = PCIE) -> Instance:
    return Instance("a-cloud", name, "L40S", gpus, 8, 64.0, fabric, None, None, "a source")


def offer(price: float, name: str = "four", region: str = "here", kind: PriceKind = PriceKind.ON_DEMAND) -> Offer:
    return Offer("a-cloud", region, name, kind, price, PriceBasis.LIST, "a source", date(2025, 1, 1))


def sustained(*requests_per_s: float) -> Capacity:
    """Candidates that sustain these rates and break no limit."""
    rates = np.array(requests_per_s)
    found = capacity(curves(len(rates)), demand())
    return replace(found, requests_per_s=rates)


def test_without_limits_load_alone_bounds_a_replica() -> None:
    found = capacity(curves(), demand())
    assert found.requests_per_s[0] <= 0.95 * found.sustained_requests_per_s[0]
    assert found.is_feasible.all()


def test_a_tighter_limit_admits_a_smaller_batch_and_less_load() -> None:
    loose, tight = (capacity(curves(), demand(10.0, Limit("tpot", "mean", s))) for s in (0.013, 0.0105))
    assert BATCH[loose.best[0]] == 16
    assert BATCH[tight.best[0]] == 4
    assert tight.requests_per_s[0] < loose.requests_per_s[0]


def test_a_limit_between_two_batches_of_the_grid_is_used_to_its_edge() -> None:
    """TPOT is 10 ms and 0.1 ms a sequence: 11 ms are 10 sequences, halfway from 4 to 16.

    The edge is found straight between columns, and times are told by their ratio: a little inside.
    """
    found = capacity(curves(), demand(10.0, Limit("tpot", "mean", 0.011)))
    assert (BATCH[found.best[0]], found.beyond[0]) == (4, pytest.approx(0.5))
    running = operate(found, 0, float(found.requests_per_s[0]))
    assert running.batch == pytest.approx(10.0)
    assert 0.01095 < running.objectives_s["tpot.mean"] < 0.011


def test_what_binds_is_the_limit_that_breaks_first() -> None:
    tight = capacity(curves(), demand(10.0, Limit("tpot", "mean", 0.0105)))
    assert binding_limit(tight, 0) == "tpot.mean"


def test_a_limit_below_the_fastest_token_admits_nothing() -> None:
    found = capacity(curves(), demand(10.0, Limit("tpot", "p95", 0.009)))
    assert not found.is_feasible.any()


def test_room_for_a_burst_is_kept_free() -> None:
    """A mean of 16 sequences is a burst of 16 + 1.645 x 4 = 22.6: room for 20 is not enough, for 23 it is."""
    short, enough = (capacity(curves(largest_batch=n), demand()) for n in (20.0, 23.0))
    assert short.breaks[ROOM][0].tolist() == [False, False, True, True, True]
    assert enough.breaks[ROOM][0].tolist() == [False, False, False, True, True]


def test_nineteen_of_twenty_requests_find_room() -> None:
    """The least room for a mean of 256 sequences is what 95 % of Poisson counts stay within, counted exactly."""
    at_most = np.cumsum([math.exp(n * math.log(256) - 256 - math.lgamma(n + 1)) for n in range(400)])
    rooms = np.arange(256.0, 320.0)
    fits = [not capacity(curves(largest_batch=room), demand()).breaks[ROOM][0, -1] for room in rooms]
    assert rooms[fits.index(True)] == np.searchsorted(at_most, 0.95) == 283


def missed_by(found: Capacity, asked: Demand) -> Rejection:
    """Why the first replica serves nothing, and by how many times."""
    limits = {limit.label: limit.limit_s for limit in asked.workload.slo.limits}
    over = {label: float(np.min(found.planned_s(label), axis=1)[0] / limit_s) for label, limit_s in limits.items()}
    return missed_objective("x", found, 0, limits, over, has_price=True)


def test_a_replica_without_room_is_not_said_to_miss_a_limit_that_it_keeps() -> None:
    """Nor one that misses it to be full; of two limits the one that is missed by more is named."""
    kept, missed, worse = Limit("tpot", "mean", 1.0), Limit("tpot", "mean", 0.005), Limit("ttft", "mean", 0.01)
    full = capacity(curves(largest_batch=1.0), demand(10.0, kept))
    assert missed_by(full, demand(10.0, kept)) == Rejection(REASONS[ROOM], "x")
    roomy = replace(full, breaks={**full.breaks, ROOM: np.zeros((1, len(BATCH)), dtype=np.bool_)})
    assert missed_by(roomy, demand(10.0, kept)) == Rejection(REASONS[LOAD], "x")
    late = capacity(curves(), demand(10.0, missed, worse))
    found = missed_by(late, demand(10.0, missed, worse))
    assert found.reason == Reason.of("over_limit", limit="ttft.mean", limit_s=0.01)
    assert found.miss.code == "at_best"
    assert dict(found.miss.figures)["least_s"] == pytest.approx(0.05 + 1.5 * 0.0101, abs=2e-4)
    assert found.shortfall == pytest.approx(6.515, abs=0.02)


@pytest.mark.parametrize("milliseconds", [0.0213, 2.3141, 9.996, 10.5, 99.01, 1234.5])
def test_the_figure_that_a_limit_must_allow_is_never_below_it(milliseconds: float) -> None:
    shown = float(at_least_ms(milliseconds / 1000).removesuffix(" ms"))
    assert milliseconds <= shown < milliseconds + max(0.01 * milliseconds, 0.0 if milliseconds < 10 else 1.0)
    assert milliseconds < 10 or shown == round(shown)


def test_what_binds_an_unlimited_replica_is_its_throughput_or_load() -> None:
    found = replace(capacity(curves(), demand()), best=np.array([len(BATCH) - 1]), beyond=np.zeros(1))
    found = replace(found, breaks={reason: np.zeros_like(where) for reason, where in found.breaks.items()})
    assert binding_limit(found, 0) == SATURATION


@pytest.mark.parametrize(
    ("rate", "least", "gpus", "machines", "replicas_bought"),
    [
        (10.0, 1, 4, 1, 4),
        (40.0, 1, 4, 1, 4),
        (40.1, 1, 4, 2, 8),
        (5.0, 5, 4, 2, 8),
        (5.0, 1, 1, 1, 1),
        (25.0, 1, 1, 3, 3),
    ],
)
def test_replicas_are_bought_by_the_machine(
    rate: float, least: int, gpus: float, machines: int, replicas_bought: int
) -> None:
    """One replica per GPU sustains 10 requests/s."""
    placed = place(machine(gpus), replicas(1), sustained(10.0), demand(rate, least=least))
    assert (placed.instance_count, placed.replicas, placed.idle_gpus) == (machines, replicas_bought, 0)


def test_gpus_that_no_replica_fills_are_paid_and_idle() -> None:
    """Two replicas of TP4 use 8 of 10 GPUs of each of two machines."""
    placed = place(machine(10), replicas(4), sustained(10.0), demand(35.0))
    assert (placed.instance_count, placed.replicas, placed.idle_gpus) == (2, 4, 4)


def test_headroom_is_bought() -> None:
    plain, ample = (place(machine(1), replicas(1), sustained(10.0), demand(30.0, headroom=h)) for h in (0.0, 0.2))
    assert (plain.instance_count, ample.instance_count) == (3, 4)


def test_the_candidate_that_needs_fewer_machines_wins_and_then_the_one_with_more_to_spare() -> None:
    fewer = place(machine(4), replicas(1, 4), sustained(10.0, 60.0), demand(50.0))
    spare = place(machine(4), replicas(1, 2), sustained(10.0, 30.0), demand(20.0))
    assert fewer.gpus_per_replica == 4
    assert spare.gpus_per_replica == 2


def test_a_machine_hosts_only_its_own_gpu_link_and_size() -> None:
    candidates = replicas(1, 2, 4)
    assert candidates.on(machine(2)).tolist() == [0, 1]
    assert candidates.on(machine(4, fabric=Fabric("pcie", 8e9))).tolist() == [0]
    assert candidates.on(machine(4, fabric=Fabric("nvlink", 16e9))).tolist() == [0]
    assert not len(candidates.on(replace(machine(4), accelerator="H100-SXM")))


def test_machines_with_as_many_of_the_same_gpus_on_the_same_link_are_asked_once() -> None:
    """Another cloud, name or note on the link changes nothing; another size, link or GPU does."""
    twin = replace(machine(4), cloud="another", name="twin", fabric=replace(PCIE, evidence="a page"))
    others = [machine(2), machine(4, fabric=Fabric("nvlink", 16e9)), replace(machine(4), accelerator="L4")]
    asked: list[Instance] = []
    found = once_per_host([machine(4), twin, *others], lambda i: asked.append(i) or len(asked))
    assert [answer for _, answer in found] == [1, 1, 2, 3, 4]
    assert [instance for instance, _ in found] == [machine(4), twin, *others]


def test_nothing_is_placed_where_nothing_is_feasible() -> None:
    assert place(machine(), replicas(1), sustained(0.0), demand()) is None


def test_offers_rank_by_what_all_machines_cost() -> None:
    placed = [
        place(machine(n, name), replicas(1), sustained(10.0), demand(35.0)) for n, name in ((1, "one"), (4, "four"))
    ]
    ranked = rank(placed, [offer(2.0, "one"), offer(7.0, "four"), offer(1.9, "one", "there"), offer(9.0, "unknown")])
    assert [(p.offer.instance, p.offer.region, p.usd_per_hour) for p in ranked] == [
        ("four", "here", 7.0),
        ("one", "there", 7.6),
        ("one", "here", 8.0),
    ]
    assert [(p.offer.instance, p.offer.region) for p in best_of_each_type(ranked)] == [
        ("four", "here"),
        ("one", "there"),
    ]


def test_a_budget_pays_for_what_costs_exactly_as_much() -> None:
    placed = [place(machine(n, name), replicas(1), sustained(10.0), demand(35.0)) for n, name in ((1, "a"), (4, "b"))]
    ranked = rank(placed, [offer(2.0, "a"), offer(7.0, "b")])
    assert [p.usd_per_hour for p in within_budget(ranked, 7.0, EveryRejection())] == [7.0]
    assert [p.usd_per_hour for p in within_budget(ranked, 8.0, EveryRejection())] == [7.0, 8.0]
    assert within_budget(ranked, 6.99, EveryRejection()) == []


def test_an_upfront_payment_without_a_term_does_not_hide_in_the_hour() -> None:
    placed = [place(machine(), replicas(1), sustained(10.0), demand())]
    assert rank(placed, [offer(5.0)])[0].usd_per_hour == 5.0


def test_price_kinds_of_one_type_are_ranked_beside_each_other() -> None:
    placed = [place(machine(), replicas(1), sustained(10.0), demand())]
    ranked = rank(placed, [offer(5.0), offer(2.0, kind=PriceKind.SPOT), offer(6.0, region="there")])
    assert [p.offer.price_kind for p in best_of_each_type(ranked)] == [PriceKind.SPOT, PriceKind.ON_DEMAND]


def test_a_replica_at_its_highest_rate_stands_just_inside_its_limits() -> None:
    found = capacity(curves(), demand(10.0, Limit("tpot", "mean", 0.02)))
    running = operate(found, 0, float(found.requests_per_s[0]))
    assert BATCH[found.best[0]] <= running.batch < BATCH[found.best[0] + 1]
    assert running.objectives_s["tpot.mean"] <= 0.02


def test_a_replica_at_less_load_decodes_fewer_sequences_faster() -> None:
    found = capacity(curves(), demand(10.0, Limit("tpot", "mean", 0.02)))
    full, half = (operate(found, 0, share * float(found.requests_per_s[0])) for share in (1.0, 0.5))
    assert half.batch < full.batch
    assert half.objectives_s["tpot.mean"] < full.objectives_s["tpot.mean"]


def test_limits_that_only_give_way_together_are_relaxed_together() -> None:
    limits = [Limit("tpot", "mean", 0.005), Limit("ttft", "mean", 0.01)]
    found = capacity(curves(), demand(10.0, *limits))
    together = needed_together(found, limits)
    assert {limit for limit, _, _ in together} == set(limits)
    assert all(seconds > limit.limit_s for limit, seconds, _ in together)
