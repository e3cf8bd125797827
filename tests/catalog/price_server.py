"""A server on this machine that answers in the form that each price feed documents, and misbehaves when told to."""

from __future__ import annotations

import csv
import io
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.providers.every import FEEDS
from gpufleet.domain.offer import Offer, PriceKind

CATALOG = load_catalog()
Json = Any


@dataclass
class Answer:
    """What is sent: a status, a body, how much of the body, and what else. A body in pieces need not end."""

    body: str | bytes | Iterable[bytes] = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    sent: float = 1.0


Fault = Callable[[str, Answer], Answer | None]


@dataclass
class PriceServer:
    """Pages by path; a fault may change any answer; every request is written down."""

    pages: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    origin: str = ""

    def answer(self, path: str, headers: dict[str, str]) -> Answer:
        self.asked.append(path)
        self.headers.append(headers)
        body = self.pages.get(path)
        sound = Answer("not found", 404) if body is None else Answer(body.replace("ORIGIN", self.origin))
        for fault in list(self.faults):
            found = fault(path, sound)
            if found is not None:
                return found
        return sound

    def environment(self) -> dict[str, str]:
        """Every feed is asked here, and every key is set."""
        endpoints = {
            "aws-ec2-price-list": "/aws",
            "aws-ec2-spot": "/aws-spot.json",
            "azure-retail-prices": "/azure",
            "gcp-billing-catalog": "/gcp",
            "lambda-cloud-api": "/lambda",
            "runpod-graphql": "/runpod",
            "verda-api": "/verda",
        }
        mirrors = {feed.endpoint_variable: self.origin + endpoints[feed.name] for feed in FEEDS}
        return mirrors | {name: "a-key" for feed in FEEDS for name in feed.key_variables}


def ask_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test reach the server here, and nothing else."""
    connect = socket.socket.connect

    def only_here(self: socket.socket, address: Any) -> None:
        assert address[0] == "127.0.0.1", f"a test opened a connection to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)


@contextmanager
def serving(server: PriceServer) -> Iterator[PriceServer]:
    """The server on a free port of this machine, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = server.answer(self.path, dict(self.headers))
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if isinstance(body, bytes):
                self.send_header("Content-Length", str(len(body)))
                body = [body[: int(len(body) * answer.sent)]]
            self.end_headers()
            with suppress(ConnectionError):
                for piece in body:
                    self.wfile.write(piece)
            self.close_connection = True

        def do_POST(self) -> None:
            server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_GET()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        server.origin = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


def shipped(cloud: str, kind: PriceKind = PriceKind.ON_DEMAND) -> list[Offer]:
    """What the tables hold of a cloud: the world that the server speaks of."""
    return [o for o in CATALOG.offers if o.cloud == cloud and o.price_kind is kind]


def price_usd(offer: Offer) -> float:
    return offer.price_per_instance_usd_per_hour


# --- Azure: items, and a link to the next page -----------------------------------------------------------------------


def azure_item(offer: Offer, **changes: Json) -> dict[str, Json]:
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": offer.price_per_instance_usd_per_hour,
        "unitPrice": offer.price_per_instance_usd_per_hour,
        "armRegionName": offer.region,
        "location": offer.region.upper(),
        "effectiveStartDate": "2026-06-01T00:00:00Z",
        "meterId": "000a794b-bdb0-58be-a0cd-0c3a0f222923",
        "meterName": offer.instance.removeprefix("Standard_").replace("_", " "),
        "productId": "DZH318Z0BQPS",
        "skuId": "DZH318Z0BQPS/00TG",
        "productName": "Virtual Machines N Series",
        "skuName": offer.instance.removeprefix("Standard_").replace("_", " "),
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": offer.instance,
        **changes,
    }


def azure_spot_of_shipped() -> list[dict[str, Json]]:
    return [azure_spot(offer, offer.price_per_instance_usd_per_hour) for offer in shipped("azure", PriceKind.SPOT)]


