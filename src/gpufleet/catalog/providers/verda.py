"""Verda (once DataCrunch): the instance types of its API, behind a client id and a secret."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit, dollars, field, in_dollars
from gpufleet.domain.offer import PriceKind

CLIENT, SECRET = "VERDA_CLIENT_ID", "VERDA_CLIENT_SECRET"
PRICE_FIELDS = {PriceKind.ON_DEMAND: "price_per_hour", PriceKind.SPOT: "spot_price"}


def read(visit: Visit) -> Iterator[ListedPrice]:
    """On-demand and spot prices, the same at every location."""
    url = f"{visit.endpoint}/instance-types"
    rows = visit.download.json(url, {"Authorization": f"Bearer {access_token(visit)}"})
    for row in field({"types": rows}, "types", list, "verda"):
        name = field(row, "instance_type", str, "verda")
        in_dollars(field({"currency": "usd", **row}, "currency", str, f"verda {name}"), f"verda {name}")
        for kind, column in PRICE_FIELDS.items():
            price = dollars(field(row, column, object, f"verda {name}"), f"verda {name}")
            yield ListedPrice(EVERYWHERE, name, kind, price)


def access_token(visit: Visit) -> str:
    """A token for this visit."""
    body = {
        "grant_type": "client_credentials",
        "client_id": visit.keys[CLIENT],
        "client_secret": visit.keys[SECRET],
    }
    return field(visit.download.secret(f"{visit.endpoint}/oauth2/token", body), "access_token", str, "verda token")


FEEDS = (
    Feed(
        name="verda-api",
        cloud="verda",
        title="Verda API, instance types",
        endpoint="https://api.verda.com/v1",
        price_kinds=frozenset({PriceKind.ON_DEMAND, PriceKind.SPOT}),
        read=read,
        key_variables=(CLIENT, SECRET),
    ),
)
