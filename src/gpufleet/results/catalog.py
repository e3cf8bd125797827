"""Listings of the catalog: GPUs, instance types, models, prices of machines and of tokens, each row with its source."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import SCHEMA_VERSION, Dated, Result, StatedDay


class SourceNote(Dated):
    """Where figures of a listing come from, and of which day."""

    id: str
    title: str
    as_of: date | None
    url: str | None = None
    licence: str | None = None
    first_seen: date | None = None


class Listing(Result):
    """What every listing carries: notes on how names were read, what was left out, and the sources."""

    schema_version: str = SCHEMA_VERSION
    notes: list[str]
    sources: list[SourceNote]


class PriceRow(StatedDay):
    """One offer; a slice of a GPU has its price per GPU scaled up to a whole one.

    `currency`: in which the price was agreed on, before it was turned into dollars.
    """

    cloud: str
    region: str
    instance: str
    gpu: str
    gpu_count: float
    price_kind: str
    price_per_instance_usd_per_hour: float
    price_per_gpu_usd_per_hour: float
    upfront_usd: float
    basis: str
    interruption: str | None
    source: str
    as_of: date | None
    first_seen: date | None = None
    currency: str = "USD"
    until: date | None = None


class UnpricedRow(Result):
    """An instance type that is sold in a region at a price that no table holds."""

    cloud: str
    region: str
    instance: str
    gpu: str
    gpu_count: float | None
    num_zones: int | None
    source: str
    as_of: date
    foreign_price: str | None = None


class PriceListing(Listing):
    """Offers, and beside them what is sold at an unknown price; the latter is never ranked."""

    rows: list[PriceRow]
    unpriced: list[UnpricedRow]


class PlaceRow(Result):
    """A region where an instance type is sold. `usd_per_hour` by price kind holds what is known; `sold_unpriced` are
    the ways in which the cloud sells it at a price that no table holds.
    """

    cloud: str
    region: str
    zones: list[str]
    num_zones: int | None
    instance: str
    gpu: str
    gpu_count: float | None
    usd_per_hour: dict[str, float]
    sold_unpriced: list[str]
    foreign_price: str | None
    is_open: bool
    sources: list[str]


class PlaceListing(Listing):
    """Where things are sold, price known or not; the counts are of all places, also where rows were cut."""

    rows: list[PlaceRow]
    num_places: int
    num_priced: int


class RegionRow(Result):
    """A region of a cloud: where it lies, and how many machine types have a price there; None is unknown.

    `areas` are words that choose it; `num_types` are sold there at any price, `num_priced` at a known one, by kind.
    """

    cloud: str
    region: str
    place: str | None
    country: str | None
    areas: list[str]
    is_open: bool
    num_types: int
    num_priced: dict[str, int]
    sources: list[str]


class RegionListing(Listing):
    """Regions; the count is of all of them, also where rows were cut."""

    rows: list[RegionRow]
    num_regions: int


class CoverageRow(Result):
    """How much of what a cloud sells in one way has a price here. `num_regions_sold` are regions known to sell GPUs."""

    cloud: str
    price_kind: str
    regions: list[str]
    num_regions_sold: int
    num_types: int
    num_prices: int
    days: list[str]
    basis: list[str]


class CoverageListing(Listing):
    """Where prices are held at all, by cloud and price kind."""

    rows: list[CoverageRow]


class DiscountRow(Result):
    """A rule of thumb of the seeds about what a way of buying saves, beside what the prices here come to.

    `held_*`: median and extremes over the places whose both prices are held; None where there are none.
    """

    cloud: str
    price_kind: str
    saving_low_ratio: float
    saving_high_ratio: float
    grade: str
    held_low_ratio: float | None
    held_median_ratio: float | None
    held_high_ratio: float | None
    num_held: int
    source: str
    evidence: str


class DiscountListing(Listing):
    """Typical discounts: never used as prices."""

    rows: list[DiscountRow]


class GpuRow(Result):
    """One accelerator: dense peaks, links in one direction, memory as the driver reports it.

    `cheapest` is the lowest on-demand price per GPU that the tables hold; None where none does.
    """

    name: str
    vendor: str
    generation: str
    memory_bytes: float
    marketed_memory_gb: float
    bandwidth_bytes_per_s: float
    dense_peak_flop_per_s: dict[str, float]
    link_bytes_per_s_per_direction: float | None
    pcie_generation: int | None
    board_power_watts: float | None
    release_year: int | None
    cheapest: PriceRow | None
    source: str
    evidence: str
    notes: str


class GpuListing(Listing):
    """Accelerators."""

    rows: list[GpuRow]


class InstanceRow(Result):
    """One instance type; None is unknown. `cheapest` is its lowest on-demand price over regions."""

    cloud: str
    name: str
    gpu: str
    gpu_count: float | None
    gpu_memory_bytes: float | None
    vcpus: int | None
    memory_gib: float | None
    link_kind: str | None
    link_bytes_per_s_per_direction: float | None
    link: str
    link_evidence: str
    network_gbit_per_s: float | None
    local_ssd_gb: float | None
    retired: bool
    cheapest: PriceRow | None
    source: str
    evidence: str


class InstanceListing(Listing):
    """Instance types."""

    rows: list[InstanceRow]


class ModelRow(Result):
    """One shipped architecture; `weight_format` is the precision of the published checkpoint.

    `kind` says what it is: a decoder, an encoder of text, images or speech, or an encoder with a decoder.
    """

    name: str
    kind: str
    family: str
    num_parameters: int
    num_active_parameters: int
    num_layers: int
    max_context_tokens: int
    weight_format: str
    aliases: list[str]


class ModelListing(Listing):
    """Shipped architectures; `not_planned` says of other shipped configs why no plan reads them yet."""

    rows: list[ModelRow]
    not_planned: dict[str, str]


class TokenPriceRow(Dated):
    """A model at a host, in USD per million tokens; `as_of` is None where its list has no date.

    `name_there` is how the list writes it, `ends_on` the last day on which the host serves it, `doubt` why it is weak.
    """

    model: str
    host: str
    name_there: str
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    usd_per_million_cached_input_tokens: float | None
    source: str
    as_of: date | None
    first_seen: date | None
    ends_on: date | None
    doubt: str


class TokenApi(TokenPriceRow):
    """The price that an answer was compared with; `num_others_there` cost more at that host.

    `is_same_model`: the host sells the model itself, not another one of its shape.
    """

    is_same_model: bool
    num_others_there: int


class TokenPriceListing(Listing):
    """Prices of tokens, the cheapest of each model first."""

    rows: list[TokenPriceRow]
