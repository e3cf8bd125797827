"""What plays the spot rows of a plan: zones as `spot` takes them, and every price on demand to fall back on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache, partial

import numpy as np

from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.interruption import USUAL_SEED, USUAL_ZONES
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.drawn_markets import DrawnMarkets
from gpufleet.optimize.spot_plays import SpotPlays
from gpufleet.simulate.spot_availability import drawn_zones


def spot_plays(tables: Catalog, offers: Iterable[Offer], deadline_s: float) -> SpotPlays | None:
    """What plays jobs until their deadline; None where nothing is on spot, or nothing has to be done by any time."""
    clouds = {offer.cloud for offer in offers if offer.price_kind is PriceKind.SPOT}
    if not clouds or math.isinf(deadline_s):
        return None

    def steady() -> list[Offer]:
        return matching_offers(tables, OfferFilter(clouds=clouds, price_kinds=[PriceKind.ON_DEMAND]))

    return SpotPlays(usual_markets(), deadline_s, steady)


@lru_cache(maxsize=1)
def usual_markets() -> DrawnMarkets:
    """The markets that play all plans of a process, drawn as `spot` draws them where nobody says anything."""
    fit, ratio = load_availability_fit(), load_job_habits().planned_restart_ratio
    zones = partial(drawn_zones, fit=fit, num_zones=USUAL_ZONES)
    return DrawnMarkets(fit, ratio, zones, USUAL_ZONES, partial(np.random.default_rng, USUAL_SEED))
