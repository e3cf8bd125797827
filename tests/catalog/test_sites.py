"""Carbon of grids and power usage of sites: published, near by, or judged, and said which."""

from __future__ import annotations

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.sites import grid_carbon, load_site_figures, power_usage, yearly_figures
from gpufleet.provenance import Grade

SHIPPED = load_catalog()
CARBON, PUE = yearly_figures("grid_carbon.csv", "g_co2e_per_kwh"), yearly_figures("pue.csv", "pue")


def test_every_figure_is_of_a_known_region_and_names_a_source() -> None:
    for table in (CARBON, PUE):
        for key, years in table.items():
            assert key in SHIPPED.located_regions or key[1] == "all", key
            for year, figure in years.items():
                assert 2019 <= year <= 2025
                assert figure.source in SHIPPED.sources


def test_figures_are_possible() -> None:
    assert all(0 <= figure.value < 1000 for years in CARBON.values() for figure in years.values())
    assert all(1 <= figure.value < 1.6 for years in PUE.values() for figure in years.values())


@pytest.mark.parametrize(
    ("cloud", "region", "year", "g_co2e_per_kwh"),
    [
        ("gcp", "europe-north2", 2024, 2.73),
        ("gcp", "us-central1", 2024, 412.7),
        ("gcp", "asia-south1", 2019, 752.0),
        ("aws", "us-east-1", 2024, 396.2),
        ("azure", "swedencentral", 2023, 24.71),
    ],
)
def test_a_region_has_the_published_figure_of_the_year(
    cloud: str, region: str, year: int, g_co2e_per_kwh: float
) -> None:
    found = grid_carbon(SHIPPED, cloud, region, year)
    assert found is not None
    assert found.g_co2e_per_kwh.expected == pytest.approx(g_co2e_per_kwh, rel=1e-3)
    assert (found.year, found.grade, found.of_region) == (year, Grade.MEASURED, f"{cloud} {region}")
    assert found.g_co2e_per_kwh.low < found.g_co2e_per_kwh.expected < found.g_co2e_per_kwh.high


def test_without_a_year_the_newest_counts_and_a_year_without_a_figure_is_unknown() -> None:
    newest = grid_carbon(SHIPPED, "gcp", "us-central1")
    assert newest is not None
    assert newest.year == max(CARBON["gcp", "us-central1"])
    assert grid_carbon(SHIPPED, "gcp", "us-central1", 1999) is None


def test_a_region_without_a_figure_takes_one_near_by_in_its_country_and_says_whose() -> None:
    found = grid_carbon(SHIPPED, "nebius", "eu-north1")
    assert found is not None
    assert (found.grade, found.of_region) == (Grade.TRANSFERRED, "gcp europe-north1")


@pytest.mark.parametrize(
    ("cloud", "region"), [("verda", "ICE-01"), ("aws", "us-west-2-hnl-1"), ("lambda", "asia-south-1"), ("aws", "all")]
)
def test_far_from_every_figure_carbon_is_unknown(cloud: str, region: str) -> None:
    assert grid_carbon(SHIPPED, cloud, region) is None


def test_power_usage_is_the_regions_else_the_clouds_else_a_judgement() -> None:
    own, fleet, none = power_usage("aws", "eu-north-1"), power_usage("azure", "uksouth"), power_usage("verda", "FIN-01")
    assert (own.ratio.expected, own.of_what, own.grade) == (1.1, "aws eu-north-1", Grade.MEASURED)
    assert (fleet.ratio.expected, fleet.of_what, fleet.grade) == (1.17, "azure", Grade.TRANSFERRED)
    assert (none.ratio.expected, none.year, none.grade) == (1.3, None, Grade.ROOFLINE)
    assert none.source in SHIPPED.sources
    assert min(usage.ratio.low for usage in (own, fleet, none)) >= 1


def test_the_range_of_carbon_holds_two_tables_of_one_grid_eight_times_of_ten() -> None:
    ratio, near = load_site_figures().grid_carbon_ratio, []
    for key, other in ((("aws", "us-east-1"), ("gcp", "us-east4")), (("aws", "eu-central-1"), ("gcp", "europe-west3"))):
        for year in CARBON[key].keys() & CARBON[other].keys():
            near.append(CARBON[key][year].value / CARBON[other][year].value)
    assert sum(ratio.low <= each <= ratio.high for each in near) >= 0.6 * len(near) > 0
