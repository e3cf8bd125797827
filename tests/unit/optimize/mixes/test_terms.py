"""What a mix is held to, as rows over machines: quotas, a budget, spot, shares of clouds, and what may be lost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import GpuQuota, Offer, PriceKind
from gpufleet.optimize.mixes.terms import CloudShare, GpusAtMost, Terms

NAMES = (
    ("aws", "us-east-1", "p5.48xlarge"),
    ("aws", "us-east-1", "p5.4xlarge"),
    ("gcp", "us-central1", "a3-highgpu-8g"),
)


def offers() -> list[Offer]:
    known = {(o.cloud, o.region, o.instance): o for o in load_catalog().offers if o.price_kind is PriceKind.ON_DEMAND}
    return [known[name] for name in NAMES]


def instances() -> list[Instance]:
    return [load_catalog().instances[cloud, name] for cloud, _, name in NAMES]


def test_a_quota_counts_gpus_of_its_cloud_and_region_alone() -> None:
    quotas = (
        GpusAtMost("H100", 16, "H100-SXM"),
        GpusAtMost("aws", 8, "H100-SXM", "aws"),
        GpusAtMost("elsewhere", 8, "H100-SXM", "aws", "eu-west-1"),
    )
    limits = Terms(quotas=quotas).limits(offers(), instances())
    assert [list(limit.per_machine) for limit in limits] == [[8.0, 1.0, 8.0], [8.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert limits[0].holds(np.array([1.0, 0.0, 1.0]))
    assert not limits[1].holds(np.array([1.0, 1.0, 0.0]))


def test_a_quota_of_the_tables_is_shared_by_the_offers_that_name_it() -> None:
    quota = GpuQuota("aws us-east-1 P", 16, 8.0)
    shared = [replace(offers()[0], gpu_quotas=(quota,)), offers()[1], offers()[2]]
    [limit] = Terms().limits(shared, instances())
    assert (limit.name, limit.most, list(limit.per_machine)) == (quota.name, 16.0, [8.0, 0.0, 0.0])


def test_a_budget_is_a_limit_of_dollars_and_none_is_no_limit() -> None:
    [budget] = Terms(most_usd_per_hour=100.0).limits(offers(), instances())
    assert list(budget.per_machine) == pytest.approx([o.price_per_instance_usd_per_hour for o in offers()])
    assert Terms().limits(offers(), instances()) == ()


def test_half_on_spot_lets_each_machine_on_demand_carry_one_on_spot() -> None:
    mixed = [replace(offers()[0], price_kind=PriceKind.SPOT), *offers()[1:]]
    [limit] = Terms(most_spot_ratio=0.5).limits(mixed, instances())
    assert limit.holds(np.array([2.0, 1.0, 1.0]))
    assert not limit.holds(np.array([3.0, 1.0, 1.0]))


def test_shares_weigh_cost_or_gpus_and_the_whole_or_nothing_of_a_cloud_is_no_row() -> None:
    shares = (CloudShare("aws", 0.6), CloudShare("gcp", 0.4), CloudShare("azure", 0.0))
    of_cost = Terms(shares=shares).cloud_shares(offers(), instances())
    of_gpus = Terms(shares=shares, is_of_gpus=True).cloud_shares(offers(), instances())
    assert [share.name for share in of_cost] == ["share of aws", "share of gcp"]
    assert list(of_gpus[0].weight) == [8.0, 1.0, 8.0]
    assert Terms(shares=shares).clouds == {"aws", "gcp"}
    alone = Terms(shares=(CloudShare("aws", 1.0),))
    assert alone.cloud_shares(offers(), instances()) == ()
    assert alone.clouds == {"aws"}


def test_every_region_and_the_fullest_zone_may_be_lost() -> None:
    losses = Terms(zones=3, survives_region=True).losses(offers(), [0, 1, 2, 2])
    assert [loss.name for loss in losses] == ["aws us-east-1", "gcp us-central1", "one of 3 zones"]
    assert list(losses[0].left(np.array([4.0, 4.0, 4.0, 4.0]))) == [0.0, 0.0, 4.0, 4.0]
    assert list(losses[2].left(np.array([4.0, 3.0, 1.0, 0.0]))) == [2.0, 2.0, 0.0, 0.0]
    assert not Terms().has_losses
    assert math.isinf(Terms().most_usd_per_hour)