def azure_spot(offer: Offer, price: Json) -> dict[str, Json]:
    item = azure_item(offer, retailPrice=price, unitPrice=price)
    return {**item, "meterName": f"{item['meterName']} Spot", "skuName": f"{item['skuName']} Spot"}


def azure_pages(items: list[dict[str, Json]], per_page: int = 200) -> dict[str, str]:
    """The pages of a query, each with the address of the next."""
    from urllib.parse import quote

    from gpufleet.catalog.providers.azure import API_VERSION, QUERY

    first = f"/azure?api-version={API_VERSION}&$filter={quote(QUERY)}"
    groups = [items[start : start + per_page] for start in range(0, len(items), per_page)] or [[]]
    pages = {}
    for number, group in enumerate(groups):
        path = first if number == 0 else f"/azure?skip={number}"
        following = f"ORIGIN/azure?skip={number + 1}" if number + 1 < len(groups) else None
        page = {
            "BillingCurrency": "USD",
            "CustomerEntityId": "Default",
            "CustomerEntityType": "Retail",
            "Items": group,
            "NextPageLink": following,
            "Count": len(group),
        }
        pages[path] = json.dumps(page)
    return pages


# --- AWS: an index of regions, then one long CSV a region; spot in a file of its own ---------------------------------

AWS_HEADER = (
    *("SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange"),
    *("EndingRange", "Unit", "PricePerUnit", "Currency", "LeaseContractLength", "PurchaseOption", "OfferingClass"),
    *("Product Family", "serviceCode", "Location", "Instance Type", "Tenancy", "Operating System", "License Model"),
    *("usageType", "operation", "CapacityStatus", "Pre Installed S/W", "Region Code"),
)


def aws_row(instance: str, price: Json, **changes: str) -> dict[str, Json]:
    plain = {
        "SKU": "2223B6PCG6QAUYY6",
        "TermType": "OnDemand",
        "Unit": "Hrs",
        "PricePerUnit": price,
        "Currency": "USD",
        "Product Family": "Compute Instance",
        "serviceCode": "AmazonEC2",
        "Instance Type": instance,
        "Tenancy": "Shared",
        "Operating System": "Linux",
        "License Model": "No License required",
        "operation": "RunInstances",
        "CapacityStatus": "Used",
        "Pre Installed S/W": "NA",
    }
    return {**dict.fromkeys(AWS_HEADER, ""), **plain, **changes}


def reserved(instance: str, price: float, years: int, purchase: str = "No Upfront") -> dict[str, Json]:
    terms = {"TermType": "Reserved", "LeaseContractLength": f"{years}yr", "OfferingClass": "standard"}
    return aws_row(instance, price, PurchaseOption=purchase, **terms)


def aws_pages(rows: dict[str, list[dict[str, Json]]]) -> dict[str, str]:
    """The region index and the price list of every region."""
    version = "/offers/v1.0/aws/AmazonEC2/20261120181500"
    index = {
        "formatVersion": "v1.0",
        "disclaimer": "This pricing list is for informational purposes only.",
        "publicationDate": "2026-11-20T18:15:00Z",
        "regions": {
            region: {"regionCode": region, "currentVersionUrl": f"{version}/{region}/index.json"} for region in rows
        },
    }
    lists = {f"/aws{version}/{region}/index.csv": aws_csv(of_region) for region, of_region in rows.items()}
    return {"/aws/offers/v1.0/aws/AmazonEC2/current/region_index.json": json.dumps(index), **lists}


