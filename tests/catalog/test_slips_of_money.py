"""Slips in a user's tables of money: each is named for what it is."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_instance
from gpufleet.catalog.schema import OFFER_COLUMNS
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
    ("column", "value"), [("purchase_usd", "90.000"), ("power_watts", "4"), ("electricity_usd_per_kwh", "30")]
)
def test_a_machine_that_costs_or_draws_next_to_nothing_is_a_slip(tmp_path: Path, column: str, value: str) -> None:
    assert load_catalog(rack(tmp_path), TODAY)
    with pytest.raises(UsageError, match=f"{column} cannot be meant"):
        load_catalog(rack(tmp_path, **{column: value}), date(2026, 11, 20))


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
    with pytest.raises(UsageError, match=r"'\+15%' is dearer, '-15%' cheaper"):
        parse_change(typed)
