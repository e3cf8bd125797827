"""Machines as they are bought: how many stay on demand, and how replicas of several models share them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.together import Tenant, packed

CATALOG = load_catalog()
P5 = CATALOG.instances["aws", "p5.48xlarge"]
STEADY = next(o for o in CATALOG.offers if o.instance == P5.name and o.price_kind is PriceKind.ON_DEMAND)
SPOT = replace(STEADY, price_kind=PriceKind.SPOT, price_per_instance_usd_per_hour=20.0)


@pytest.mark.parametrize(
    ("machines", "most_spot", "steady"),
    [(3, 0.5, 2), (4, 0.5, 2), (1, 0.5, 1), (10, 0.7, 3), (3, 1.0, 0), (3, 0.0, 3)],
)
def test_no_more_machines_are_on_spot_than_the_share_allows(machines: int, most_spot: float, steady: int) -> None:
    placement = Placement(P5, 0, machines, machines, 8)
    assert PricedPlacement(placement, SPOT, STEADY, most_spot).steady_count(machines) == steady


def test_room_that_a_replica_leaves_is_what_is_left_of_its_machine() -> None:
    """5 + 2 + 1 of 8 GPUs are one machine; one GPU more is a second."""
    five, two = Tenant(0, 0, 1, 5), Tenant(1, 0, 1, 2)
    assert packed(P5, [five, two, Tenant(2, 0, 1, 1)]) == 1
    assert packed(P5, [five, two, Tenant(2, 0, 2, 1)]) == 2