def aws_csv(rows: list[dict[str, Json]]) -> str:
    """Five lines about the file, the columns, and rows of which most are of no interest."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    about = ("FormatVersion", "v1.0"), ("Disclaimer", "For information"), ("Publication Date", "2026-11-20T18:15:00Z")
    writer.writerows([*about, ("Version", "20261120181500"), ("OfferCode", "AmazonEC2"), AWS_HEADER])
    for row in [aws_row("m7i.large", 0.1008), aws_row("t3.nano", 0.0052), *rows]:
        writer.writerow([row[name] for name in AWS_HEADER])
    return file.getvalue()


def aws_list_of_shipped() -> dict[str, str]:
    """The price lists of the regions that the tables know."""
    rows: dict[str, list[dict[str, Json]]] = {}
    for offer in shipped("aws"):
        rows.setdefault(offer.region, []).append(aws_row(offer.instance, offer.price_per_instance_usd_per_hour))
    return aws_pages(rows)


def aws_spot_page(sizes: dict[str, dict[str, str]]) -> dict[str, str]:
    """The spot feed: regions, families, sizes; prices as text."""
    regions = [
        {
            "region": region,
            "footnotes": {"*": "notAvailableForCCorCGPU"},
            "instanceTypes": [
                {
                    "type": "gpuInstances",
                    "sizes": [
                        {
                            "size": size,
                            "valueColumns": [
                                {"name": "linux", "prices": {"USD": price}},
                                {"name": "mswin", "prices": {"USD": "99.9"}},
                            ],
                        }
                        for size, price in of_region.items()
                    ],
                }
            ],
        }
        for region, of_region in sizes.items()
    ]
    config = {"rate": "perhr", "valueColumns": ["linux", "mswin"], "currencies": ["USD"], "regions": regions}
    return {"/aws-spot.json": json.dumps({"vers": 0.01, "config": config})}


def aws_spot_of_shipped() -> dict[str, str]:
    """Spot prices as the tables have them."""
    sizes: dict[str, dict[str, str]] = {}
    for offer in shipped("aws", PriceKind.SPOT):
        sizes.setdefault(offer.region, {})[offer.instance] = f"{offer.price_per_instance_usd_per_hour:.6f}"
    return aws_spot_page(sizes)


# --- GCP: SKUs of vCPUs, memory and GPUs -----------------------------------------------------------------------------


def gcp_sku(description: str, regions: list[str], nanos: int, usage: str = "OnDemand", units: str = "0") -> Json:
    return {
        "name": "services/6F81-5844-456A/skus/0000-1111-2222",
        "skuId": "0000-1111-2222",
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Compute",
            "resourceGroup": "CPU",
            "usageType": usage,
        },
        "serviceRegions": regions,
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": {
                    "usageUnit": "h",
                    "displayQuantity": 1,
                    "tieredRates": [
                        {
                            "startUsageAmount": 0,
                            "unitPrice": {"currencyCode": "USD", "units": units, "nanos": nanos},
                        }
                    ],
                },
                "effectiveTime": "2026-11-20T00:00:00Z",
            }
        ],
        "serviceProviderName": "Google",
    }


def gcp_pages(skus: list[Json], per_page: int = 4) -> dict[str, str]:
    """The pages of the catalog, each with the token of the next."""
    from gpufleet.catalog.providers.gcp import SKUS

    groups = [skus[start : start + per_page] for start in range(0, len(skus), per_page)]
    pages = {}
    for number, group in enumerate(groups):
        token = f"page{number + 1}" if number + 1 < len(groups) else ""
        path = "/gcp" + SKUS + (f"&pageToken=page{number}" if number else "")
        pages[path] = json.dumps({"skus": group, "nextPageToken": token})
    return pages


L4_SKUS = [
    gcp_sku("G2 Instance Core running in Iowa", ["us-central1"], 24_988_000),
    gcp_sku("G2 Instance Ram running in Iowa", ["us-central1"], 2_927_000),
    gcp_sku("Nvidia L4 GPU running in Iowa", ["us-central1"], 560_040_000),
    gcp_sku("Spot Preemptible G2 Instance Core running in Iowa", ["us-central1"], 9_995_000, "Preemptible"),
    gcp_sku("Spot Preemptible G2 Instance Ram running in Iowa", ["us-central1"], 1_171_000, "Preemptible"),
    gcp_sku(
        "Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", ["us-central1"], 224_000_000, "Preemptible"
    ),
    gcp_sku("N1 Predefined Instance Core running in Iowa", ["us-central1"], 31_611_000),
    gcp_sku("Commitment v1: G2 Cpu in Iowa for 1 Year", ["us-central1"], 15_000_000, "Commit1Yr"),
]


# --- The smaller clouds ----------------------------------------------------------------------------------------------


def lambda_page(cents: dict[str, Json]) -> dict[str, str]:
    data = {
        name: {
            "instance_type": {
                "name": name,
                "description": name,
                "price_cents_per_hour": price,
                "specs": {"vcpus": 30, "memory_gib": 200, "storage_gib": 1400, "gpus": 1},
            },
            "regions_with_capacity_available": [{"name": "us-west-1", "description": "California, USA"}],
        }
        for name, price in cents.items()
    }
    return {"/lambda": json.dumps({"data": data})}


def runpod_page(rows: list[Json]) -> dict[str, str]:
    return {"/runpod": json.dumps({"data": {"gpuTypes": rows}})}


def runpod_gpu(name: str, secure: Json, spot: Json = None) -> Json:
    return {
        "id": name,
        "securePrice": secure,
        "communityPrice": 0,
        "secureSpotPrice": spot,
        "communitySpotPrice": None,
    }


def runpod_of_shipped() -> dict[str, str]:
    """The GPUs that the tables price, at the price of one."""
    singles = [o for o in shipped("runpod") if CATALOG.instance_of(o).gpu_count == 1]
    return runpod_page([runpod_gpu(CATALOG.instance_of(o).accelerator, price_usd(o)) for o in singles])


def verda_pages(rows: list[Json]) -> dict[str, str]:
    token = {"access_token": "a-token", "token_type": "Bearer", "expires_in": 3600}
    return {"/verda/oauth2/token": json.dumps(token), "/verda/instance-types": json.dumps(rows)}


def verda_type(name: str, price: str, spot: str) -> Json:
    return {"instance_type": name, "price_per_hour": price, "spot_price": spot, "currency": "usd"}


def every_feed() -> dict[str, str]:
    """All pages, speaking of the prices that are shipped."""
    return {
        **azure_pages([*(azure_item(offer) for offer in shipped("azure")), *azure_spot_of_shipped()]),
        **aws_list_of_shipped(),
        **aws_spot_of_shipped(),
        **gcp_of_shipped(),
        **lambda_page({o.instance: round(o.price_per_instance_usd_per_hour * 100) for o in shipped("lambda")}),
        **runpod_of_shipped(),
        **verda_pages(
            [verda_type(o.instance, f"{p}", f"{0.45 * p:.4f}") for o in shipped("verda") for p in [price_usd(o)]]
        ),
    }


def gcp_of_shipped() -> dict[str, str]:
    """SKUs of three families in one region."""
    a2 = [
        gcp_sku("A2 Instance Core running in Iowa", ["us-central1"], 31_611_000),
        gcp_sku("A2 Instance Ram running in Iowa", ["us-central1"], 4_237_000),
        gcp_sku("Nvidia Tesla A100 GPU running in Iowa", ["us-central1"], 933_908_000, units="2"),
        gcp_sku("Nvidia Tesla A100 80GB GPU running in Iowa", ["us-central1"], 930_000_000, units="3"),
    ]
    a3 = [
        gcp_sku("A3 Instance Core running in Iowa", ["us-central1"], 29_330_000),
        gcp_sku("A3 Instance Ram running in Iowa", ["us-central1"], 2_553_000),
        gcp_sku("Nvidia H100 80GB GPU running in Iowa", ["us-central1"], 796_550_000, units="9"),
    ]
    spot = []
    for sku in [*a2, *a3]:
        name = sku["description"]
        spot_name = name.replace(" running", " attached to Spot Preemptible VMs running") if "GPU" in name else (
            f"Spot Preemptible {name}"
        )  # fmt: skip
        price = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]
        third = (int(price["units"]) * 10**9 + price["nanos"]) // 3
        spot.append(gcp_sku(spot_name, ["us-central1"], third % 10**9, "Preemptible", str(third // 10**9)))
    return gcp_pages([*L4_SKUS, *a2, *a3, *spot])
