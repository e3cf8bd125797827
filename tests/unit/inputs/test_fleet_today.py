"""The fleet that runs today, as it is typed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.currency import Currency
from gpufleet.errors import UsageError
from gpufleet.inputs.fleet_today import StatedPrice, fleet_in_dollars, parse_fleet


def test_a_fleet_of_one_type_is_a_number_and_a_name() -> None:
    [machines] = parse_fleet("3 aws:p5.48xlarge").machines
    assert (machines.count, machines.name, machines.price) == (3, "aws:p5.48xlarge", None)


@pytest.mark.parametrize("text", ["2 H100:8@25/h", "2x H100:8 @ $25/h", "2 x H100:8@600/d", "2 H100:8@18,250/mo"])
def test_the_price_of_a_machine_may_be_of_any_time(text: str) -> None:
    [machines] = parse_fleet(text).machines
    assert (machines.count, machines.name) == (2, "H100:8")
    assert machines.price == StatedPrice(pytest.approx(25.0))


def test_a_price_may_say_what_it_is_of() -> None:
    of_gpu, of_machine = parse_fleet("H100:8@3/gpu/h, H200:8@24/machine/h").machines
    assert of_gpu.price == StatedPrice(3.0, is_of_gpu=True, is_sure=True)
    assert of_machine.price == StatedPrice(24.0, is_of_gpu=False, is_sure=True)


@pytest.mark.parametrize("joint", [",", ", ", "+", " + "])
def test_types_are_joined_by_commas_or_pluses(joint: str) -> None:
    fleet = parse_fleet(joint.join(["3 aws:p5.48xlarge", "2 gcp:n1-standard-8+T4", "52,000/mo"]))
    assert [(m.count, m.name) for m in fleet.machines] == [(3, "aws:p5.48xlarge"), (2, "gcp:n1-standard-8+T4")]
    assert fleet.bill_usd_per_hour == pytest.approx(52_000 / 730)


def test_a_comma_within_an_amount_joins_nothing() -> None:
    fleet = parse_fleet("5 H100:8@1,234.5/h,3 H200:8@1,000/h")
    assert [m.price.usd_per_hour for m in fleet.machines if m.price] == [1234.5, 1000.0]
    assert parse_fleet("5 H100:8,3 H200:8,100,000/mo").bill_usd_per_hour == pytest.approx(100_000 / 730)


REFUSED = {
    "": "cannot read",
    " , ": "cannot read",
    "H100:8,,L4:1": "cannot read",
    "0 H100:8": "out of range",
    "99999 H100:8": "out of range",
    "-3 H100:8": "cannot read",
    "3 H100:8@-5/h": "price",
    "3 H100:8@0/h": "price",
    "3 H100:8@nan/h": "price",
    "3 H100:8@1e999/h": "price",
    "3 H100:8@25": "price",
    "3 H100:8@": "price",
    "3 H100:8@5/fortnight": "price",
    "3 H100:8@5/rack/h": "price",
    "@5/h": "cannot read",
    "52000/mo": "no machines",
    "2 H100:8, 0/mo": "cannot read the bill",
    "2 H100:8, 5/fortnight": "cannot read the bill",
    "2 H100:8, 5000/mo, 400/d": "several bills",
    "2 H100:8@25/h, 52000/mo": "a bill and prices",
    "L4:1,L4:2,L4:4,L4:8,T4:1": "too many types",
    "9" * 500 + " H100:8": "cannot read",
}


@pytest.mark.parametrize("text", REFUSED, ids=[text[:30] for text in REFUSED])
def test_what_is_no_fleet_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(UsageError, match=REFUSED[text]):
        parse_fleet(text)


@given(st.text(alphabet="0123456789xX@/$.,+- :hHmoLa", max_size=60))
def test_any_text_is_a_fleet_or_one_clear_error(text: str) -> None:
    try:
        fleet = parse_fleet(text)
    except UsageError:
        return
    assert all(1 <= m.count <= 10_000 and m.name for m in fleet.machines)
    assert fleet.bill_usd_per_hour is None or fleet.bill_usd_per_hour > 0


EUROS = Currency("EUR", 0.5)


@pytest.mark.parametrize(
    ("typed", "in_dollars"),
    [
        ("3 aws:p5.48xlarge@50 EUR/h", "3 aws:p5.48xlarge@100/h"),
        ("3 aws:p5.48xlarge@€6.25/gpu/h + 2 H100:8@25/h", "3 aws:p5.48xlarge@12.5/gpu/h + 2 H100:8@25/h"),
        ("H100:8, 26,000 EUR/mo", "H100:8,52000/mo"),
        ("2 aws:p5.48xlarge@$98.32/h", "2 aws:p5.48xlarge@$98.32/h"),
    ],
)
def test_a_price_may_be_in_the_currency_of_the_answer(typed: str, in_dollars: str) -> None:
    assert parse_fleet(fleet_in_dollars(typed, EUROS)) == parse_fleet(in_dollars)


def test_a_price_in_a_currency_without_a_rate_is_refused() -> None:
    with pytest.raises(UsageError, match="no rate for EUR"):
        fleet_in_dollars("3 aws:p5.48xlarge@50 EUR/h", None)


@pytest.mark.parametrize(
    "text",
    [
        *("5 aws:p5.48xlarge, 388.000/mo", "5 aws:p5.48xlarge, $388.000/month", "5 aws:p5.48xlarge@70.000/mo"),
        *("aws:p5.48xlarge@1.500/d", "5 aws:p5.48xlarge, 388.000/h"),
    ],
)
def test_an_amount_that_is_a_thousandth_to_other_readers_is_refused_with_both_spellings(text: str) -> None:
    with pytest.raises(UsageError, match="read in two ways") as refusal:
        parse_fleet(text)
    assert re.search(r"'\d+000' or '\d+,000'|'1500' or '1,500'", str(refusal.value))


def test_a_thousandth_is_refused_in_another_currency_too_and_made_by_no_rate() -> None:
    with pytest.raises(UsageError, match="read in two ways"):
        fleet_in_dollars("5 H100:8, 388.000 EUR/mo", Currency("EUR", 0.92))
    assert parse_fleet(
        fleet_in_dollars("H100:8, 64.5 EUR/mo", Currency("EUR", 0.8))
    ).bill_usd_per_hour == pytest.approx(80.625 / 730)


@pytest.mark.parametrize(("typed", "usd"), [("@1.861/h", 1.861), ("@12.290/gpu/h", 12.29), ("@98.320/hour", 98.32)])
def test_prices_of_an_hour_have_three_decimals_as_clouds_list_them(typed: str, usd: float) -> None:
    [machines] = parse_fleet(f"5 aws:p5.48xlarge{typed}").machines
    assert machines.price is not None
    assert machines.price.usd_per_hour == usd
