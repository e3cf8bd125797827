"""Data residency: a machine is offered only where the user said that it may stand."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from gpufleet.catalog.areas import area_words, chosen_regions, region_notes
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.cli import main
from gpufleet.errors import UnknownName, UsageError

CATALOG = load_catalog()
SERVE = ["plan", "serve", "llama-3.1-8b", "--rate", "2/s", "--in", "500", "--out", "100"]
EU_MEMBERS = 27


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def countries_of(area: str) -> set[str]:
    regions = chosen_regions(CATALOG, [area]).areas[area]
    return {region.country for region in regions}


def test_every_region_that_sells_anything_lies_in_a_country_of_the_tables() -> None:
    sold = {(cloud, region) for cloud, regions in CATALOG.regions.items() for region in regions}
    assert sold - set(CATALOG.located_regions) == {
        (cloud, EVERYWHERE) for cloud, regions in CATALOG.regions.items() if EVERYWHERE in regions
    }
    assert {region.country for region in CATALOG.located_regions.values()} <= set(CATALOG.countries)


def test_a_name_that_two_clouds_give_to_regions_means_one_country() -> None:
    by_name: dict[str, set[str]] = {}
    for region in CATALOG.located_regions.values():
        by_name.setdefault(region.region, set()).add(region.country)
    assert {name: found for name, found in by_name.items() if len(found) > 1} == {}


def test_no_area_is_called_like_a_region() -> None:
    names = {region.region.casefold() for region in CATALOG.located_regions.values()}
    assert not names & set(area_words(CATALOG))


def test_the_european_union_is_its_members_and_not_london_zurich_or_oslo() -> None:
    assert len(area_words(CATALOG)["eu"]) == EU_MEMBERS
    outside = {"GB", "CH", "NO", "IS"}
    assert not countries_of("eu") & outside
    assert outside <= countries_of("europe")
    assert area_words(CATALOG)["eu"] < area_words(CATALOG)["eea"] < area_words(CATALOG)["europe"]


def test_a_country_may_be_named() -> None:
    assert {(r.cloud, r.region) for r in chosen_regions(CATALOG, ["Germany"], ["aws", "gcp"]).areas["Germany"]} == {
        ("aws", "eu-central-1"),
        ("aws", "eu-central-1-ham-1"),
        ("gcp", "europe-west3"),
        ("gcp", "europe-west10"),
    }


def test_government_regions_are_not_meant_by_an_area() -> None:
    assert not set(chosen_regions(CATALOG, ["us"]).regions or ()) & {"us-gov-east-1", "us-gov-west-1"}


def test_all_alone_is_no_restriction() -> None:
    assert chosen_regions(CATALOG, ["all"]).regions is None


@pytest.mark.parametrize("asked", [["eu-central-1"], ["FIN"], ["westeurope"], ["eu"]])
def test_prices_of_every_region_are_left_out_and_counted(asked: list[str]) -> None:
    chosen = chosen_regions(CATALOG, asked)
    wanted = OfferFilter(regions=chosen.regions)
    assert not {offer.region for offer in matching_offers(CATALOG, wanted)} & {EVERYWHERE}
    held = matching_offers(CATALOG, OfferFilter(regions=[EVERYWHERE]))
    clouds = ", ".join(sorted({offer.cloud for offer in held}))
    assert {"lambda", "oci", "runpod"} <= {offer.cloud for offer in held}
    assert f"Left out: {len(held)} prices of {clouds}" in " ".join(region_notes(CATALOG, wanted, chosen.areas))


def test_they_are_taken_where_all_is_named_too() -> None:
    chosen = chosen_regions(CATALOG, ["FIN", "all"])
    wanted = OfferFilter(regions=chosen.regions)
    assert {offer.region for offer in matching_offers(CATALOG, wanted)} == {"FIN", EVERYWHERE}
    assert region_notes(CATALOG, wanted, chosen.areas) == []


def test_a_region_of_another_cloud_says_whose_it_is() -> None:
    with pytest.raises(UsageError, match=r"FIN is no region of aws or azure\. It is a region of verda"):
        chosen_regions(CATALOG, ["FIN"], ["aws", "azure"])
    with pytest.raises(UsageError, match=r"no region of verda lies in us\. Its regions: FIN"):
        chosen_regions(CATALOG, ["us"], ["verda"])
    with pytest.raises(UnknownName, match="germany"):
        chosen_regions(CATALOG, ["germny"])


def test_a_plan_within_the_union_names_no_other_place(capsys: pytest.CaptureFixture[str]) -> None:
    rows = csv.DictReader(io.StringIO(printed(capsys, *SERVE, "--regions", "eu", "--rows", "200", "-o", "csv")))
    members = area_words(CATALOG)["eu"]
    places = {(row["cloud"], row["region"]) for row in rows}
    assert len(places) > 3
    assert {CATALOG.located_regions[place].country for place in places} <= members


def test_a_plan_says_how_many_prices_it_left_out_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    page = " ".join(printed(capsys, *SERVE, "--regions", "FIN").split())
    assert re.search(r"Left out: \d+ prices of [a-z, -]*lambda, oci, runpod, vultr that are one for all regions", page)
    assert "Left out" not in printed(capsys, *SERVE)


def test_the_region_is_never_hidden_where_regions_were_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    batch = ["plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "500", "--out", "100", "--deadline", "24h"]
    models = "models:\n  - { model: llama-3.1-8b, rate: 5/s, in: 1000, out: 200 }\n"
    several = tmp_path / "several.yaml"
    several.write_text(models + "  - { model: qwen3-32b, rate: 2/s, in: 2000, out: 300 }\n", encoding="utf-8")
    for words in (SERVE, batch, ["plan", "serve", "--workload", str(several)]):
        page = printed(capsys, *words, "--regions", "FIN")
        assert sum("verda" in line and "FIN" in line for line in page.splitlines()) > 1, page
        assert max(map(len, page.splitlines())) <= 80


def test_regions_are_listed_plainly_with_their_countries(capsys: pytest.CaptureFixture[str]) -> None:
    listing = json.loads(printed(capsys, "catalog", "regions", "--cloud", "aws", "--region", "eu", "-o", "json"))
    rows = {row["region"]: row for row in listing["rows"]}
    members = {CATALOG.countries[code].name for code in area_words(CATALOG)["eu"]}
    assert listing["num_regions"] == len(rows) > 5
    assert {row["country"] for row in rows.values()} <= members
    assert rows["eu-central-1"]["country"] == rows["eu-central-1-ham-1"]["country"] == "Germany"
    assert rows["eu-central-1"]["num_priced"]["on_demand"] > 50
    assert rows["eu-central-1"]["num_types"] > 0
    assert "germany" in rows["eu-central-1"]["areas"]


def test_a_region_that_no_table_knows_is_not_taken_for_a_place_in_the_area(tmp_path: Path) -> None:
    owned = (
        '[box]\naccelerator = "L40S"\npurchase_usd = 9000\nyears = 4\npower_watts = 500\n'
        "electricity_usd_per_kwh = 0.2\nas_of = 2026-10-01\n"
    )
    (tmp_path / "owned.toml").write_text(owned, encoding="utf-8")
    catalog = load_catalog(tmp_path)
    chosen = chosen_regions(catalog, ["eu"])
    wanted = OfferFilter(regions=chosen.regions)
    assert "own" not in {offer.cloud for offer in matching_offers(catalog, wanted)}
    assert any("not known here, own home" in note for note in region_notes(catalog, wanted, chosen.areas))
