"""Prices of the pools of a file of jobs, held to what clouds ask for such GPUs, as prices of own tables are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpufleet.catalog.own_doubts import LEAST_OWN_RATIO
from gpufleet.catalog.own_prices import most_saved
from gpufleet.catalog.usual_prices import OUTLIER_FACTOR, GpuKey, is_usual, times_words
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.schedule import ON_DEMAND, OWNED, SPOT, Pool

SOLD_AS = {ON_DEMAND: PriceKind.ON_DEMAND, SPOT: PriceKind.SPOT, OWNED: PriceKind.OWNED}


def doubts_about(pool: Pool, usd: float, usual: Mapping[GpuKey, float]) -> Iterator[str]:
    """Why a price of one GPU is in doubt: rented for nothing, or far from what is asked; one's own costs what it does.

    Where nobody asks a price of its kind, spot is held to on demand: no more than it, and a tenth of it at the least.
    """
    kind, on_demand = SOLD_AS[pool.kind], usual.get((pool.gpu, PriceKind.ON_DEMAND))
    alike = usual.get((pool.gpu, kind))
    if usd == 0:
        if pool.is_rented:
            yield "nobody rents GPUs for nothing"
    elif pool.is_rented and alike is not None:
        if not is_usual(usd, alike):
            yield f"{times_words(usd / alike)} what clouds ask per GPU {pool.kind.replace('-', ' ')}"
    elif on_demand is not None:
        least, most = believed(pool, on_demand)
        if not least <= usd <= most:
            yield f"{times_words(usd / on_demand)} what clouds ask per GPU on demand"


def believed(pool: Pool, on_demand: float) -> tuple[float, float]:
    """From and up to what one GPU may cost beside what clouds ask for it on demand   [USD/h]."""
    if pool.is_rented:
        return on_demand * (1 - most_saved(PriceKind.SPOT, 1)), on_demand
    return on_demand * LEAST_OWN_RATIO, on_demand * OUTLIER_FACTOR
