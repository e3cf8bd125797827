"""Prices of a user's own that hold up to a day: used up to it, never after it, and named once they have ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from gpufleet.api.batches import BatchRequest, plan_batch
from gpufleet.api.encoder_batches import EncoderBatchRequest, plan_encoder_batch
from gpufleet.api.encoder_services import EncoderServeRequest, plan_encoder_serve
from gpufleet.api.plans import plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.missing_prices import ended_notes
from gpufleet.catalog.own_terms import CONTRACT_COLUMNS, FOREIGN_COLUMNS, RATE_COLUMNS
from gpufleet.catalog.query import OfferFilter
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing, UsageError
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.plan import plan_page
from gpufleet.report.text import page_as_text

TODAY = date(2026, 11, 21)
COLUMNS = (*OFFER_COLUMNS, "until")
COMMITTED = "aws,us-east-1,g6e.xlarge,commit_3y,0,0.9,observed,your-tables,2025-12-10,,{until}\n"
AGREED = "aws,us-east-1,g6e.xlarge,on_demand,0,1.5,observed,your-tables,2025-12-10,,{until}\n"
CONTRACT = "aws,all,all,on_demand,0.3,,2025-12-10,{until}\n"
ASKED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, clouds=["aws"], pricing=["on_demand", "commit_3y"], gpus=["L40S"])
JOB = BatchRequest("llama-3.1-8b", 1e6, 1000, 200, 86_400.0, clouds=["aws"], pricing=["on_demand"], gpus=["L40S"])


def table(directory: Path, name: str, columns: tuple[str, ...], *lines: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(",".join(columns) + "\n" + "".join(lines), encoding="utf-8")
    return directory


def own(directory: Path, row: str, until: date | str, as_of: date | None = None) -> Catalog:
    return load_catalog(table(directory, "offers/own.csv", COLUMNS, row.format(until=until)), TODAY, as_of)


def price_of(catalog: Catalog, kind: PriceKind) -> Offer | None:
    place = ("aws", "us-east-1", "g6e.xlarge", kind)
    return next((o for o in catalog.offers if (o.cloud, o.region, o.instance, o.price_kind) == place), None)


def test_a_price_holds_on_its_last_day_and_not_on_the_next(tmp_path: Path) -> None:
    last = price_of(own(tmp_path / "a", COMMITTED, TODAY), PriceKind.COMMIT_3Y)
    assert last is not None
    assert last.until == TODAY
    assert price_of(own(tmp_path / "b", COMMITTED, TODAY - timedelta(days=1)), PriceKind.COMMIT_3Y) is None


def test_without_a_day_a_price_holds_on(tmp_path: Path) -> None:
    found = price_of(own(tmp_path, COMMITTED, ""), PriceKind.COMMIT_3Y)
    assert found is not None
    assert found.until is None


def test_after_its_end_the_listed_price_counts_again(tmp_path: Path) -> None:
    listed = price_of(load_catalog(), PriceKind.ON_DEMAND)
    assert price_of(own(tmp_path, AGREED, "2026-10-31"), PriceKind.ON_DEMAND) == listed
    before = price_of(own(tmp_path, AGREED, "2026-10-31", as_of=date(2026, 10, 15)), PriceKind.ON_DEMAND)
    assert before is not None
    assert before.price_per_instance_usd_per_hour == 1.5


def test_a_discount_ends_with_its_contract(tmp_path: Path) -> None:
    columns = (*CONTRACT_COLUMNS, "until")
    listed = price_of(load_catalog(), PriceKind.ON_DEMAND)
    running = load_catalog(table(tmp_path / "a", "contracts.csv", columns, CONTRACT.format(until="2027-01-31")), TODAY)
    ended = load_catalog(table(tmp_path / "b", "contracts.csv", columns, CONTRACT.format(until="2026-10-31")), TODAY)
    agreed = price_of(running, PriceKind.ON_DEMAND)
    assert listed is not None
    assert agreed is not None
    assert agreed.until == date(2027, 1, 31)
    assert agreed.price_per_instance_usd_per_hour == pytest.approx(0.7 * listed.price_per_instance_usd_per_hour)
    assert price_of(ended, PriceKind.ON_DEMAND) == listed
    [note] = ended_notes(ended, OfferFilter(clouds=["aws"], regions=["us-west-2"]))
    assert note.endswith("aws all all on_demand held until 2026-10-31: the listed price counts")


def test_a_price_in_another_currency_ends_too(tmp_path: Path) -> None:
    """Neither is it ranked, nor listed as the price of a place without one."""
    row = "aws,us-east-1,g6e.xlarge,commit_3y,0,0.8,EUR,observed,,2025-12-10,,{until}\n"
    table(tmp_path, "exchange_rates.csv", RATE_COLUMNS, "EUR,1.08,,2025-12-10\n")
    for until, is_held in (("2026-11-21", True), ("2026-11-20", False)):
        folder = tmp_path / until
        table(folder, "foreign_offers/own.csv", (*FOREIGN_COLUMNS, "until"), row.format(until=until))
        table(folder, "exchange_rates.csv", RATE_COLUMNS, "EUR,1.08,,2025-12-10\n")
        catalog = load_catalog(folder, TODAY)
        assert (price_of(catalog, PriceKind.COMMIT_3Y) is not None) == is_held
        assert ("EUR" in {f.currency for f in catalog.foreign_offers}) == is_held


def test_a_renewal_is_a_row_of_a_later_day(tmp_path: Path) -> None:
    renewed = COMMITTED.replace("0.9", "0.8").replace("2025-12-10", "2026-11-01").format(until="2027-10-31")
    folder = table(tmp_path, "offers/own.csv", COLUMNS, COMMITTED.format(until="2026-10-31"), renewed)
    found = price_of(load_catalog(folder, TODAY), PriceKind.COMMIT_3Y)
    assert found is not None
    assert (found.price_per_instance_usd_per_hour, found.until) == (0.8, date(2027, 10, 31))
    assert load_catalog(folder, TODAY).ended == ()


def test_an_ended_price_never_wins_and_is_named(tmp_path: Path) -> None:
    plan = plan_serve(ASKED, own(tmp_path, COMMITTED, "2026-10-31"))
    assert {d.price_kind for d in plan.deployments} == {"on_demand"}
    [note] = [note for note in plan.notes if "has ended" in note]
    assert "aws us-east-1 g6e.xlarge commit_3y held until 2026-10-31: left out" in note
    elsewhere = plan_serve(replace(ASKED, clouds=["gcp"], gpus=["L4"]), own(tmp_path, COMMITTED, "2026-10-31"))
    assert not [note for note in elsewhere.notes if "has ended" in note]


def test_where_nothing_else_is_held_the_end_is_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="held until 2026-10-31: left out"):
        plan_serve(replace(ASKED, pricing=["commit_3y"]), own(tmp_path, COMMITTED, "2026-10-31"))


@pytest.mark.parametrize(("days", "is_warned"), [(0, True), (1, True), (30, True), (31, False), (300, False)])
def test_a_plan_says_when_its_price_ends_and_warns_within_the_month(days: int, is_warned: bool, tmp_path: Path) -> None:
    """730 hours, the month of a monthly cost, are 30.4 days."""
    until = TODAY + timedelta(days=days)
    plan = plan_serve(ASKED, own(tmp_path, COMMITTED, until))
    text = " ".join(page_as_text(plan_page(plan), 200).split())
    assert (plan.answer.price_kind, plan.answer.price_until) == ("commit_3y", until)
    assert f"This price holds until {until} (your-tables)." in text
    machines = f"{plan.answer.instance_count}x aws g6e.xlarge"
    assert (f"Warning: the price of {machines} ends on {until}" in text) == is_warned
    assert any(note.startswith("Warning: ") for note in plan.notes) == is_warned


def test_jobs_and_encoders_warn_alike(tmp_path: Path) -> None:
    catalog = own(tmp_path, AGREED.replace("1.5", "0.7"), TODAY + timedelta(days=3))
    market = {"clouds": ["aws"], "pricing": ["on_demand"], "gpus": ["L40S"]}
    service = EncoderServeRequest("bert-base-uncased", 300.0, input_tokens=128, **market)  # type: ignore[arg-type]
    job = EncoderBatchRequest("bert-base-uncased", 1e7, 86_400.0, input_tokens=128, **market)  # type: ignore[arg-type]
    plans = [plan_batch(JOB, catalog), plan_encoder_serve(service, catalog), plan_encoder_batch(job, catalog)]
    for plan in plans:
        assert plan.deployments[0].price_until == TODAY + timedelta(days=3)
        assert [note for note in plan.notes if note.startswith("Warning: ") and "3 days from 2026-11-21" in note]


@pytest.mark.parametrize(
    ("column", "until", "said"),
    [
        ("until", "soon", "cannot read until; found 'soon'; expected a date such as 2026-07-20"),
        ("until", "2025-12-09", "cannot read until; found '2025-12-09'; expected a day from as_of on, 2025-12-10"),
        ("until", "2026-02-30", "cannot read until"),
        ("valid_until", "2026-12-09", "no such column; found 'valid_until'; expected until"),
        ("expires", "2026-12-09", "no such column; found 'expires'; expected until"),
        ("end_date", "2026-12-09", "no such column; found 'end_date'; expected until"),
    ],
)
def test_an_end_that_cannot_be_read_is_refused(column: str, until: str, said: str, tmp_path: Path) -> None:
    """A column of another name would be an end that nobody hears of."""
    folder = table(tmp_path, "offers/own.csv", (*OFFER_COLUMNS, column), COMMITTED.format(until=until))
    with pytest.raises(UsageError) as refusal:
        load_catalog(folder, TODAY)
    assert said in str(refusal.value)
    assert "line 2" in str(refusal.value)
