"""A wrong price in a feed never wins silently: whichever row it is in, and by whichever factor it is wrong.

`PLANTED=500` plants so many pages instead of twelve.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.price_server import (
    CATALOG,
    PriceServer,
    aws_pages,
    aws_row,
    aws_spot_page,
    azure_item,
    azure_pages,
    every_feed,
    gcp_of_shipped,
    lambda_page,
    price_usd,
    runpod_gpu,
    runpod_page,
    serving,
    shipped,
    verda_pages,
    verda_type,
)
from tests.catalog.test_update import NOW, Updater, no_network  # noqa: F401

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.price_doubts import Accepted, Known, doubt_about, weighed
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceKind

FIXED_FACTORS = (1 / 1000, 1 / 100, 1 / 8, 8.0, 100.0, 1000.0)
# A GPU is a part of what a machine of GCP costs: wrong alone, it moves small machines no further than prices move.
PART_OF_MACHINE = (0.55, 1.82)
Key = tuple[str, str, str, PriceKind]


def factors_of(offer: Offer, catalog: Catalog = CATALOG) -> list[float]:
    gpus = catalog.instance_of(offer).gpu_count
    return [*FIXED_FACTORS, *([1 / gpus, 1 / 2, 2.0] if gpus > 1 else [])]


def at(offer: Offer, factor: float) -> Offer:
    return replace(offer, price_per_instance_usd_per_hour=factor * price_usd(offer))


def without(offers: Iterable[Offer], some: Iterable[Offer]) -> list[Offer]:
    left_out = set(some)
    return [offer for offer in offers if offer not in left_out]


def rows_of(cloud: str, kind: PriceKind) -> list[Offer]:
    return [o for o in shipped(cloud, kind) if CATALOG.instance_of(o).gpu_count >= 1]


@pytest.mark.parametrize(
    ("cloud", "kind"), sorted({(o.cloud, o.price_kind.value) for o in CATALOG.offers if o.cloud != "nebius"})
)
def test_no_row_of_any_cloud_moves_by_a_slip_unseen(cloud: str, kind: str) -> None:
    before = shipped(cloud, PriceKind(kind))
    known = Known.of(CATALOG, before, before, [])
    unseen = [
        (offer.region, offer.instance, factor)
        for offer in before
        for factor in factors_of(offer)
        if not doubt_about(at(offer, factor), offer, known)
        and not (kind == "spot" and factor in (1 / 2, 2.0) and CATALOG.instance_of(offer).gpu_count != 2)
    ]
    assert unseen == []


def test_the_largest_cut_of_a_list_price_that_was_seen_is_taken() -> None:
    before = [at(o, 98.32 / 55.04) if o.instance == "p5.48xlarge" else o for o in shipped("aws")]
    tables = replace(CATALOG, offers=(*without(CATALOG.offers, shipped("aws")), *before))
    found = weighed(tables, before, shipped("aws"), Accepted())
    assert not found.waiting
    assert found.taken == shipped("aws")


# --- through the pages of a feed -------------------------------------------------------------------------------------

Change = Callable[[Offer], float]


def aws_list(change: Change) -> dict[str, str]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for offer in shipped("aws"):
        rows.setdefault(offer.region, []).append(aws_row(offer.instance, change(offer)))
    return aws_pages(rows)


def aws_spot(change: Change) -> dict[str, str]:
    sizes: dict[str, dict[str, str]] = {}
    for offer in shipped("aws", PriceKind.SPOT):
        sizes.setdefault(offer.region, {})[offer.instance] = f"{change(offer):.8f}"
    return aws_spot_page(sizes)


def gcp(factor: float, gpu: str) -> dict[str, str]:
    """The price of one GPU wrong, in every machine that holds it."""
    pages = {}
    for path, text in gcp_of_shipped().items():
        page = json.loads(text)
        for sku in (sku for sku in page["skus"] if sku["description"].startswith(f"Nvidia {gpu} GPU running")):
            price = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]
            nanos = round((int(price["units"]) * 10**9 + price["nanos"]) * factor)
            price |= {"units": str(nanos // 10**9), "nanos": nanos % 10**9}
        pages[path] = json.dumps(page)
    return pages


def pages_with(wrong: Offer, factor: float) -> dict[str, str]:
    """The pages of the cloud, with one price wrong."""

    def change(offer: Offer) -> float:
        return price_usd(offer) * (factor if offer is wrong else 1.0)

    def verda(offer: Offer) -> dict[str, Any]:
        spot = 0.45 * min(change(offer), price_usd(offer))
        return verda_type(offer.instance, f"{change(offer)}", f"{spot:.4f}")

    by_cloud: dict[str, Callable[[], dict[str, str]]] = {
        "aws": lambda: {**aws_list(change), **aws_spot(change)},
        "azure": lambda: azure_pages([azure_item(o, retailPrice=change(o)) for o in shipped("azure")]),
        "lambda": lambda: lambda_page({o.instance: max(1, round(100 * change(o))) for o in shipped("lambda")}),
        "verda": lambda: verda_pages([verda(o) for o in shipped("verda")]),
        "runpod": lambda: runpod_page(
            [
                runpod_gpu(CATALOG.instance_of(o).accelerator, change(o))
                for o in shipped("runpod")
                if CATALOG.instance_of(o).gpu_count == 1
            ]
        ),
        "gcp": lambda: gcp(factor, random.Random(wrong.instance).choice(["L4", "Tesla A100", "H100 80GB"])),
    }
    return by_cloud[wrong.cloud]()


def prices(catalog: Catalog) -> dict[Key, Offer]:
    return {(o.cloud, o.region, o.instance, o.price_kind): o for o in catalog.offers}


SHIPPED = prices(CATALOG)


def planted(number: int) -> tuple[Offer, float, bool]:
    """A row, a factor, and whether the feed was asked before."""
    dice = random.Random(number)
    clouds = ("aws", "aws", "azure", "gcp", "lambda", "runpod", "verda")
    cloud = clouds[number % len(clouds)]
    kind = PriceKind.SPOT if number % len(clouds) == 1 else PriceKind.ON_DEMAND
    offer = dice.choice(rows_of(cloud, kind))
    return (
        offer,
        dice.choice(FIXED_FACTORS if cloud in ("gcp", "runpod") else factors_of(offer)[:7]),
        dice.random() < 0.5,
    )


@pytest.mark.parametrize("number", range(int(os.environ.get("PLANTED", "12"))))
def test_a_planted_price_waits_is_left_out_or_is_told(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path))
    updater, (wrong, factor, is_known) = Updater(tmp_path), planted(number)
    with serving(PriceServer(every_feed())) as server:
        updater.run(server, wrong.cloud, accept_losses=True)
        sound = prices(load_catalog())
        if not is_known:
            shutil.rmtree(tmp_path)
        server.pages |= pages_with(wrong, factor)
        found = updater.run(server, wrong.cloud, now=NOW + timedelta(days=1), accept_losses=True)
    assert any(feed.waiting or feed.refused_rows for feed in found.values()), (wrong.instance, factor)
    for key, offer in prices(load_catalog()).items():
        listed = [price_usd(o) for o in (sound.get(key), SHIPPED.get(key)) if o is not None]
        low, high = PART_OF_MACHINE if wrong.cloud == "gcp" else (0.9, 1.1)
        assert offer.doubt or any(low < price_usd(offer) / usd < high for usd in listed), (key, factor)


@pytest.mark.parametrize("factor", [1 / 1000, 1 / 8])
def test_what_is_accepted_is_told_for_as_long_as_it_stays_and_goes_when_the_feed_is_right_again(factor: float) -> None:
    before = [o for o in shipped("aws") if o.region.startswith("us-")]
    listed = [at(o, factor) if o.instance == "p5.48xlarge" else o for o in before]
    first = weighed(CATALOG, before, listed, Accepted(frozenset({("aws", "p5.48xlarge")})))
    assert not first.waiting
    p5 = next(o for o in first.taken if o.instance == "p5.48xlarge" and o.region == "us-east-1")
    assert p5.doubt.startswith(f"${p5.price_per_instance_usd_per_hour:.4g} is ")
    assert p5.doubt.endswith(f"accepted on {p5.as_of}")
    then = replace(CATALOG, offers=(*(o for o in CATALOG.offers if o not in before), *first.taken))
    again = weighed(then, first.taken, [replace(o, doubt="") for o in first.taken], Accepted())
    assert not again.waiting
    assert [o.doubt for o in again.taken] == [o.doubt for o in first.taken]
    right = weighed(then, first.taken, before, Accepted())
    assert not right.waiting
    assert not any(o.doubt for o in right.taken)


def test_a_price_does_not_creep_away_from_other_clouds_in_steps_that_are_each_usual() -> None:
    before, tables, steps = shipped("aws"), CATALOG, 0
    found = weighed(tables, before, before, Accepted())
    while not found.waiting and steps < 10:
        listed = [at(o, 0.6) if o.instance == "p5.48xlarge" else o for o in before]
        found, steps = weighed(tables, before, listed, Accepted()), steps + 1
        tables = replace(tables, offers=(*without(tables.offers, before), *found.taken))
        before = found.taken
    assert steps < 5
    assert {price.offer.instance for price in found.waiting} == {"p5.48xlarge"}
    assert "other clouds ask per GPU" in found.waiting[0].why


@pytest.mark.parametrize(
    ("kind", "share", "why"),
    [
        ("on_demand", 1 / 8, "its other regions ask; times 8 GPUs that is"),
        ("spot", 1 / 12, "its on-demand price"),
        ("commit_1y", 1 / 8, "its on-demand price"),
        ("commit_3y", 0.4, ""),
        ("spot", 0.3, ""),
    ],
)
def test_a_new_price_is_held_to_other_regions_or_to_the_on_demand_price_beside_it(
    kind: str, share: float, why: str
) -> None:
    before = shipped("aws")
    [p5] = [o for o in before if (o.region, o.instance) == ("us-east-1", "p5.48xlarge")]
    new = replace(at(p5, share), price_kind=PriceKind(kind), region="eu-west-1")
    tables = replace(CATALOG, offers=tuple(o for o in CATALOG.offers if o.price_kind is PriceKind.ON_DEMAND))
    found = weighed(tables, before, [*before, new], Accepted())
    assert [why in price.why for price in found.waiting] == ([True] if why else [])
    assert (new in found.taken) is (not why)


def test_a_price_that_nothing_can_be_held_to_waits() -> None:
    alone = [o for o in CATALOG.offers if o.instance == "p5.48xlarge"][:1]
    tables = replace(CATALOG, offers=())
    found = weighed(tables, [], alone, Accepted())
    assert [price.why for price in found.waiting] == ["there is no price here to hold it to"]
    assert not found.taken


@pytest.mark.parametrize(("share", "waits"), [(0.2, True), (0.3, False)])
def test_a_new_spot_price_that_may_be_of_one_gpu_waits_where_other_clouds_ask_much_more(
    share: float, waits: bool
) -> None:
    [listed] = [o for o in shipped("verda") if o.instance == "4A100.88V"]
    spot = replace(at(listed, share), price_kind=PriceKind.SPOT)
    found = weighed(CATALOG, shipped("verda"), [*shipped("verda"), spot], Accepted())
    assert [price.offer for price in found.waiting] == ([spot] if waits else [])


def test_a_new_type_is_held_to_the_regions_that_came_with_it() -> None:
    new = [o for o in shipped("azure") if o.instance == "Standard_ND96isr_H100_v5"]
    before = [o for o in shipped("azure") if o not in new]
    tables = replace(CATALOG, offers=tuple(o for o in CATALOG.offers if o not in new))
    wrong = at(new[0], 1 / 4)
    found = weighed(tables, before, [*before, wrong, *new[1:]], Accepted())
    [why] = [price.why for price in found.waiting if price.offer is wrong]
    assert why.endswith("what the other regions ask that came with it")
