"""Classes of providers: what they allow, and how many GPUs one may expect of them at once."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from gpufleet import ServeRequest, plan_serve
from gpufleet.api.machine_notes import capacity_note
from gpufleet.api.market import clouds_asked
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.provider_classes import clouds_of_providers, easily_had_gpus, most_easily_had, providers
from gpufleet.catalog.unranked_prices import unranked_prices
from gpufleet.errors import UnknownName, UsageError

CATALOG = load_catalog()


def test_each_class_allows_what_the_more_settled_one_does_and_the_last_allows_all() -> None:
    allowed = [set(clouds_of_providers(CATALOG, [name])) for name in easily_had_gpus()]
    assert all(settled <= looser for settled, looser in pairwise(allowed))
    assert allowed[0] == {"aws", "azure", "gcp", "oci"}
    assert allowed[-1] == set(CATALOG.clouds)


def test_a_more_settled_provider_is_expected_to_have_no_fewer_gpus() -> None:
    settled_first = [easily_had_gpus()[name] for name in ("hyperscaler", "established", "small", "marketplace")]
    figures = [had.value for had in settled_first]
    assert figures == sorted(figures, reverse=True)
    assert most_easily_had() == figures[0]
    assert all(had.low < had.value < had.high for had in settled_first)


def test_every_cloud_with_a_price_is_judged_and_every_judgement_has_its_ground() -> None:
    assert {offer.cloud for offer in CATALOG.offers} <= providers().keys()
    for row in providers().values():
        assert row.evidence.startswith("judgement")
        assert row.source in CATALOG.sources or not row.source
    assert {"spheron", "primeintellect"} <= {price.provider for price in unranked_prices()} & providers().keys()


def asked(**words: Any) -> list[str] | None:
    return clouds_asked(ServeRequest("llama-3.1-8b", 1.0, 1000, 200, **words), CATALOG)


def test_providers_narrow_the_clouds_that_are_named_and_a_name_adds_one() -> None:
    assert asked(providers=["established", "verda"], clouds=["verda", "runpod", "aws"]) == ["verda", "aws"]
    assert asked(providers=["all"]) is None
    assert asked(providers=["Hyperscaler"], clouds=["all"]) == ["aws", "azure", "gcp", "oci"]
    with pytest.raises(UsageError, match=r"no cloud is left.*verda is small"):
        asked(providers=["established"], clouds=["verda"])
    with pytest.raises(UnknownName, match=r"unknown provider or class of providers 'big'.*hyperscaler"):
        asked(providers=["big"])


def test_a_plan_of_settled_providers_rents_of_no_other_and_costs_no_less() -> None:
    load = {"rate": "2/s", "input_tokens": 1000, "output_tokens": 200, "gpus": ["H100"], "rows": 50}
    free, settled = plan_serve("llama-3.1-8b", **load), plan_serve("llama-3.1-8b", providers=["established"], **load)
    assert {d.cloud for d in settled.deployments} <= set(clouds_of_providers(CATALOG, ["established"]))
    assert {d.cloud for d in free.deployments} - {d.cloud for d in settled.deployments}
    assert settled.answer.usd_per_hour >= free.answer.usd_per_hour
    assert ("providers", "established") in [(row.name, row.value) for row in settled.inputs]


def machines(cloud: str, count: int) -> Any:
    return SimpleNamespace(cloud=cloud, gpu="B300", instance_count=count, gpus_per_instance=1)


def test_what_one_may_expect_at_once_goes_by_who_sells_it() -> None:
    most = {cloud: easily_had_gpus()[name].value for cloud, name in (("verda", "small"), ("aws", "hyperscaler"))}
    for cloud, count in most.items():
        assert capacity_note(machines(cloud, int(count)), [], None) == []
        assert f"(--easily-had {count:g})" in capacity_note(machines(cloud, int(count) + 1), [], None)[0]
    assert capacity_note(machines("own", 10_000), [], None) == []
    [note] = capacity_note(machines("verda", 40), [machines("runpod", 30), machines("aws", 48)], None)
    assert "row 3 needs 48 of aws" in note
    assert capacity_note(machines("verda", 40), [], 100) == []
