"""`gpufleet catalog update` against a server on this machine: what arrives is checked before it replaces anything.

The feeds themselves cannot be reached from a test. Pages have the form that each of them documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.catalog.price_server import (
    CATALOG,
    L4_SKUS,
    Answer,
    PriceServer,
    ask_this_machine_alone,
    aws_list_of_shipped,
    aws_pages,
    aws_row,
    aws_spot_of_shipped,
    aws_spot_page,
    azure_item,
    azure_pages,
    azure_spot,
    azure_spot_of_shipped,
    every_feed,
    gcp_pages,
    gcp_sku,
    lambda_page,
    price_usd,
    reserved,
    runpod_gpu,
    runpod_page,
    serving,
    shipped,
    verda_pages,
    verda_type,
)

from gpufleet.catalog.load import load_catalog, load_shipped_and_refreshed
from gpufleet.catalog.price_doubts import Accepted
from gpufleet.catalog.providers.every import FEEDS
from gpufleet.catalog.snapshots import folders_of
from gpufleet.catalog.update import Refresh, update_catalog
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.results.catalog_update import CatalogUpdate, FeedUpdate

NOBODY = Accepted()
NOW = datetime(2026, 11, 21, 17, 0, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@dataclass
class Updater:
    """Runs updates into one folder and remembers how long it was told to wait."""

    root: Path
    waits_s: list[float] = field(default_factory=list)

    def run(
        self,
        server: PriceServer,
        *clouds: str,
        now: datetime = NOW,
        accept_losses: bool = False,
        accepted: Accepted = NOBODY,
    ) -> dict[str, FeedUpdate]:
        with httpx.Client(timeout=5) as client:
            refresh = Refresh(
                catalog=load_shipped_and_refreshed(),
                client=client,
                root=self.root,
                now=now,
                environment=server.environment(),
                sleep=self.waits_s.append,
                accept_losses=accept_losses,
                accepted=accepted,
            )
            feeds = [feed for feed in FEEDS if not clouds or feed.cloud in clouds]
            result: CatalogUpdate = update_catalog(feeds, refresh)
        return {feed.feed: feed for feed in result.feeds}

    def stored(self) -> dict[str, bytes]:
        """Every file of every whole snapshot."""
        files = [file for file in self.root.rglob("*") if file.is_file() and not any(p[0] == "." for p in parts(file))]
        return {str(file.relative_to(self.root)): file.read_bytes() for file in files}


def parts(path: Path) -> tuple[str, ...]:
    return tuple(part for part in path.parts if part != "/")


@pytest.fixture
def updater(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Updater:
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path))
    return Updater(tmp_path)


@contextmanager
def served(pages: dict[str, str]) -> Iterator[PriceServer]:
    with serving(PriceServer(pages)) as server:
        yield server


def azure_as_shipped(change: Callable[[Offer], float] = lambda o: o.price_per_instance_usd_per_hour) -> dict[str, str]:
    return azure_pages([*(azure_item(o, retailPrice=change(o)) for o in shipped("azure")), *azure_spot_of_shipped()])


def price_of(cloud: str, region: str, instance: str, kind: PriceKind = PriceKind.ON_DEMAND) -> Offer:
    key = (cloud, region, instance, kind)
    [found] = [o for o in load_catalog().offers if (o.cloud, o.region, o.instance, o.price_kind) == key]
    return found


# --- what a sound feed brings ----------------------------------------------------------------------------------------


def test_every_feed_in_its_documented_form_becomes_a_snapshot(updater: Updater) -> None:
    with served(every_feed()) as server:
        found = updater.run(server)
    assert {feed.status for feed in found.values()} == {"updated"}
    assert len(found) == len(FEEDS) == 7
    assert all(feed.num_prices > 0 for feed in found.values())


def test_prices_of_today_replace_the_shipped_ones_and_carry_their_source_and_day(updater: Updater) -> None:
    with served(azure_as_shipped(lambda o: o.price_per_instance_usd_per_hour * 1.1)) as server:
        updater.run(server, "azure")
    offer = price_of("azure", "eastus", "Standard_ND96amsr_A100_v4")
    assert offer.price_per_instance_usd_per_hour == pytest.approx(32.77 * 1.1)
    assert (offer.source, offer.as_of) == ("azure-retail-prices", date(2026, 11, 21))
    assert load_catalog().sources["azure-retail-prices"].title == "Azure Retail Prices API"


def test_the_difference_is_shown_dearer_cheaper_vanished_and_new(updater: Updater) -> None:
    offers = shipped("azure")
    dearer, cheaper, gone = offers[0], offers[1], offers[2]
    new = azure_item(offers[0], armRegionName="newregion1")
    items = [*(azure_item(o) for o in offers if o is not gone), new, *azure_spot_of_shipped()]
    items[0]["retailPrice"], items[1]["retailPrice"] = items[0]["retailPrice"] * 1.5, items[1]["retailPrice"] * 0.9
    with served(azure_pages(items)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert (found.num_dearer, found.num_cheaper, found.num_vanished, found.num_new) == (1, 1, 1, 1)
    assert [change.instance for change in found.largest_changes] == [dearer.instance, cheaper.instance]
    assert [(change.region, change.instance) for change in found.vanished] == [(gone.region, gone.instance)]


def test_a_price_that_vanished_from_the_feed_no_longer_wins(updater: Updater) -> None:
    gone = shipped("azure")[0]
    with served(azure_pages([azure_item(o) for o in shipped("azure")[1:]])) as server:
        updater.run(server, "azure")
    places = {(o.region, o.instance) for o in load_catalog().offers if o.cloud == "azure"}
    assert (gone.region, gone.instance) not in places


def test_azure_sells_spot_reservations_and_a_savings_plan_too(updater: Updater) -> None:
    first = shipped("azure")[0]
    price = first.price_per_instance_usd_per_hour
    plans = [{"unitPrice": price * 0.7, "retailPrice": price * 0.7, "term": "1 Year"}]
    plans.append({"unitPrice": price * 0.5, "retailPrice": price * 0.5, "term": "3 Years"})
    year = azure_item(first, type="Reservation", reservationTerm="1 Year", retailPrice=price * 0.6 * 8760)
    three = azure_item(first, type="Reservation", reservationTerm="3 Years", retailPrice=price * 0.4 * 26280)
    others = [azure_item(o) for o in shipped("azure")[1:]]
    items = [azure_item(first, savingsPlan=plans), azure_spot(first, price * 0.3), year, three, *others]
    with served(azure_pages(items)) as server:
        updater.run(server, "azure")
    shares = {
        o.price_kind: o.price_per_instance_usd_per_hour / price
        for o in load_catalog().offers
        if (o.cloud, o.region, o.instance) == ("azure", first.region, first.instance)
    }
    assert shares == {
        PriceKind.ON_DEMAND: pytest.approx(1),
        PriceKind.SPOT: pytest.approx(0.3),
        PriceKind.SAVINGS_PLAN: pytest.approx(0.7),
        PriceKind.COMMIT_1Y: pytest.approx(0.6),
        PriceKind.COMMIT_3Y: pytest.approx(0.4),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"productName": "Virtual Machines N Series Windows"},
        {"type": "DevTestConsumption"},
        {"meterName": "NC24ads A100 v4 Low Priority"},
        {"isPrimaryMeterRegion": False},
        {"unitOfMeasure": "1/Month"},
    ],
)
def test_products_that_only_look_like_a_linux_machine_are_not_taken(updater: Updater, changes: dict[str, Any]) -> None:
    first = shipped("azure")[0]
    decoy = azure_item(first, retailPrice=first.price_per_instance_usd_per_hour * 2, **changes)
    with served(azure_pages([*(azure_item(o) for o in shipped("azure")), decoy])) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert (found.status, found.num_dearer, found.num_cheaper) == ("updated", 0, 0)


def test_aws_lists_on_demand_and_reservations_of_every_region_and_local_zone_but_of_no_carrier(
    updater: Updater,
) -> None:
    windows = aws_row("p5.48xlarge", 90.0, **{"Operating System": "Windows"})
    dedicated = aws_row("p5.48xlarge", 91.0, Tenancy="Dedicated")
    block = aws_row("p5.48xlarge", 1.0, CapacityStatus="AllocatedCapacityReservation")
    bound = [reserved("p5.48xlarge", 44.0, 1), reserved("p5.48xlarge", 30.0, 3)]
    upfront = reserved("p5.48xlarge", 0.0, 1, "All Upfront")
    rows = {"us-east-1": [aws_row("p5.48xlarge", 56.0), windows, dedicated, block, *bound, upfront]}
    zones = {"us-east-1-bos-1": [aws_row("p5.48xlarge", 70.0)], "us-east-1-wl1-bos1": [aws_row("p5.48xlarge", 71.0)]}
    pages = aws_pages({**rows, **zones})
    with served(pages) as server:
        updater.run(server, "aws", accept_losses=True)
    prices = {
        (o.region, o.price_kind): o.price_per_instance_usd_per_hour
        for o in load_catalog().offers
        if o.source == "aws-ec2-price-list"
    }
    assert prices == {
        ("us-east-1", PriceKind.ON_DEMAND): 56.0,
        ("us-east-1-bos-1", PriceKind.ON_DEMAND): 70.0,
        ("us-east-1", PriceKind.COMMIT_1Y): 44.0,
        ("us-east-1", PriceKind.COMMIT_3Y): 30.0,
    }


def test_spot_prices_of_aws_are_observed_and_its_zeros_and_words_are_no_prices(updater: Updater) -> None:
    pages = aws_spot_of_shipped()
    page = json.loads(pages["/aws-spot.json"])
    region = page["config"]["regions"][0]
    first, second, *_ = region["instanceTypes"][0]["sizes"]
    first["valueColumns"][0]["prices"]["USD"], second["valueColumns"][0]["prices"]["USD"] = "0", "N/A*"
    with served({"/aws-spot.json": json.dumps(page)}) as server:
        found = updater.run(server, "aws")["aws-ec2-spot"]
    assert (found.status, found.num_without_price, found.num_vanished) == ("updated", 2, 2)
    taken = [o for o in load_catalog().offers if o.source == "aws-ec2-spot"]
    assert {o.basis for o in taken} == {PriceBasis.OBSERVED}
    assert (region["region"], first["size"]) not in {(o.region, o.instance) for o in taken}


def test_old_names_of_regions_are_read(updater: Updater) -> None:
    with served(aws_spot_page({"us-east": {"p5.48xlarge": "20.1"}})) as server:
        updater.run(server, "aws", accept_losses=True)
    assert price_of("aws", "us-east-1", "p5.48xlarge", PriceKind.SPOT).price_per_instance_usd_per_hour == 20.1


def test_a_machine_of_gcp_costs_its_vcpus_its_memory_and_its_gpu(updater: Updater) -> None:
    with served(gcp_pages(L4_SKUS)) as server:
        updater.run(server, "gcp", accept_losses=True)
        assert all(headers["X-Goog-Api-Key"] == "a-key" for headers in server.headers)
        assert not any("a-key" in path for path in server.asked)
    on_demand, spot = price_of("gcp", "us-central1", "g2-standard-4"), price_of(
        "gcp", "us-central1", "g2-standard-4", PriceKind.SPOT
    )  # fmt: skip
    assert on_demand.price_per_instance_usd_per_hour == pytest.approx(4 * 0.024988 + 16 * 0.002927 + 0.56004)
    assert on_demand.price_per_instance_usd_per_hour == pytest.approx(0.706832, abs=1e-5)  # the published list
    assert spot.price_per_instance_usd_per_hour == pytest.approx(4 * 0.009995 + 16 * 0.001171 + 0.224)


def test_a_machine_of_gcp_without_one_of_its_parts_has_no_price(updater: Updater) -> None:
    without_memory = [sku for sku in L4_SKUS if "Ram" not in sku["description"]]
    with served(gcp_pages(without_memory)) as server:
        found = updater.run(server, "gcp")["gcp-billing-catalog"]
    assert (found.status, found.reason) == ("refused", "no price of a machine that we describe is in it")


def test_partial_a3_machines_stay_spot_only(updater: Updater) -> None:
    with served(every_feed()) as server:
        updater.run(server, "gcp", accept_losses=True)
    taken = [o for o in load_catalog().offers if o.source == "gcp-billing-catalog"]
    assert {o.price_kind for o in taken if o.instance == "a3-highgpu-1g"} == {PriceKind.SPOT}
    assert {o.price_kind for o in taken if o.instance == "a3-highgpu-8g"} == {PriceKind.SPOT, PriceKind.ON_DEMAND}


def test_the_smaller_clouds_are_read(updater: Updater) -> None:
    pages = {
        **lambda_page({"gpu_8x_h100_sxm5": 2392}),
        **runpod_page([runpod_gpu("NVIDIA A100 80GB PCIe", 1.5, 0.9), runpod_gpu("NVIDIA Unheard Of", 1)]),
        **verda_pages([verda_type("1H100.80S.32V", "2.19", "0.8"), verda_type("9X999.1V", "3", "1")]),
    }
    with served(pages) as server:
        found = updater.run(server, "lambda", "runpod", "verda", accept_losses=True)
    assert price_of("lambda", "all", "gpu_8x_h100_sxm5").price_per_instance_usd_per_hour == 23.92
    assert price_of("runpod", "all", "2x_A100-80GB_SECURE").price_per_instance_usd_per_hour == 3.0
    assert price_of("runpod", "all", "2x_A100-80GB_SECURE", PriceKind.SPOT).price_per_instance_usd_per_hour == 1.8
    assert price_of("verda", "all", "1H100.80S.32V", PriceKind.SPOT).price_per_instance_usd_per_hour == 0.8
    assert found["verda-api"].undescribed_types == ["9X999.1V"]


# --- what is broken --------------------------------------------------------------------------------------------------


def failing(path: str, answer: Answer, times: int = 10**6) -> Callable[[str, Answer], Answer | None]:
    left = [times]

    def fault(asked: str, _: Answer) -> Answer | None:
        if not asked.startswith(path) or left[0] == 0:
            return None
        left[0] -= 1
        return answer

    return fault


def test_too_many_requests_are_waited_out_as_the_server_asks(updater: Updater) -> None:
    with served(azure_as_shipped()) as server:
        server.faults = [failing("/azure", Answer("slow down", 429, {"Retry-After": "7"}), 3)]
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert found.status == "updated"
    assert updater.waits_s == [7.0, 7.0, 7.0]


def test_a_server_that_never_recovers_is_given_up_and_named(updater: Updater) -> None:
    with served(azure_as_shipped()) as server:
        server.faults = [failing("/azure", Answer("oops", 503))]
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert found.status == "failed"
    assert "/azure failed 5 times, at last: status 503" in found.reason
    assert updater.waits_s == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("status", [400, 404, 451])
def test_a_page_that_is_refused_is_named_at_once(updater: Updater, status: int) -> None:
    with served(azure_as_shipped()) as server:
        server.faults = [failing("/azure", Answer("no such thing", status))]
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert found.status == "failed"
    assert f"/azure answers {status}" in found.reason
    assert updater.waits_s == []


def test_half_a_page_is_asked_for_again(updater: Updater) -> None:
    def half(path: str, sound: Answer) -> Answer | None:
        return Answer(sound.body, sent=0.5) if len(server.asked) == 1 else None

    with served(azure_as_shipped()) as server:
        server.faults = [half]
        assert updater.run(server, "azure")["azure-retail-prices"].status == "updated"
    assert len(updater.waits_s) == 1


def test_half_a_page_that_calls_itself_whole_is_named(updater: Updater) -> None:
    with served(azure_as_shipped()) as server:
        server.faults = [lambda path, sound: Answer(sound.body[: len(sound.body) // 2])]
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert found.status == "failed"
    assert "half a page, or no JSON" in found.reason


def test_half_a_price_list_of_aws_is_seen_by_its_cut_line_or_by_what_is_missing(updater: Updater) -> None:
    pages = aws_list_of_shipped()
    lists = {path: page for path, page in pages.items() if path.endswith(".csv")}
    [path] = [path for path in lists if "/us-east-1/" in path]
    heads = {path: "\n".join(page.splitlines()[:10]) for path, page in lists.items()}
    for kept in (heads, {path: pages[path].rstrip("\n")[:-20]}):
        with served({**pages, **kept}) as server:
            found = updater.run(server, "aws")["aws-ec2-price-list"]
        assert found.status in ("refused", "failed")
        assert "have none in it" in found.reason or "is cut" in found.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda item: item.update(retailPrice=str(item["retailPrice"])), "'retailPrice' has another type"),
        (lambda item: item.update(retailPrice=True), "'retailPrice' has another type"),
        (lambda item: item.update(armRegionName=None), "'armRegionName' has another type"),
        (lambda item: item.update(currencyCode="EUR"), "prices in another currency"),
        (lambda item: item.update(retail_price=item.pop("retailPrice")), "the field 'retailPrice' is missing"),
        (lambda item: item.update(armSKUName=item.pop("armSkuName")), "Nearest: armSKUName"),
    ],
)
def test_a_wrong_type_or_a_renamed_field_is_named_with_page_and_row(
    updater: Updater, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    items = [azure_item(o) for o in shipped("azure")]
    change(items[211])
    with served(azure_pages(items)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert found.status == "failed"
    assert "azure page 2 row 12" in found.reason
    assert said in found.reason
    assert updater.stored() == {}


@pytest.mark.parametrize(
    ("cloud", "pages", "said"),
    [
        ("gcp", gcp_pages([{**L4_SKUS[0], "category": "CPU"}]), "'category' has another type"),
        ("gcp", gcp_pages([gcp_sku("G2 Instance Core running in Iowa", ["r"], 1, units="one")]), "no whole number"),
        ("gcp", dict.fromkeys(gcp_pages(L4_SKUS), "[]"), "not an object"),
        ("lambda", lambda_page({"gpu_8x_h100_sxm5": "2392"}), "'price_cents_per_hour' has another type"),
        ("lambda", {"/lambda": '{"error": {"code": "global/invalid-api-key"}}'}, "the field 'data' is missing"),
        ("runpod", {"/runpod": '{"errors": [{"message": "no"}]}'}, "the field 'data' is missing"),
        ("runpod", runpod_page([runpod_gpu("NVIDIA H100 80GB HBM3", [2.69])]), "a price has another type"),
        ("verda", verda_pages([{"type": "1H100.80S.32V"}]), "the field 'instance_type' is missing"),
        ("verda", verda_pages([{**verda_type("1H100.80S.32V", "2", "1"), "currency": "eur"}]), "another currency"),
    ],
)
def test_every_feed_names_what_is_not_in_its_form(
    updater: Updater, cloud: str, pages: dict[str, str], said: str
) -> None:
    with served(pages) as server:
        [found] = updater.run(server, cloud).values()
    assert found.status == "failed"
    assert said in found.reason


def test_a_renamed_column_of_the_aws_list_is_named(updater: Updater) -> None:
    pages = {path: page.replace('"PricePerUnit"', '"Price"') for path, page in aws_list_of_shipped().items()}
    with served(pages) as server:
        found = updater.run(server, "aws")["aws-ec2-price-list"]
    assert "the column 'PricePerUnit' is missing" in found.reason


def test_one_cloud_that_fails_does_not_hold_up_the_others(updater: Updater) -> None:
    with served(every_feed()) as server:
        server.faults = [failing("/azure", Answer("<html>maintenance</html>"))]
        found = updater.run(server)
    assert {name: feed.status for name, feed in found.items() if feed.status != "updated"} == {
        "azure-retail-prices": "failed"
    }


def test_a_feed_without_its_key_is_skipped_and_a_wrong_key_is_named(updater: Updater) -> None:
    with served(every_feed()) as server:
        server.faults = [failing("/lambda", Answer("who?", 401))]
        found = updater.run(server, "lambda")["lambda-cloud-api"]
        environment = {name: value for name, value in server.environment().items() if name != "GCP_API_KEY"}
        server.environment = lambda: environment  # type: ignore[method-assign]
        skipped = updater.run(server, "gcp")["gcp-billing-catalog"]
    assert "answers 401: the key is missing or not accepted" in found.reason
    assert "a-key" not in found.reason
    assert (skipped.status, skipped.reason) == ("skipped", "GCP_API_KEY is not set")


# --- what arrives and is not believed --------------------------------------------------------------------------------


def test_one_slipped_decimal_point_waits_and_the_price_of_before_stays_with_its_day(updater: Updater) -> None:
    items = [azure_item(o) for o in shipped("azure")]
    slipped = next(item for item in items if item["armSkuName"] == "Standard_ND96isr_H100_v5")
    slipped["retailPrice"] /= 10
    with served(azure_pages(items)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    [waiting] = found.waiting
    assert found.status == "updated"
    assert waiting.name == "azure:Standard_ND96isr_H100_v5"
    assert waiting.reason.endswith(f"is 0.1x its price of 2026-06-18, ${waiting.before_usd_per_hour:.4g}")
    kept = price_of("azure", waiting.region, waiting.instance)
    assert (kept.price_per_instance_usd_per_hour, kept.as_of) == (waiting.before_usd_per_hour, date(2026, 6, 18))
    assert (kept.source, kept.doubt) == ("azure-price-list", "")


def test_a_type_of_one_region_waits_until_it_is_accepted_by_name(updater: Updater) -> None:
    east = [o for o in shipped("aws") if o.region == "us-east-1"]
    rows = [aws_row(o.instance, price_usd(o) / (8 if o.instance == "p5.48xlarge" else 1)) for o in east]
    with served(aws_pages({"us-east-1": rows})) as server:
        waiting = updater.run(server, "aws")["aws-ec2-price-list"].waiting
        assert price_of("aws", "us-east-1", "p5.48xlarge").price_per_instance_usd_per_hour == 55.04
        other = Accepted(frozenset({("aws", "p5en.48xlarge")}))
        assert updater.run(server, "aws", accepted=other)["aws-ec2-price-list"].waiting == waiting
        named = Accepted(frozenset({("aws", "p5.48xlarge")}))
        found = updater.run(server, "aws", accepted=named)["aws-ec2-price-list"]
        again = updater.run(server, "aws")["aws-ec2-price-list"]
    assert [price.instance for price in waiting] == ["p5.48xlarge"]
    assert waiting[0].reason.endswith("times 8 GPUs that is $55.04: the price of one GPU?")
    assert (found.waiting, [price.reason for price in found.accepted]) == ([], [waiting[0].reason])
    assert (again.waiting, again.accepted) == ([], [])
    assert price_of("aws", "us-east-1", "p5.48xlarge").doubt.endswith("; accepted on 2026-11-21")


def test_a_spot_price_is_held_to_the_on_demand_price_of_before_where_that_waits(updater: Updater) -> None:
    first, *others = (o for o in shipped("azure") if o.instance == "Standard_ND96isr_H100_v5")
    spot = azure_spot(first, price_usd(first) / 3)
    wrong = azure_item(first, retailPrice=price_usd(first) / 100)
    rest = [azure_item(o) for o in shipped("azure") if o is not first]
    with served(azure_pages([wrong, spot, *rest])) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert [price.price_kind for price in found.waiting] == ["on_demand"]
    assert found.refused_rows == []
    assert price_of("azure", first.region, first.instance, PriceKind.SPOT)
    assert others


def test_a_feed_of_which_a_tenth_is_far_from_its_other_regions_is_not_believed(updater: Updater) -> None:
    items = [
        azure_item(o, retailPrice=price_usd(o) * (10 if n % 8 == 0 else 1)) for n, o in enumerate(shipped("azure"))
    ]
    with served(azure_pages(items)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert found.status == "refused"
    assert found.reason.endswith(f"of {len(items)} prices break a rule")


def test_spot_above_on_demand_is_left_out_and_said(updater: Updater) -> None:
    pages = aws_spot_of_shipped()
    page = json.loads(pages["/aws-spot.json"])
    [east] = [r for r in page["config"]["regions"] if r["region"] == "us-east-1"]
    [g4] = [s for f in east["instanceTypes"] for s in f["sizes"] if s["size"] == "g4dn.12xlarge"]
    g4["valueColumns"][0]["prices"]["USD"] = "4.0"
    with served({"/aws-spot.json": json.dumps(page)}) as server:
        found = updater.run(server, "aws")["aws-ec2-spot"]
    assert found.refused_rows == ["aws us-east-1 g4dn.12xlarge spot: above on-demand, 3.912"]


def test_zero_and_nan_prices_never_become_offers(updater: Updater) -> None:
    items = [*(azure_item(o) for o in shipped("azure")), *azure_spot_of_shipped()]
    items[0]["retailPrice"], items[1]["retailPrice"], items[2]["retailPrice"] = 0, float("nan"), -5
    with served(azure_pages(items)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert (found.status, found.num_without_price, found.num_vanished) == ("updated", 3, 3)


def test_a_feed_in_which_most_types_are_missing_is_not_believed(updater: Updater) -> None:
    few = [azure_item(o) for o in shipped("azure") if "H100" in o.instance]
    with served(azure_pages(few)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
        accepted = updater.run(server, "azure", accept_losses=True)["azure-retail-prices"]
    assert found.status == "refused"
    assert "have none in it" in found.reason
    assert accepted.status == "updated"


def test_prices_that_all_moved_eightfold_look_like_another_unit_and_are_not_believed(updater: Updater) -> None:
    with served(azure_as_shipped(lambda o: o.price_per_instance_usd_per_hour / 8)) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert "another currency or unit?" in found.reason
    assert updater.stored() == {}


def test_a_feed_in_which_more_than_a_tenth_of_the_prices_break_a_rule_is_not_believed(updater: Updater) -> None:
    """One region in ten of every type is slipped: the medians stand, and only the number of slips decides."""
    offers = shipped("azure")
    regions = {o.instance: [other.region for other in offers if other.instance == o.instance] for o in offers}
    spread = [o for o in offers if o.region in regions[o.instance][: len(regions[o.instance]) // 5]]
    for slips, status in ((len(offers) // 10, "updated"), (len(offers) // 10 + 1, "refused")):
        slipped = set(map(id, spread[:slips]))
        assert len(slipped) == slips
        items = [azure_item(o) for o in offers]
        for offer, item in zip(offers, items, strict=True):
            item["retailPrice"] /= 10 if id(offer) in slipped else 1
        with served(azure_pages(items)) as server:
            found = updater.run(server, "azure")["azure-retail-prices"]
        assert found.status == status
    assert found.reason == f"{slips} of {len(offers)} prices break a rule"


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_prices_of_one_place_the_dearer_counts(updater: Updater, order: int) -> None:
    first, *others = shipped("azure")
    twice = [azure_item(first, retailPrice=first.price_per_instance_usd_per_hour * ratio) for ratio in (1.0, 1.25)]
    with served(azure_pages([*twice[::order], *map(azure_item, others)])) as server:
        found = updater.run(server, "azure")["azure-retail-prices"]
    assert (found.status, found.num_dearer, found.num_cheaper) == ("updated", 1, 0)
    taken = price_of("azure", first.region, first.instance).price_per_instance_usd_per_hour
    assert taken == pytest.approx(1.25 * first.price_per_instance_usd_per_hour)


@pytest.mark.parametrize(("mib", "status"), [(60, "updated"), (68, "failed")])
def test_a_page_that_does_not_end_is_given_up_at_64_mib(updater: Updater, mib: int, status: str) -> None:
    """The longest pages of the feeds have some tens of MiB: those are read."""
    [(path, page)] = lambda_page({"gpu_8x_h100_sxm5": 2392}).items()
    with served({path: page + " " * (mib * 2**20 - len(page))}) as server:
        found = updater.run(server, "lambda", accept_losses=True)["lambda-cloud-api"]
    assert found.status == status
    assert ("bytes in a page" in found.reason) is (status == "failed")


@pytest.mark.parametrize("body", ["{}", "[]", '{"Items": [], "NextPageLink": null}', "null", '"x"'])
def test_an_empty_answer_replaces_nothing(updater: Updater, body: str) -> None:
    pages = azure_as_shipped()
    with served(pages) as server:
        updater.run(server, "azure")
        before = updater.stored()
        server.pages = dict.fromkeys(pages, body)
        found = updater.run(server, "azure", now=NOW + timedelta(days=1))["azure-retail-prices"]
    assert found.status in ("failed", "refused")
    assert updater.stored() == before


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_a_run_that_broke_off_goes_on_where_it_stopped(updater: Updater) -> None:
    with served(azure_as_shipped()) as server:
        server.faults = [failing("/azure?skip=3", Answer("", 500), 5)]
        assert updater.run(server, "azure")["azure-retail-prices"].status == "failed"
        asked = len(server.asked)
        assert updater.run(server, "azure", now=NOW + timedelta(hours=1))["azure-retail-prices"].status == "updated"
    assert [path.partition("skip=")[2] for path in server.asked[asked:]] == ["3"]


def test_pages_that_were_wrong_are_not_resumed(updater: Updater) -> None:
    pages = azure_as_shipped()
    broken = {path: page.replace("retailPrice", "price") for path, page in pages.items()}
    with served(broken) as server:
        assert updater.run(server, "azure")["azure-retail-prices"].status == "failed"
        server.pages = pages
        assert updater.run(server, "azure")["azure-retail-prices"].status == "updated"


def test_older_snapshots_stay_and_price_an_old_question_as_of_its_day(updater: Updater) -> None:
    for days, factor in ((0, 1.1), (30, 1.2), (60, 0.8)):
        with served(azure_as_shipped(lambda o, f=factor: o.price_per_instance_usd_per_hour * f)) as server:  # type: ignore[misc]
            updater.run(server, "azure", now=NOW + timedelta(days=days))
    assert len(folders_of(updater.root / "azure-retail-prices")) == 3

    def factor_on(as_of: date | None) -> float:
        catalog = load_catalog(as_of=as_of, today=date(2027, 2, 1))
        sold = (o for o in catalog.offers if (o.region, o.instance) == ("eastus", "Standard_ND96amsr_A100_v4"))
        [a100] = [o for o in sold if o.price_kind is PriceKind.ON_DEMAND]
        return a100.price_per_instance_usd_per_hour / 32.77

    days = (date(2026, 11, 20), date(2026, 11, 21), date(2026, 12, 20), date(2026, 12, 21), None)
    assert [factor_on(day) for day in days] == pytest.approx([1, 1.1, 1.1, 1.2, 0.8])


def test_before_the_first_price_list_nothing_was_known() -> None:
    assert [o for o in load_catalog(as_of=date(2026, 6, 17)).offers if o.cloud == "azure"] == []
    assert [o for o in load_catalog(as_of=date(2026, 6, 18)).offers if o.cloud == "azure"]


def test_a_snapshot_that_was_changed_by_hand_is_refused_with_its_place(updater: Updater) -> None:
    with served(azure_as_shipped()) as server:
        updater.run(server, "azure")
    [folder] = folders_of(updater.root / "azure-retail-prices")
    table = folder / "offers.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("98.32", "9.832"), encoding="utf-8")
    with pytest.raises(Exception, match=r"is damaged: it is not as it was written.*Remove that folder"):
        load_catalog()


def test_the_world_of_the_server_is_that_of_the_tables() -> None:
    assert len(shipped("azure")) > 500
    assert CATALOG.offers == load_catalog().offers
