"""Slips in a user's tables of money: each is named for what it is."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_terms import CONTRACT_COLUMNS, RATE_COLUMNS
from gpufleet.catalog.query import resolve_instance
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.errors import UsageError
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.units import parse_change

TODAY = date(2026, 11, 21)
HEADER = ",".join(OFFER_COLUMNS)
RACK = {
    "accelerator": '"L40S"', "gpu_count": "8", "link_kind": '"pcie"', "link_gb_per_s_per_direction": "32",
    "purchase_usd": "90000", "years": "4", "power_watts": "4000", "electricity_usd_per_kwh": "0.3",
    "as_of": "2026-10-01",
}  # fmt: skip


def rack(folder: Path, **changes: str) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [f"{key} = {value}\n" for key, value in {**RACK, **changes}.items()]
    (folder / "owned.toml").write_text("[rack]\n" + "".join(lines), encoding="utf-8")
    return folder


def offers(folder: Path, text: str) -> Path:
    (folder / "offers").mkdir()
    (folder / "offers" / "own.csv").write_text(text, encoding="utf-8")
    return folder


def test_a_reservation_may_be_paid_all_up_front(tmp_path: Path) -> None:
    row = "aws,us-east-1,p5.48xlarge,commit_3y,525600,0,observed,your-tables,2026-10-01,\n"
    [own] = [o for o in load_catalog(offers(tmp_path, f"{HEADER}\n{row}"), TODAY).offers if o.is_own]
    assert offer_usd_per_hour(own) == pytest.approx(525_600 / (3 * 8760))


@pytest.mark.parametrize(("kind", "upfront"), [("commit_1y", 0), ("on_demand", 0)])
def test_a_price_of_nothing_is_none(tmp_path: Path, kind: str, upfront: float) -> None:
    row = f"aws,us-east-1,p5.48xlarge,{kind},{upfront},0,observed,your-tables,2026-10-01,\n"
    with pytest.raises(UsageError, match="a positive number"):
        load_catalog(offers(tmp_path, f"{HEADER}\n{row}"), TODAY)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("purchase_usd", "90.000"), ("power_watts", "4"), ("years", "48")),
        *(("electricity_usd_per_kwh", "30"), ("electricity_usd_per_kwh", "0.0003")),
    ],
)
def test_a_machine_that_costs_or_draws_next_to_nothing_is_a_slip(tmp_path: Path, column: str, value: str) -> None:
    assert load_catalog(rack(tmp_path), TODAY)
    with pytest.raises(UsageError, match=f"{column} cannot be meant"):
        load_catalog(rack(tmp_path, **{column: value}), date(2026, 11, 20))


@pytest.mark.parametrize("spent", [{"purchase_usd": "0"}, {"electricity_usd_per_kwh": "0"}])
def test_a_machine_of_one_watt_is_a_slip_whether_it_was_paid_for_or_not(tmp_path: Path, spent: dict[str, str]) -> None:
    assert load_catalog(rack(tmp_path, **spent), TODAY)
    with pytest.raises(UsageError, match=r"power_watts cannot be meant; found '1'; expected .*over 20 a GPU"):
        load_catalog(rack(tmp_path, **spent, power_watts="1"), date(2026, 11, 20))


def doubts(folder: Path, cloud: str, instance: str) -> set[str]:
    """Why offers of a type are in doubt."""
    return {o.doubt for o in load_catalog(folder, TODAY).offers if (o.cloud, o.instance) == (cloud, instance)}


def test_a_machine_that_is_paid_off_is_taken_and_one_that_costs_next_to_nothing_is_told(tmp_path: Path) -> None:
    paid_off, free = rack(tmp_path / "a", purchase_usd="0"), {"purchase_usd": "0", "electricity_usd_per_kwh": "0"}
    assert doubts(paid_off, "own", "rack") == {""}
    [why] = doubts(rack(tmp_path / "b", **free, other_usd_per_year="1"), "own", "rack")
    assert why.endswith("x what clouds ask per GPU on demand")


@pytest.mark.parametrize("share", ["0.999", "0.95"])
def test_a_discount_of_nearly_all_is_a_slip(tmp_path: Path, share: str) -> None:
    text = f"{','.join(CONTRACT_COLUMNS)}\naws,all,p5.48xlarge,on_demand,{share},,2026-10-01\n"
    (tmp_path / "contracts.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"line 2: discount_ratio cannot be meant; found '{share}'.*0\.1 is 10 % off"):
        load_catalog(tmp_path, TODAY)


def test_a_discount_of_more_than_two_thirds_is_taken_and_told(tmp_path: Path) -> None:
    text = f"{','.join(CONTRACT_COLUMNS)}\naws,all,p5.48xlarge,on_demand,0.7,,2026-10-01\n"
    (tmp_path / "contracts.csv").write_text(text, encoding="utf-8")
    of_p5 = {why.partition(";")[0] for why in doubts(tmp_path, "aws", "p5.48xlarge")}
    assert of_p5 == {"contracts.csv line 2 takes 70 % off the list price", ""}
    assert doubts(tmp_path, "aws", "p5en.48xlarge") == {""}


def redefined(folder: Path, instance: str, old: str, new: str) -> Path:
    """The shipped row of a machine type of AWS, with one thing other."""
    header, *rows = (SHIPPED / "instances" / "aws.csv").read_text(encoding="utf-8").splitlines()
    [row] = [row for row in rows if row.startswith(f"aws,{instance},")]
    assert old in row
    (folder / "instances").mkdir()
    (folder / "instances" / "own.csv").write_text(f"{header}\n{row.replace(old, new)}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("instance", "old", "new", "says"),
    [
        ("p5.48xlarge", "H100-SXM,8,", "H100-SXM,80,", "80x H100-SXM, nvswitch at 450 GB/s, the shipped tables 8x"),
        (
            "p5.48xlarge",
            "nvswitch,450.0,",
            "nvswitch,4500,",
            "8x H100-SXM, nvswitch at 4500 GB/s, the shipped tables 8x",
        ),
        ("g4dn.xlarge", ",T4,", ",B200,", "1x B200, the shipped tables 1x T4"),
        ("p5.48xlarge", ",3200.0,", ",320000,", "320,000 Gbit/s of network, the shipped tables 3,200"),
        ("p5.48xlarge", ",192,", ",19200,", "19,200 vCPUs, the shipped tables 192"),
        ("p5.48xlarge", ",2048.0,", ",20480,", "20,480 GiB of host memory, the shipped tables 2,048"),
    ],
)
def test_a_shipped_machine_with_other_gpus_or_links_is_told(
    tmp_path: Path, instance: str, old: str, new: str, says: str
) -> None:
    found = doubts(redefined(tmp_path, instance, old, new), "aws", instance)
    assert found
    assert all(why.startswith(f"own.csv line 2 says {says}") for why in found)


def test_a_shipped_machine_with_other_words_about_it_is_none(tmp_path: Path) -> None:
    assert doubts(redefined(tmp_path, "p5.48xlarge", ",192,", ",190,"), "aws", "p5.48xlarge") == {""}


@pytest.mark.parametrize(
    ("memory_mib", "says"),
    [(815590, {"own.toml [H100-SXM] says 796 GiB of memory, the shipped tables 79.6"}), (80000, {""})],
)
def test_a_shipped_gpu_of_other_figures_is_told_beyond_a_correction(
    tmp_path: Path, memory_mib: int, says: set[str]
) -> None:
    table = toml_of(SHIPPED / "accelerators" / "nvidia.toml")["H100-SXM"]
    table["memory_mib_reported"] = memory_mib
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "own.toml").write_text("[H100-SXM]\n" + "\n".join(lines), encoding="utf-8")
    assert doubts(tmp_path, "aws", "p5.48xlarge") == says


def test_a_rate_that_makes_a_price_a_tenth_is_told(tmp_path: Path) -> None:
    rates = f"{','.join(RATE_COLUMNS)}\nCNY,0.014,,2026-10-01\n"
    (tmp_path / "exchange_rates.csv").write_text(rates, encoding="utf-8")
    abroad = [o for o in load_catalog(tmp_path, TODAY).offers if o.currency == "CNY" and o.instance == "g4dn.xlarge"]
    assert abroad
    assert all("what other clouds ask per GPU" in offer.doubt for offer in abroad)


@pytest.mark.parametrize(
    ("header", "hint"),
    [(HEADER.replace(",", ";"), "semicolons"), (HEADER.replace("usd_per_hour", "eur_per_hour"), "foreign_offers/")],
)
def test_a_header_of_another_country_is_named(tmp_path: Path, header: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        load_catalog(offers(tmp_path, f"{header}\n"), TODAY)


def test_a_machine_may_be_written_as_answers_write_it() -> None:
    assert resolve_instance(load_catalog(), "aws p5.48xlarge").name == "p5.48xlarge"


@pytest.mark.parametrize("typed", ["15%", "+15", "15"])
def test_a_change_without_its_sign_or_percent_shows_both_ways(typed: str) -> None:
    with pytest.raises(UsageError, match=r"'\+15%' for dearer, '-15%' for cheaper"):
        parse_change(typed)
