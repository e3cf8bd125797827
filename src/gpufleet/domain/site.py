"""What is known of the site of a region: its grid, its cooling, and what is taken where nobody says it."""

from __future__ import annotations

from gpufleet.domain.interruption import Spread
from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass


@dataclass(frozen=True)
class GridCarbon:
    """What a kWh of a region's grid emitted in a year, with the range in which tables of one grid lie.

    `of_region` is the region that the figure was published for; where none is of the region's own, it is another one
    near by in the same country, and the grade says transferred.
    """

    g_co2e_per_kwh: Spread
    year: int
    of_region: str
    grade: Grade
    source: str


@dataclass(frozen=True)
class PowerUsage:
    """Power usage effectiveness: what a site draws over what its machines draw, in a year.

    `of_what` is the region, the whole cloud, or empty where nothing is published and a judgement stands in.
    """

    ratio: Spread
    year: int | None
    of_what: str
    grade: Grade
    source: str


@dataclass(frozen=True)
class SiteFigures:
    """What is taken where no table says it: bytes of an answer, power beside GPUs, ranges, the day of users."""

    bytes_per_streamed_token: Sourced
    bytes_per_whole_token: Sourced
    machine_over_gpu_watts: Sourced
    unknown_pue: Sourced
    grid_carbon_ratio: Sourced
    pue_ratio: Sourced
    users_peak_over_mean: Sourced
    users_peak_hour: Sourced
