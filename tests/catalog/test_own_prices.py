"""Slips in a user's tables that would win every ranking: a price of one GPU, a misspelt region, terms of next year."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_prices import is_exactly_one_gpu, most_saved, unlikely_price
from gpufleet.catalog.own_terms import CONTRACT_COLUMNS, FOREIGN_COLUMNS, RATE_COLUMNS
from gpufleet.catalog.schema import AVAILABILITY_COLUMNS, OFFER_COLUMNS, REGION_COLUMNS
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.errors import UsageError

TODAY = date(2026, 11, 21)
P5_ON_DEMAND = 55.04


def row(place: str, kind: str, price: object, upfront: object = 0) -> str:
    return f"{place},{kind},{upfront},{price},observed,aws-price-list,2026-10-01,\n"


def write(folder: Path, name: str, columns: tuple[str, ...], *rows: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(",".join(columns) + "\n" + "".join(rows), encoding="utf-8")
    return folder


def own_offers(folder: Path, *rows: str) -> list[Offer]:
    own = write(folder, "offers/own.csv", OFFER_COLUMNS, *rows)
    return [offer for offer in load_catalog(own, TODAY).offers if offer.as_of == date(2026, 10, 1)]


def test_the_list_price_that_these_slips_are_held_to_is_the_shipped_one() -> None:
    prices = {
        offer.price_per_instance_usd_per_hour
        for offer in load_catalog().offers
        if (offer.region, offer.instance, offer.price_kind) == ("us-east-1", "p5.48xlarge", PriceKind.ON_DEMAND)
    }
    assert prices == {P5_ON_DEMAND}


@pytest.mark.parametrize(
    ("kind", "price"),
    [
        *(("commit_1y", 4.3), ("spot", 3.3), ("on_demand", 6.88), ("commit_3y", 2.9)),
        *(("commit_1y", 6.88), ("commit_3y", 6.88), ("spot", 6.88), ("savings_plan", 5.9), ("commit_1y", 7.5)),
    ],
)
def test_the_price_of_one_gpu_is_no_price_of_a_machine_of_eight(tmp_path: Path, kind: str, price: float) -> None:
    with pytest.raises(UsageError, match=rf"own\.csv line 2: .*times 8 GPUs it is {8 * price:.4g}: is it the price of"):
        own_offers(tmp_path, row("aws,us-east-1,p5.48xlarge", kind, price))


def test_it_is_none_either_where_the_cloud_lists_no_price_of_the_type(tmp_path: Path) -> None:
    lists = (PriceKind.ON_DEMAND, PriceKind.COMMIT_1Y)
    assert not any(o.instance == "p5e.48xlarge" and o.price_kind in lists for o in load_catalog().offers)
    with pytest.raises(UsageError, match="price of one GPU"):
        own_offers(tmp_path, row("aws,us-east-1,p5e.48xlarge", "commit_1y", 2.5))


def test_it_is_none_in_another_currency_either(tmp_path: Path) -> None:
    write(tmp_path, "exchange_rates.csv", RATE_COLUMNS, "EUR,1.08,,2026-10-01\n")
    cells = "aws,eu-north-1,p5.48xlarge,commit_1y,0,6.37,EUR,observed,,2026-10-01,\n"
    own = write(tmp_path, "foreign_offers/eur.csv", FOREIGN_COLUMNS, cells)
    with pytest.raises(UsageError, match=r"eur\.csv line 2: .*is it the price of one GPU"):
        load_catalog(own, TODAY)


@pytest.mark.parametrize("cents", [51, 99, 250, 688, 1229])
def test_the_price_of_one_gpu_is_known_by_its_cents_and_a_negotiated_one_is_none(cents: int) -> None:
    """Above half a dollar a price that was rounded to the cent lies within 1 % of what it was."""
    for unrounded in (cents - 0.499, cents, cents + 0.499):
        assert is_exactly_one_gpu(cents / 100, 8 * unrounded / 100, 8)
    assert not is_exactly_one_gpu(0.985 * cents / 100, 8 * cents / 100, 8)
    assert not is_exactly_one_gpu(1.015 * cents / 100, 8 * cents / 100, 8)


@pytest.mark.parametrize("gpus", [2, 3, 4, 8, 16])
def test_a_commitment_that_costs_what_one_gpu_costs_is_a_slip_where_one_is_under_a_third(gpus: int) -> None:
    """Two thirds off is what a commitment may save; the share of one of two or three GPUs is no less than that."""
    list_usd = 7.0 * gpus
    bound = Offer("aws", "here", "a-machine", PriceKind.COMMIT_3Y, 6.5, PriceBasis.LIST, "aws-price-list", TODAY)
    slips = list(unlikely_price(bound, list_usd, gpus, most_saved(PriceKind.COMMIT_3Y, gpus)))
    assert bool(slips) is (gpus > 3)


@pytest.mark.parametrize(
    ("kind", "price", "upfront"),
    [
        ("commit_1y", 34.4, 0),
        ("spot", 26.4, 0),
        ("commit_3y", 24.0, 0),
        ("commit_1y", 0.01, 200_000),
        ("commit_3y", 70, 0),
    ],
)
def test_what_a_saving_explains_is_taken_and_a_commitment_may_outlive_its_list_price(
    tmp_path: Path, kind: str, price: float, upfront: float
) -> None:
    [offer] = own_offers(tmp_path, row("aws,us-east-1,p5.48xlarge", kind, price, upfront))
    assert offer.price_kind.value == kind


def test_a_misspelt_region_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"own\.csv line 2: .*aws has no region 'us-esat-1'.*us-east-1.*regions\.csv: aws,us-esat-1"
    ):
        own_offers(tmp_path, row("aws,us-esat-1,p5.48xlarge", "on_demand", 40))
    rows = "aws,us-esat-1,p5.48xlarge,,aws-price-list,2026-10-01\n"
    with pytest.raises(UsageError, match="aws has no region 'us-esat-1'"):
        load_catalog(write(tmp_path / "sold", "availability/a.csv", AVAILABILITY_COLUMNS, rows), TODAY)


def test_a_new_region_is_declared_with_its_country(tmp_path: Path) -> None:
    write(tmp_path, "regions.csv", REGION_COLUMNS, "aws,eu-polar-1,NO,Tromso,\n")
    [offer] = own_offers(tmp_path, row("aws,eu-polar-1,p5.48xlarge", "on_demand", 60))
    assert load_catalog(tmp_path, TODAY).located_regions["aws", offer.region].country == "NO"


def test_a_declared_region_lies_in_a_country_that_exists(tmp_path: Path) -> None:
    write(tmp_path, "regions.csv", REGION_COLUMNS, "aws,eu-polar-1,XX,,\n")
    with pytest.raises(UsageError, match=r"regions\.csv line 2: .*no country 'XX'"):
        load_catalog(tmp_path, TODAY)


def test_a_cloud_of_ones_own_may_have_any_region(tmp_path: Path) -> None:
    box = "home,box,L40S,1,16,64,none,,single GPU,,10,,current,aws-price-list,\n"
    columns = load_columns("instances/aws.csv")
    write(tmp_path, "instances/home.csv", columns, box)
    [offer] = own_offers(tmp_path, row("home,cellar,box", "owned", 0.5))
    assert offer.region == "cellar"


def test_a_machine_whose_gpu_no_one_lists_has_no_price_to_be_held_to(tmp_path: Path) -> None:
    held, shipped = load_catalog().instances["aws", "trn2.48xlarge"].accelerator, load_catalog()
    assert not any(shipped.instance_of(offer).accelerator == held for offer in shipped.offers)
    [offer] = own_offers(tmp_path, row("aws,us-east-1,trn2.48xlarge", "spot", 20.0))
    assert offer.price_per_instance_usd_per_hour == 20.0


def load_columns(name: str) -> tuple[str, ...]:
    import gpufleet

    shipped = Path(gpufleet.__file__).parent / "data" / name
    return tuple(shipped.read_text(encoding="utf-8").splitlines()[0].split(","))


def test_prices_of_a_day_to_come_are_not_known() -> None:
    with pytest.raises(UsageError, match="future are not known; found '2027-01-01'"):
        load_catalog(today=TODAY, as_of=date(2027, 1, 1))
    assert load_catalog(today=TODAY, as_of=TODAY).offers


@pytest.mark.parametrize(
    ("name", "columns", "text"),
    [
        ("contracts.csv", CONTRACT_COLUMNS, "aws,all,p5.48xlarge,on_demand,0.3,,{day}\n"),
        ("exchange_rates.csv", RATE_COLUMNS, "CNY,0.14,,{day}\n"),
    ],
)
def test_terms_hold_from_the_day_on_which_they_begin(
    tmp_path: Path, name: str, columns: tuple[str, ...], text: str
) -> None:
    agreed = write(tmp_path / "agreed", name, columns, text.format(day="2026-10-01"))
    now, before = load_catalog(agreed, TODAY), load_catalog(agreed, TODAY, as_of=date(2026, 9, 1))
    shipped, shipped_before = load_catalog(today=TODAY), load_catalog(today=TODAY, as_of=date(2026, 9, 1))
    assert set(now.offers) - set(shipped.offers)
    assert set(before.offers) <= set(shipped_before.offers)
    later = write(tmp_path / "later", name, columns, text.format(day="2027-01-01"))
    with pytest.raises(UsageError, match=rf"{name} line 2: .*begins in the future; found '2027-01-01'"):
        load_catalog(later, TODAY)


def test_a_region_of_thousands_of_characters_is_not_repeated_whole(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        own_offers(tmp_path, row(f"aws,{'x' * 5000},p5.48xlarge", "on_demand", 40))
    assert len(str(refusal.value)) < 2000
