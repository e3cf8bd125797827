"""Shipped models by the names that people type."""

from __future__ import annotations

import pytest

from gpufleet.catalog.models import folded_name, model_aliases, model_names, resolve_model_name, shipped_architecture
from gpufleet.errors import UnknownName


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("llama3.3-70b", "llama-3.3-70b"),
        ("Llama 3.1 8B", "llama-3.1-8b"),
        ("LLAMA_3.1_8B", "llama-3.1-8b"),
        ("mixtral", "mixtral-8x7b"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("DeepSeek-R1", "deepseek-v3"),
        ("google/gemma-3-12b-it", "gemma-3-12b-text"),
    ],
)
def test_names_people_type(typed, model):
    assert resolve_model_name(typed).id == model


@pytest.mark.parametrize(
    "typed", ["meta-llama/Llama-3.3-70B-Instruct-FP8", "Qwen3-14B-FP8", "mistral-7b", "llama", "qwen", "", " "]
)
def test_quantised_and_ambiguous_names_are_not_guessed(typed):
    with pytest.raises(UnknownName):
        resolve_model_name(typed)


def test_a_typo_is_answered_with_the_nearest_name():
    with pytest.raises(UnknownName, match=r"llama-3\.3-70b"):
        resolve_model_name("lama-3.3-70b")


def test_every_alias_leads_to_a_shipped_model_and_to_one_only():
    known = set(model_names())
    models_by_name: dict[str, set[str]] = {}
    for alias, model in model_aliases().items():
        assert model.id in known, alias
        models_by_name.setdefault(folded_name(alias), set()).add(model.id)
    assert {name: ids for name, ids in models_by_name.items() if len(ids) > 1} == {}


def test_a_multimodal_name_says_that_only_its_text_model_is_counted():
    assert shipped_architecture("llama-4-scout").notes
    assert not shipped_architecture("llama-4-scout-text").notes


def test_checkpoints_that_were_published_quantised_ship_so():
    assert shipped_architecture("deepseek-v3").weights.name == "fp8_block"
    assert shipped_architecture("gpt-oss-20b").weights.experts.name == "mxfp4"
    assert shipped_architecture("minimax-m2.5").weights.head.name == "bf16"
