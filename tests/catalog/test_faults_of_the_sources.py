"""Faults that the sources of the tables are known to have: planted again, none becomes a price that wins.

moto counts no GPU in fractional g6f and gr6f machines and gives Trainium2 half a terabyte; price lists go on about P2
and P3, which EC2 no longer starts, and price partial A3 machines that nobody sells on demand; they leave the GPU out of
n1 prices, mix yuan with dollars, and say zero or 'N/A' where they know nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tools.build_catalog.offers import describable, gcp_offers, karpenter_offers

from gpufleet.api.plans import plan_serve
from gpufleet.catalog.checks import check_catalog
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import INSTANCE_COLUMNS, OFFER_COLUMNS
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import UsageError
from gpufleet.questions.fields import ServeRequest

TODAY = date(2026, 11, 21)
CATALOG = load_catalog()
ASKED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms")
HEADER = ",".join(OFFER_COLUMNS) + "\n"


def overlay(directory: Path, *rows: str) -> Path:
    (directory / "sources.toml").write_text('[hearsay]\ntitle = "Hearsay"\n', encoding="utf-8")
    (directory / "offers").mkdir()
    (directory / "offers" / "x.csv").write_text(HEADER + "".join(rows), encoding="utf-8")
    return directory


def test_a_machine_without_gpus_cannot_be_described(tmp_path: Path) -> None:
    (tmp_path / "instances").mkdir()
    row = "aws,g6f.huge,L4,0,2,8,none,,one,seen,10,,current,hearsay,\n"
    (tmp_path / "instances" / "x.csv").write_text(",".join(INSTANCE_COLUMNS) + "\n" + row, encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.csv line 2: cannot read gpu_count; found 0"):
        load_catalog(tmp_path, TODAY)


def test_slices_are_fractions_and_trainium_has_its_true_memory() -> None:
    assert {n: CATALOG.instances["aws", n].gpu_count for n in ("g6f.large", "g6f.xlarge", "g6f.2xlarge")} == {
        "g6f.large": 0.125,
        "g6f.xlarge": 0.125,
        "g6f.2xlarge": 0.25,
    }
    assert CATALOG.accelerators["Trainium2"].memory_bytes == 96 * 2**30


def test_a_price_of_p3_which_no_longer_starts_is_refused_however_cheap(tmp_path: Path) -> None:
    row = "aws,us-east-1,p3.2xlarge,on_demand,0,0.01,list,hearsay,2026-10-01,\n"
    with pytest.raises(UsageError, match="'sold today': the instance type is retired"):
        load_catalog(overlay(tmp_path, row), TODAY)


def test_prices_of_p2_and_of_partial_a3_do_not_enter_the_build() -> None:
    names = ("cloud", "region", "instance_type", "price_kind", "price_per_hour", "currency", "generated_at")
    rows = [
        dict(zip(names, values, strict=True))
        for values in (
            ("gcp", "us-east4", "a3-highgpu-1g", "on_demand", "0.01", "USD", "2026-08-03"),
            ("gcp", "us-east4", "n1-standard-4", "on_demand", "0.01", "USD", "2026-08-03"),
            ("gcp", "us-east4", "a3-highgpu-8g", "on_demand", "88.49", "CNY", "2026-08-03"),
        )
    ]
    machine = {"cloud": "gcp", "name": "a3-highgpu-8g", "gpu_count": "8", "status": "current"}
    assert list(describable(gcp_offers(rows), [machine], Counter())) == []
    assert list(karpenter_offers(rows[2:], "gcp-price-list")) == []


@pytest.mark.parametrize("price", ["0", "0.0", "nan", "NaN", "N/A", "N/A*", "", "-0.01", "inf", "1e999", "null"])
def test_what_is_no_price_is_refused_in_a_table_and_never_ranked(tmp_path: Path, price: str) -> None:
    row = f"aws,us-east-2,g6.xlarge,on_demand,0,{price},list,hearsay,2026-10-01,\n"
    with pytest.raises(UsageError, match=r"line 2: cannot read price_per_instance_usd_per_hour"):
        load_catalog(overlay(tmp_path, row), TODAY)


def test_of_200_planted_slips_of_the_decimal_point_none_wins_unseen() -> None:
    """Every tenth-price of a type that stands in three regions or more is named by the rules, so a build refuses it."""
    regions: dict[tuple[str, str, PriceKind], int] = {}
    for offer in CATALOG.offers:
        key = (offer.cloud, offer.instance, offer.price_kind)
        regions[key] = regions.get(key, 0) + 1
    seen = 0
    candidates = [n for n, o in enumerate(CATALOG.offers) if regions[o.cloud, o.instance, o.price_kind] >= 3]
    for row in candidates[:: len(candidates) // 200][:200]:
        offer = CATALOG.offers[row]
        slipped = replace(offer, price_per_instance_usd_per_hour=offer.price_per_instance_usd_per_hour / 10)
        offers = (*CATALOG.offers[:row], slipped, *CATALOG.offers[row + 1 :])
        findings = {finding.row for finding in check_catalog(replace(CATALOG, offers=offers), TODAY)}
        name = f"{offer.cloud} {offer.region} {offer.instance} {offer.price_kind.value}"
        seen += name in findings
    assert seen == 200


def test_a_slip_in_an_overlay_is_refused_before_it_can_win(tmp_path: Path) -> None:
    honest = plan_serve(ASKED, CATALOG).answer
    row = "gcp,us-central1,g2-standard-4,on_demand,0,0.0706832,list,hearsay,2026-10-01,\n"
    with pytest.raises(UsageError, match="'usual price'"):
        load_catalog(overlay(tmp_path, row), TODAY)
    assert honest.usd_per_hour > 0.0706832


def test_two_prices_of_one_place_and_day_are_refused_not_chosen_between(tmp_path: Path) -> None:
    row = "gcp,us-central1,g2-standard-4,on_demand,0,{},list,hearsay,2026-10-01,\n"
    with pytest.raises(UsageError, match="'no duplicates'"):
        load_catalog(overlay(tmp_path, row.format(0.7), row.format(0.5)), TODAY)
