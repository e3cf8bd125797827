"""Every price that is printed says of which day it is; a copy without a day says so and gets no invented one."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api.installation import diagnose
from gpufleet.catalog.current_date import DATE_VARIABLE
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.price_age import refuse_old_prices
from gpufleet.cli import main
from gpufleet.errors import DataMissing

TODAY = date(2026, 11, 21)
UNDATED_PRICES = {"nebius-price-list", "oci-price-list", "skypilot-aws-zones"}
REPLACED = {f"{cloud}-price-list" for cloud in ("lambda", "runpod", "verda")}
UNDATED_PATHS, UNDATED_TOKENS = {"six-region-links"}, {"litellm-model-prices"}
NEBIUS = ("--clouds", "nebius", "--gpus", "L40S")
INVENTED = "2026-01-01"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return " ".join(capsys.readouterr().out.split())


def serve(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    return printed(capsys, "plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200", *words)


def test_the_spot_price_beside_an_on_demand_answer_has_its_own_day(capsys: pytest.CaptureFixture[str]) -> None:
    page = serve(capsys, "--clouds", "aws", "--show", "all")
    spot = page.partition("On spot ")[2].partition("Latency")[0]
    assert "price of 2025-06-28" in spot
    sources = page.partition("Prices, never live: ")[2]
    assert "aws-spot-advisor 2025-06-28" in sources
    assert "Oldest: 2025-06-28" in sources


def test_who_wins_beyond_a_flip_has_its_source_named(capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(serve(capsys, "--clouds", "azure,gcp", "--rows", "1", "-o", "json"))
    winners = {flip["winner"]["cloud"] for flip in plan["flips"] if flip["winner"]}
    assert winners <= {source["id"].partition("-")[0] for source in plan["price_sources"]}


def test_the_share_reclaimed_within_a_month_is_not_called_a_share_of_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen, whole = serve(capsys, "--clouds", "aws"), serve(capsys, "--clouds", "aws", "--show", "all")
    assert "machines can be reclaimed; " in whole
    assert "of them are reclaimed within a month" in whole
    assert "reclaimed a month), " in screen
    assert "of the time" not in screen + whole.partition("On spot ")[2][:200]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200", *NEBIUS],
        ["catalog", "prices", "--cloud", "nebius"],
        ["catalog", "instances", "--cloud", "nebius"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.parametrize("columns", ["80", "300"])
def test_a_copy_without_a_day_says_when_it_was_first_seen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    page = printed(capsys, *words)
    assert "undated copy, first seen 2026-11-2" in page
    assert INVENTED not in page


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200", *NEBIUS],
        ["plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "1000", "--out", "200", "--deadline", "24h",
         *NEBIUS],
        ["catalog", "prices", "--cloud", "nebius"],
    ],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_a_csv_leaves_the_day_of_an_undated_copy_empty(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    text = printed(capsys, *words, "-o", "csv")
    assert "2026-11-21" in text
    assert INVENTED not in text


def test_undated_copies_are_known_by_their_sources() -> None:
    catalog = load_catalog()
    undated = {source.id for source in catalog.sources.values() if source.first_seen}
    assert undated == UNDATED_PRICES | REPLACED | UNDATED_PATHS | UNDATED_TOKENS
    assert {offer.source for offer in catalog.offers if offer.first_seen} == UNDATED_PRICES


def test_an_undated_copy_is_never_fresh_enough_and_has_no_age() -> None:
    offers = [offer for offer in load_catalog().offers if offer.source == "nebius-price-list"]
    with pytest.raises(DataMissing, match="found 'nebius undated copy, first seen 2026-11-21'"):
        refuse_old_prices(offers, 30 * 86400.0, TODAY)


def test_the_doctor_names_the_day_of_every_kind_of_price(tmp_path: Path) -> None:
    checks = {check.name: check for check in diagnose({"GPUFLEET_CONFIG": ""}, tmp_path, TODAY, 80, False).checks}
    found = checks["prices"].found
    assert "aws on demand 2025-12-19 and 2026-10-10" in found
    assert "verda spot 2026-08-22" in found
    assert INVENTED not in found


@pytest.mark.parametrize(("day", "age"), [("2025-06-29", "1 day old."), ("2028-02-29", "976 days old.")])
def test_ages_count_from_the_day_that_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, day: str, age: str
) -> None:
    monkeypatch.setenv(DATE_VARIABLE, day)
    page = serve(capsys, "--clouds", "aws")
    assert f"oldest: aws-spot-advisor, {age}" in page


def test_a_named_day_is_the_one_on_which_prices_may_be_too_old(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = ["--clouds", "azure", "--max-age", "30d"]
    monkeypatch.setenv(DATE_VARIABLE, "2026-07-01")
    serve(capsys, *fresh)
    monkeypatch.setenv(DATE_VARIABLE, "2027-07-01")
    assert main(["plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200", *fresh]) == 5


def test_a_day_that_is_none_is_one_message(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATE_VARIABLE, "2026-02-29")
    assert main(["catalog", "gpus"]) == 2
    assert capsys.readouterr().err == (
        "gpufleet: error: GPUFLEET_DATE names no day; found '2026-02-29'; expected a day such as 2026-11-22.\n"
    )
