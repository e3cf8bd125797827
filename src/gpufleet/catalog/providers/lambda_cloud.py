"""Lambda: the instance types of its Cloud API, which asks for a key; one price for every region."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit, field
from gpufleet.domain.offer import PriceKind
from gpufleet.units import PERCENT

KEY = "LAMBDA_API_KEY"
CENTS_PER_USD = PERCENT


def read(visit: Visit) -> Iterator[ListedPrice]:
    """On-demand prices, in cents by the hour."""
    answer = visit.download.json(visit.endpoint, {"Authorization": f"Bearer {visit.keys[KEY]}"})
    for name, entry in field(answer, "data", dict, "lambda").items():
        described = field(entry, "instance_type", dict, f"lambda {name}")
        cents = field(described, "price_cents_per_hour", float, f"lambda {name}")
        yield ListedPrice(EVERYWHERE, name, PriceKind.ON_DEMAND, cents / CENTS_PER_USD)


FEEDS = (
    Feed(
        name="lambda-cloud-api",
        cloud="lambda",
        title="Lambda Cloud API, instance types",
        endpoint="https://cloud.lambda.ai/api/v1/instance-types",
        price_kinds=frozenset({PriceKind.ON_DEMAND}),
        read=read,
        key_variables=(KEY,),
    ),
)
