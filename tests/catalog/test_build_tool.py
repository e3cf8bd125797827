"""What the tool that builds the tables refuses, and what it makes of what it keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tools.build_catalog.accelerators import accelerator_table, build_accelerators, workstation_blackwell_peaks
from tools.build_catalog.instances import link_of
from tools.build_catalog.offers import (
    describable,
    gcp_offers,
    karpenter_offers,
    offer_row,
    refuse_unusual,
    spot_estimates,
)
from tools.build_catalog.tables import Row, tables_in


def listed(region: str, instance: str, price: float, **other: str) -> Row:
    return offer_row("aws", region, instance, price, "aws-price-list", "2026-07-20", **other)


def published(region: str, instance: str, price: str, kind: str = "on_demand", currency: str = "USD") -> Row:
    values = ("gcp", region, instance, kind, price, currency, "2026-08-03")
    names = ("cloud", "region", "instance_type", "price_kind", "price_per_hour", "currency", "generated_at")
    return dict(zip(names, values, strict=True))


def advice(region: str, instance: str, saving: int) -> Row:
    return {"region": region, "instance_type": instance, "savings_pct": str(saving), "interruption_band": "5-10%"}


def test_spot_is_estimated_where_on_demand_of_the_region_is_known() -> None:
    counts: Counter[str] = Counter()
    on_demand = [listed("us-east-1", "p5.48xlarge", 55.04)]
    rows = [advice("us-east-1", "p5.48xlarge", 52), advice("eu-west-1", "p5.48xlarge", 40)]
    [spot] = spot_estimates(rows, on_demand, counts)
    assert float(spot["price_per_instance_usd_per_hour"]) == pytest.approx(26.4192)
    assert (spot["basis"], spot["interruption"], spot["as_of"]) == ("estimated", "5-10%", "2025-06-28")
    assert sum(counts.values()) == 1


@pytest.mark.parametrize("saving", [91, 100, 0, -5])
def test_an_absurd_saving_is_dropped_and_counted(saving: int) -> None:
    counts: Counter[str] = Counter()
    on_demand = [listed("us-east-1", "p5.48xlarge", 55.04)]
    assert list(spot_estimates([advice("us-east-1", "p5.48xlarge", saving)], on_demand, counts)) == []
    assert sum(counts.values()) == 1


def test_a_price_with_a_slipped_decimal_point_is_refused_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sound = [listed(region, "p5.48xlarge", 55.04) for region in ("us-east-1", "us-east-2", "us-west-2")]
    slipped = listed("eu-west-1", "p5.48xlarge", 5.504)
    assert refuse_unusual([*sound, slipped]) == sound
    assert "eu-west-1 p5.48xlarge on_demand 5.504: more than 3x off" in capsys.readouterr().out


def test_spot_above_on_demand_is_refused() -> None:
    on_demand, spot = listed("us-east-1", "g5.xlarge", 1.0), listed("us-east-1", "g5.xlarge", 1.1, price_kind="spot")
    assert refuse_unusual([on_demand, spot]) == [on_demand]


def test_yuan_are_not_dollars() -> None:
    assert (
        list(karpenter_offers([published("cn-north-1", "g5.xlarge", "10.5", currency="CNY")], "aws-price-list")) == []
    )


def test_gcp_on_demand_of_partial_machines_is_left_out_and_their_spot_kept() -> None:
    rows = [published("us-east4", "a3-highgpu-1g", "11"), published("us-east4", "a3-highgpu-1g", "4.5", "spot")]
    assert [offer["price_kind"] for offer in gcp_offers(rows)] == ["spot"]


def test_only_described_machines_that_still_start_are_offered() -> None:
    def machine(name: str, count: str, status: str) -> Row:
        return {"cloud": "aws", "name": name, "gpu_count": count, "status": status}

    machines = [machine("new", "8", "current"), machine("old", "8", "retired"), machine("vague", "", "current")]
    offers = [listed("us-east-1", name, 1.0) for name in ("new", "old", "vague", "strange")]
    counts: Counter[str] = Counter()
    assert [offer["instance_type"] for offer in describable(offers, machines, counts)] == ["new"]
    assert len(counts) == 3


def spec(**figures: str) -> Row:
    columns = (
        *("memory_type", "memory_bandwidth_gb_s", "memory_evidence", "nvlink_gb_s", "pcie_gen", "tdp_w", "sm_count"),
        *("fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "fp8_tflops", "int8_tops", "fp4_tflops"),
        *("l2_mb", "release_year", "cross_check", "notes"),
    )
    named = {"name": "X", "vendor": "nvidia", "architecture": "Hopper", "source": "X datasheet", "evidence": "seen"}
    return {**dict.fromkeys(columns, ""), **named, "memory_gb": "80", "memory_mib_reported": "81559", **figures}


@pytest.mark.parametrize(("name", "one_way"), [("H100-SXM", 450), ("Gaudi2", 900)])
def test_a_published_sum_of_both_directions_is_halved_but_one_way_figures_are_not(name: str, one_way: int) -> None:
    assert accelerator_table(spec(name=name, nvlink_gb_s="900"))["link_gb_per_s_per_direction"] == one_way


def test_a_gpu_that_was_added_by_hand_outlives_a_rebuild(tmp_path: Path) -> None:
    build_accelerators([spec(name="A"), spec(name="B")], tmp_path)
    build_accelerators([spec(name="A", tdp_w="700")], tmp_path)
    present = tables_in(tmp_path / "accelerators" / "nvidia.toml")
    assert {name: table.get("board_power_watts") for name, table in present.items()} == {"A": 700, "B": None}


def machine_link(**cells: str) -> Row:
    names = ("intra_node_link", "link_kind", "link_gb_s_per_direction", "link_evidence", "host_pcie_gen")
    row = {**dict.fromkeys(names, ""), "gpu": "X", "gpu_count": "4", "instance_type": "x.4", **cells}
    return link_of(row, spec(pcie_gen="4", nvlink_gb_s="0"))


def test_a_pcie_link_of_unknown_width_is_taken_as_eight_lanes_and_says_so() -> None:
    link = machine_link(link_kind="pcie")
    assert (link["link_kind"], link["link_gb_per_s_per_direction"]) == ("pcie", "16")
    assert link["link_evidence"].startswith("assumed")


def test_four_cards_bridged_in_pairs_count_as_pcie() -> None:
    bridged = {"link_kind": "nvlink", "link_gb_s_per_direction": "300.0", "instance_type": "Standard_NC96ads_A100_v4"}
    assert machine_link(**bridged)["link_kind"] == "pcie"


def test_rates_of_the_small_blackwell_follow_those_of_the_large_one() -> None:
    large = workstation_blackwell_peaks(116.95)
    assert large == pytest.approx([116.95, 233.9, 467.8, 467.8, 935.6, 935.6, 1871.2])
