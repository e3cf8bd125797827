"""Which offers and layouts a mix looks at: what a limit holds back must not push out what it leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api.mixes import MixRequest, understood_mix
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.mixes.question import posed_of
from gpufleet.optimize.mixes.terms import Terms
from gpufleet.optimize.mixes.ways import REGIONS_IN_TURN, Posed, leanest, types_in_turn
from gpufleet.questions.fields import ServeRequest

CHAT = ServeRequest("llama-3.1-8b", 20.0, 1000, 200, slo="ttft.p95<1s", clouds=["aws"], gpus=["H100", "L40S", "L4"])


def posed(*services: ServeRequest, **terms: object) -> Posed:
    return posed_of(understood_mix(MixRequest(**terms), services, None, load_catalog()), is_cut=True)  # type: ignore[arg-type]


def test_of_offers_that_differ_in_their_region_alone_the_cheapest_is_looked_at() -> None:
    found = posed(CHAT)
    names = [(o.cloud, o.instance) for o in found.offers]
    assert len(set(names)) == len(names)
    assert np.all(np.isfinite(found.problem.load_units).any(axis=1))


def test_where_a_region_may_be_lost_every_region_is_looked_at() -> None:
    found = posed(CHAT, survive_region=True)
    assert len({o.region for o in found.offers}) > 1
    assert {loss.name for loss in found.problem.losses} == {f"{o.cloud} {o.region}" for o in found.offers}


def test_a_quota_of_one_region_leaves_the_next_ones_to_look_at() -> None:
    found = posed(CHAT, quotas=["aws:us-east-1:H100=2"])
    assert {o.region for o in found.offers if o.instance == "p5.4xlarge"} - {"us-east-1"}


def test_regions_of_the_best_type_do_not_push_out_a_small_machine_that_carries_the_rest() -> None:
    of_type = {
        name: [o for o in load_catalog().offers if o.instance == name and o.price_kind is PriceKind.ON_DEMAND]
        for name in ("p5.4xlarge", "g6e.xlarge")
    }
    best, small = of_type.values()
    assert len(best) > REGIONS_IN_TURN
    ordered = types_in_turn([*best, *small])
    assert ordered[:REGIONS_IN_TURN] == best[:REGIONS_IN_TURN]
    assert ordered[REGIONS_IN_TURN] == small[0]
    assert set(ordered) == {*best, *small}


def test_what_emits_least_for_what_it_carries_is_looked_at_first_however_cheap_it_is() -> None:
    """Of 3, 2 and 4 kg an hour; none where nothing is limited."""
    plain = load_catalog().offers[0]
    half, two, four = (replace(plain, price_per_instance_usd_per_hour=usd, region=str(usd)) for usd in (0.5, 2.0, 4.0))
    kg = {(o.cloud, o.region, o.instance): each for o, each in ((half, 3.0), (two, 2.0), (four, 4.0))}
    costs = {offer: np.array([9.0, effective_price(offer)]) for offer in (half, two, four)}
    terms = Terms(most_kg_per_hour=9.0, kg_per_hour=kg)
    assert leanest([costs], {half, two, four}, terms) == [two, half, four]
    assert leanest([costs], {half, four}, terms) == [half, four]
    assert leanest([costs], {half, two}, Terms(kg_per_hour=kg)) == []


def test_a_gpu_that_may_not_be_had_is_not_looked_at_unless_nothing_else_carries_all() -> None:
    found = posed(replace(CHAT, slo="ttft.p95<9s"), quotas=["H100=0"])
    assert "H100-SXM" not in {i.accelerator for i in found.instances}
    alone = posed(replace(CHAT, gpus=["H100"]), quotas=["H100=0"])
    assert {i.accelerator for i in alone.instances} == {"H100-SXM"}


def test_machines_on_demand_are_looked_at_beside_much_cheaper_ones_on_spot() -> None:
    both = replace(CHAT, pricing=["spot", "on_demand"], max_spot=0.5)
    kinds = {o.price_kind for o in posed(both).offers}
    assert kinds == {PriceKind.SPOT, PriceKind.ON_DEMAND}
    none = posed(replace(both, max_spot=0.0))
    assert {o.price_kind for o in none.offers} == {PriceKind.ON_DEMAND}


@pytest.mark.slow
def test_each_cloud_with_a_share_has_offers_and_no_other_cloud_has() -> None:
    found = posed(replace(CHAT, clouds=["aws", "gcp", "azure"], gpus=None), shares=["aws=60%", "gcp=40%"])
    assert {o.cloud for o in found.offers} == {"aws", "gcp"}


@pytest.mark.slow
def test_services_share_machines_by_the_replica_unless_something_may_be_lost() -> None:
    other = replace(CHAT, model="qwen3-8b", rate=5.0)
    together = posed(CHAT, other).problem
    assert set(together.replicas_per_unit) == {1.0}
    assert together.machines_per_unit.min() < 1
    apart = posed(replace(CHAT, spare_machines=1), other).problem
    assert set(apart.machines_per_unit) == {1.0}


def test_a_way_of_one_service_carries_nothing_of_another() -> None:
    found = posed(CHAT, replace(CHAT, model="qwen3-8b", rate=5.0))
    for w, way in enumerate(found.ways):
        other = found.problem.service_of_bucket != way.service
        assert not np.isfinite(found.problem.load_units[other, w]).any()
