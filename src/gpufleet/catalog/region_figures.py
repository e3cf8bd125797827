"""What regions add to what machines cost and emit: the way out of answers, and the carbon of their grids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpufleet.catalog.egress import RegionKey, dearest_egress, egress_usd_per_gb
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.sites import grid_carbon, load_site_figures, power_usage, spread_of
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import Offer
from gpufleet.pricing.egress import answers_usd_per_million_tokens
from gpufleet.pricing.energy import kwh_per_hour, site_g_co2_per_hour, site_kwh_per_hour
from gpufleet.units import KILO


def known_grids(regions: Iterable[RegionKey], year: int | None, tables: Catalog) -> dict[RegionKey, float]:
    """What a kWh of each region's grid emits, where that is known   [g CO2e/kWh]."""
    grids = {key: grid_carbon(tables, *key, year) for key in set(regions)}
    return {key: grid.g_co2e_per_kwh.expected for key, grid in grids.items() if grid is not None}


def egress_of_answers(offers: Iterable[Offer], tables: Catalog) -> Iterator[tuple[RegionKey, float]]:
    """What a million tokens of answers, streamed, cost on their way out of each region that has a price   [USD].

    A region without one costs what the dearest of its cloud does: what is not known must not look free. None of a cloud
    that has published none.
    """
    each = load_site_figures().bytes_per_streamed_token.value
    dearest = dearest_egress(tables)
    for key in sorted({(offer.cloud, offer.region) for offer in offers}):
        usd_per_gb = egress_usd_per_gb(tables, key, None, dearest)
        if usd_per_gb is not None:
            yield key, answers_usd_per_million_tokens(each, usd_per_gb)


def machine_carbon(
    offers: Iterable[Offer], year: int | None, tables: Catalog
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """What a machine that always works emits, at the high end, of every offer whose grid and GPU are known   [kg/h]."""
    over_gpu = spread_of(load_site_figures().machine_over_gpu_watts)
    for offer in offers:
        instance, grid = tables.instance_of(offer), grid_carbon(tables, offer.cloud, offer.region, year)
        watts = tables.accelerators[instance.accelerator].board_power_watts
        if grid is None or watts is None or not isinstance(instance, Instance):
            continue
        gpus = float(kwh_per_hour(watts, instance.gpu_count, 1.0))
        usage = power_usage(offer.cloud, offer.region, year).ratio
        site = site_kwh_per_hour(Spread(gpus, gpus, gpus), over_gpu, usage)
        yield (
            (offer.cloud, offer.region, offer.instance),
            site_g_co2_per_hour(site, grid.g_co2e_per_kwh).high / KILO,
        )


def country_of(tables: Catalog, key: RegionKey) -> str | None:
    """The country of a region by its name."""
    located = tables.located_regions.get(key)
    country = None if located is None else tables.countries.get(located.country)
    return None if country is None else country.name
