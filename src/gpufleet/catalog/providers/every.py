"""All feeds, and the clouds that have none."""

from __future__ import annotations

from collections.abc import Collection

from gpufleet.catalog.providers import aws, azure, gcp, lambda_cloud, runpod, verda
from gpufleet.catalog.providers.feed import Feed

FEEDS: tuple[Feed, ...] = (
    *aws.FEEDS,
    *azure.FEEDS,
    *gcp.FEEDS,
    *lambda_cloud.FEEDS,
    *runpod.FEEDS,
    *verda.FEEDS,
)


def feeds_of(clouds: Collection[str] | None) -> list[Feed]:
    """The feeds of these clouds, all where None."""
    return [feed for feed in FEEDS if clouds is None or feed.cloud in clouds]
