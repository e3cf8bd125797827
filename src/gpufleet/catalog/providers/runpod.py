"""RunPod: its GraphQL API, open to all; a price per GPU of a kind, the same in every region."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit, dollars, field
from gpufleet.domain.offer import PriceKind

QUERY = "query GpuTypes { gpuTypes { id securePrice communityPrice secureSpotPrice communitySpotPrice } }"
PRICE_FIELDS = {
    ("SECURE", PriceKind.ON_DEMAND): "securePrice",
    ("SECURE", PriceKind.SPOT): "secureSpotPrice",
    ("COMMUNITY", PriceKind.ON_DEMAND): "communityPrice",
    ("COMMUNITY", PriceKind.SPOT): "communitySpotPrice",
}


def read(visit: Visit) -> Iterator[ListedPrice]:
    """Prices of our machines by the GPU in them; an unknown GPU is not ours to price."""
    answer = visit.download.json(visit.endpoint, body={"query": QUERY})
    for row in field(field(answer, "data", dict, "runpod"), "gpuTypes", list, "runpod"):
        gpu = visit.gpu_named(field(row, "id", str, "runpod"))
        for name, instance in visit.instances.items():
            if gpu is not None and instance.accelerator == gpu:
                yield from prices_of(row, name, instance.gpu_count)


def prices_of(row: object, name: str, gpu_count: float) -> Iterator[ListedPrice]:
    """On-demand and spot of one machine; null is no price."""
    tier = name.rpartition("_")[2]
    for (of_tier, kind), column in PRICE_FIELDS.items():
        if of_tier == tier:
            price = field(row, column, object, f"runpod {name}")
            per_gpu = 0.0 if price is None else dollars(price, f"runpod {name}")
            yield ListedPrice(EVERYWHERE, name, kind, per_gpu * gpu_count)


FEEDS = (
    Feed(
        name="runpod-graphql",
        cloud="runpod",
        title="RunPod GraphQL API, GPU types",
        endpoint="https://api.runpod.io/graphql",
        price_kinds=frozenset({PriceKind.ON_DEMAND, PriceKind.SPOT}),
        read=read,
    ),
)
