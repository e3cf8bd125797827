"""What people call things, and what is meant."""

from __future__ import annotations

import pytest

from gpufleet.catalog.areas import resolve_region
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import resolve_model_name, shipped_architecture, shipped_encoder
from gpufleet.catalog.query import (
    OfferFilter,
    matching_offers,
    priced_regions,
    resolve_cloud,
    resolve_gpu,
    resolve_instance,
    unpriced,
)
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import UnknownName, UsageError
from gpufleet.provenance import SUPPOSED

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("h100", "H100-SXM"),
        ("A100", "A100-SXM4-80GB"),
        ("a100-40gb", "A100-SXM4-40GB"),
        ("V100", "V100-SXM2-16GB"),
        ("H200", "H200-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
    ],
)
def test_a_short_name_is_completed_and_that_is_said(written: str, meant: str) -> None:
    accelerator, note = resolve_gpu(CATALOG, written)
    assert accelerator.name == meant
    assert note is not None
    assert note.partition(";")[0] == f"{written} read as {meant}"


def test_a_name_that_fits_several_cards_names_the_others() -> None:
    note = resolve_gpu(CATALOG, "A100").note
    assert note == "A100 read as A100-SXM4-80GB; known too: A100-PCIe-40GB, A100-PCIe-80GB, A100-SXM4-40GB"
    assert resolve_gpu(CATALOG, "a100-40gb").note == "a100-40gb read as A100-SXM4-40GB"


@pytest.mark.parametrize("written", ["L40s", "l40s", "H100 SXM", "h100_sxm", "mi300x", "rtx 4090"])
def test_case_and_punctuation_need_no_note(written: str) -> None:
    assert resolve_gpu(CATALOG, written).note is None


def test_all_form_factors_of_h100_exist() -> None:
    names = {resolve_gpu(CATALOG, name).accelerator.name for name in ("H100-SXM", "H100-PCIe", "H100-NVL")}
    assert len(names) == 3


def test_an_unknown_gpu_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        resolve_gpu(CATALOG, "H1000")
    assert any(name.startswith("H100") for name in caught.value.nearest)


def test_regions_are_found_in_any_case_and_unknown_ones_answered_with_the_nearest() -> None:
    assert resolve_region(CATALOG, "US-East-1") == "us-east-1"
    with pytest.raises(UnknownName) as caught:
        resolve_region(CATALOG, "us-esat-1")
    assert "us-east-1" in caught.value.nearest


def test_a_region_of_another_cloud_is_not_a_region_of_this_one() -> None:
    with pytest.raises(UsageError, match=r"eastus is no region of gcp\. It is a region of azure: add azure"):
        resolve_region(CATALOG, "eastus", ["gcp"])


def test_clouds_in_any_case() -> None:
    assert resolve_cloud(CATALOG, "AWS") == "aws"
    with pytest.raises(UnknownName, match="gcp"):
        resolve_cloud(CATALOG, "gpc")


def test_instances_with_or_without_their_cloud() -> None:
    assert resolve_instance(CATALOG, "P5.48xlarge").name == "p5.48xlarge"
    assert resolve_instance(CATALOG, "azure:nd96isr_h100_v5").name == "Standard_ND96isr_H100_v5"
    with pytest.raises(UnknownName, match=r"p5\.48xlarge"):
        resolve_instance(CATALOG, "p5.48xlarg")


def test_government_regions_are_offered_only_to_who_names_them() -> None:
    everywhere = {o.region for o in matching_offers(CATALOG, OfferFilter(clouds=["aws"]))}
    named = {o.region for o in matching_offers(CATALOG, OfferFilter(regions=["us-gov-west-1"]))}
    assert "us-gov-west-1" not in everywhere
    assert "us-gov-west-1" in named


def test_a_price_for_every_region_says_not_where_its_machine_stands_so_it_matches_no_named_region() -> None:
    assert matching_offers(CATALOG, OfferFilter(clouds=["lambda"], regions=["us-east-1"])) == []
    both = OfferFilter(clouds=["lambda"], regions=["us-east-1", "all"])
    assert len(matching_offers(CATALOG, both)) == len([o for o in CATALOG.offers if o.cloud == "lambda"]) == 22


