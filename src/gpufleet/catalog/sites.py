"""Carbon of a region's grid and power usage of its site: `data/grid_carbon.csv`, `data/pue.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.schema import number, text, whole
from gpufleet.catalog.table_files import SHIPPED, rows_of, toml_of
from gpufleet.catalog.user_places import region_place
from gpufleet.domain.interruption import Spread
from gpufleet.domain.site import GridCarbon, PowerUsage, SiteFigures
from gpufleet.performance.network_latency import distance_between_km
from gpufleet.provenance import Grade, Sourced

if TYPE_CHECKING:
    from gpufleet.catalog.tables import Catalog

WHOLE_CLOUD, SAME_GRID_KM, LEAST_PUE = "all", 250.0, 1.0
JUDGEMENT = "site-judgements"
RegionKey = tuple[str, str]


class Yearly(NamedTuple):
    """A figure of a year and its source."""

    year: int
    value: float
    source: str


Figures = Mapping[RegionKey, Mapping[int, Yearly]]


@lru_cache(maxsize=1)
def load_site_figures() -> SiteFigures:
    """What is taken where no table says it (calibration/sites.toml).

    >>> load_site_figures().bytes_per_streamed_token.value
    250.0
    """
    return SiteFigures(**{name: sourced(row) for name, row in toml_of(DATA / "sites.toml").items()})


def grid_carbon(catalog: Catalog, cloud: str, region: str, year: int | None = None) -> GridCarbon | None:
    """What a kWh emitted at a region in a year, the newest where none is named; None: not known.

    Where nothing is published for the region, the nearest of any cloud within 250 km in the same country stands in.

    >>> from gpufleet.catalog.load import load_catalog
    >>> found = grid_carbon(load_catalog(), "gcp", "europe-west9", 2024)
    >>> found.g_co2e_per_kwh.expected, found.year, found.source
    (16.3, 2024, 'gcp-region-carbon')
    """
    table = yearly_figures("grid_carbon.csv", "g_co2e_per_kwh")
    is_own = figure_of(table, (cloud, region), year) is not None
    place = (cloud, region) if is_own else nearby(catalog, table, (cloud, region), year)
    found = figure_of(table, place, year)
    if found is None:
        return None
    grade = Grade.MEASURED if is_own else Grade.TRANSFERRED
    spread = around(found.value, load_site_figures().grid_carbon_ratio)
    return GridCarbon(spread, found.year, " ".join(place), grade, found.source)


def grid_years() -> frozenset[int]:
    """Years of which the grid of some region is known.

    >>> 2024 in grid_years()
    True
    """
    table = yearly_figures("grid_carbon.csv", "g_co2e_per_kwh")
    return frozenset(year for of_region in table.values() for year in of_region)


def nearby(catalog: Catalog, table: Figures, key: RegionKey, year: int | None) -> RegionKey:
    """The nearest region in the same country that has a figure; no name where none is near."""
    here, found = region_place(catalog, *key), [(SAME_GRID_KM, "", "")]
    for other in table if here is not None else ():
        there = region_place(catalog, *other)
        if here is None or there is None or there.country != here.country or figure_of(table, other, year) is None:
            continue
        found.append((distance_between_km(here, there) + here.spread_km, *other))
    return min(found)[1:]


def power_usage(cloud: str, region: str, year: int | None = None) -> PowerUsage:
    """Power usage effectiveness at a region in a year, the newest where none is named.

    Where none is published for the region the cloud's own mean stands in, and where that is not either, a judgement.

    >>> power_usage("aws", "eu-north-1").ratio.expected, power_usage("azure", "uksouth").of_what
    (1.1, 'azure')
    """
    table, figures = yearly_figures("pue.csv", "pue"), load_site_figures()
    own, fleet = (figure_of(table, (cloud, where), year) for where in (region, WHOLE_CLOUD))
    found = own or fleet
    if found is None:
        return PowerUsage(spread_of(figures.unknown_pue), None, "", Grade.ROOFLINE, JUDGEMENT)
    ratio = at_least(around(found.value, figures.pue_ratio), LEAST_PUE)
    if own is not None:
        return PowerUsage(ratio, found.year, f"{cloud} {region}", Grade.MEASURED, found.source)
    return PowerUsage(ratio, found.year, cloud, Grade.TRANSFERRED, found.source)


def figure_of(table: Figures, key: RegionKey, year: int | None) -> Yearly | None:
    """The figure of a year, of the newest where none is named."""
    years = table.get(key, {})
    return years.get(max(years, default=0) if year is None else year)


@lru_cache(maxsize=2)
def yearly_figures(name: str, column: str) -> Figures:
    """A table of yearly figures by region, then by year."""
    found: dict[RegionKey, dict[int, Yearly]] = {}
    for place, row in rows_of(SHIPPED / name, ("cloud", "region", "year", column, "source_id")):
        year, key = whole(place, "year", row["year"]) or 0, (row["cloud"], row["region"])
        figure = Yearly(year, number(place, column, row[column]) or 0.0, text(place, "source_id", row["source_id"]))
        found.setdefault(key, {})[year] = figure
    return found


def around(value: float, ratio: Sourced) -> Spread:
    """A figure with the range that figures of its kind have."""
    return Spread(value * (ratio.low or 1.0), value, value * (ratio.high or 1.0))


def spread_of(figure: Sourced) -> Spread:
    """A judgement with its range."""
    return Spread(figure.low or figure.value, figure.value, figure.high or figure.value)


def at_least(spread: Spread, least: float) -> Spread:
    """A spread whose ends are not below what is possible."""
    return Spread(max(spread.low, least), max(spread.expected, least), max(spread.high, least))