def test_a_filter_keeps_only_what_it_names() -> None:
    wanted = OfferFilter(accelerators={"L40S"}, price_kinds={PriceKind.SPOT})
    found = matching_offers(CATALOG, wanted)
    assert found
    assert all(CATALOG.accelerator_of(o).name == "L40S" and o.price_kind is PriceKind.SPOT for o in found)


def test_sold_here_at_an_unknown_price_is_never_an_offer() -> None:
    priced = {(o.cloud, o.region, o.instance) for o in CATALOG.offers}
    places = {(a.cloud, a.region, a.instance) for a in unpriced(CATALOG)}
    assert ("aws", "eu-central-1", "g7.48xlarge") in places
    assert not places & priced


@pytest.mark.parametrize("written", ["####H100", "H100!", "Н100", "H100\n4", "", "--"])
def test_a_gpu_name_is_never_cleaned_of_what_it_should_not_hold(written: str) -> None:
    with pytest.raises(UsageError, match="not a GPU name"):
        resolve_gpu(CATALOG, written)


@pytest.mark.parametrize("written", ["H-1-0-0", "H1 00", "A100-4-0GB"])
def test_digits_are_not_joined_across_a_separator(written: str) -> None:
    with pytest.raises(UnknownName):
        resolve_gpu(CATALOG, written)


@pytest.mark.parametrize(
    "written", ["４×H100", "4xH100", "4x H100", "H100:4", "H100 : 4", "H100:-3", "H100:2.5", "-3xH100"]
)
def test_a_count_where_only_a_name_belongs_is_never_lost(written: str) -> None:
    with pytest.raises(UsageError, match=r"no count here.*the name alone: 'H100'"):
        resolve_gpu(CATALOG, written)


def test_every_shipped_name_and_alias_means_what_its_table_says() -> None:
    for name in CATALOG.accelerators:
        assert resolve_gpu(CATALOG, name).accelerator.name == name
    for alias, name in CATALOG.gpu_aliases.items():
        assert resolve_gpu(CATALOG, alias).accelerator.name == name


def test_the_regions_with_a_price_are_the_ones_that_anybody_can_buy_in() -> None:
    assert {"us-east-1", "eu-west-1", "us-west-2-lax-1"} <= set(priced_regions(CATALOG, ["aws"]))
    assert not [region for region in priced_regions(CATALOG, ["aws"]) if region.startswith(("us-gov", "cn-"))]
    assert {"us-east-1", "eastus"} <= set(priced_regions(CATALOG))


def test_a_price_that_holds_everywhere_names_no_region() -> None:
    assert {offer.region for offer in CATALOG.offers if offer.cloud == "runpod"} == {"all"}
    assert priced_regions(CATALOG, ["runpod"]) == []


def test_the_hubs_suffix_may_be_left_out() -> None:
    assert resolve_model_name("llama-2-70b-chat") == resolve_model_name("Llama-2-70b-chat-hf")
    assert resolve_model_name("meta-llama/Llama-2-7b").id == "llama-2-7b"


@pytest.mark.parametrize(
    ("name", "is_supposed"),
    [
        ("acme/Llama-3.1-8B-Instruct", True),
        ("acme/Qwen3-8B-AWQ", True),
        ("meta-llama/Llama-3.1-8B-Instruct", False),
        ("Qwen/Qwen3-8B-AWQ", False),
        ("llama-3.1-8b-instruct", False),
        ("llama-3.1-8b", False),
    ],
)
def test_an_answer_about_an_id_that_nobody_knows_rests_on_its_name(name: str, is_supposed: bool) -> None:
    assert any(note.startswith(SUPPOSED) for note in shipped_architecture(name).notes) == is_supposed


def test_an_encoder_that_nobody_knows_rests_on_its_name_too() -> None:
    assert [note.startswith(SUPPOSED) for note in shipped_encoder("acme/bge-m3").notes][-2:] == [True, False]
