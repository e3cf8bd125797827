"""Shipped models by the names that people type."""

from __future__ import annotations

import pytest

from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import (
    folded_name,
    hub_id,
    load_model_config,
    model_aliases,
    model_names,
    resolve_model_name,
    shipped_architecture,
)
from gpufleet.catalog.stored_formats import split_name
from gpufleet.errors import UnknownName, UsageError
from gpufleet.units import GIB


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
        ("google/gemma-3-12b-it", "gemma-3-12b"),
    ],
)
def test_names_people_type(typed, model):
    assert resolve_model_name(typed).id == model


@pytest.mark.parametrize(
    "typed",
    [
        *("mistral-7b", "llama", "qwen", "", " ", "/", "-awq", "/-awq", "qwen/", "awq", "gguf", "a/b/llama-3.1-8b"),
        *(
            "meta-llama/Llama-Guard-4-12B",
            "nvidia/Llama-3.1-Minitron-4B-Width-Base",
            "Mixtral-8x22B-v0.1-it-AWQ",
        ),
        *(
            "Qwen/Qwen3-ASR-1.7B",
            "nvidia/Llama-3_1-Nemotron-51B-Instruct",
            "Qwen3-8B-4bit",
            "openai/whisper-large-v3-AWQ",
        ),
        *("Qwen3-8B-" * 400 + "AWQ", "qwen3-8b-awq-awq", "Llama-2-7B-32K-Instruct", "TheBloke/Mistral-7B-AWQ"),
    ],
)
def test_names_of_other_models_and_ambiguous_names_are_not_guessed(typed):
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


# (id as on the hub, model, weights of its matrices, bytes of one, cache format that it brings scales for)
QUANTISED = [
    ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "llama-3.1-8b", "int4", 0.51953125, None),
    ("casperhansen/llama-3-70b-instruct-awq", "llama-3-70b", "int4", 0.51953125, None),
    ("TheBloke/Llama-2-7B-Chat-GPTQ", "llama-2-7b", "int4", 0.51953125, None),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b", "int8_wo", 1.0, None),
    ("Qwen/Qwen3-8B-AWQ", "qwen3-8b", "int4", 0.51953125, None),
    ("Qwen/Qwen3-14B-FP8", "qwen3-14b", "fp8_block", 1.000244140625, None),
    ("RedHatAI/Qwen3-14B-FP8-dynamic", "qwen3-14b", "fp8", 1.0, None),
    ("RedHatAI/Qwen3-32B-FP8", "qwen3-32b", "fp8", 1.0, None),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b", "fp8", 1.0, "fp8"),
    ("neuralmagic/Meta-Llama-3-8B-Instruct-FP8-KV", "llama-3-8b", "fp8", 1.0, "fp8"),
    ("nvidia/Llama-3.3-70B-Instruct-FP4", "llama-3.3-70b", "nvfp4", 0.5625, "fp8"),
    ("RedHatAI/Llama-3.3-70B-Instruct-NVFP4", "llama-3.3-70b", "nvfp4", 0.5625, None),
    ("nvidia/DeepSeek-R1-0528-FP4", "deepseek-v3", "nvfp4", 0.5625, "fp8"),
    ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "llama-3.1-70b", "int4", 0.515625, None),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b", "int8", 1.0, None),
    ("RedHatAI/gemma-2-9b-it-quantized.w8a16", "gemma-2-9b", "int8_wo", 1.0, None),
    ("unsloth/llama-3-8b-Instruct-bnb-4bit", "llama-3-8b", "nf4", 0.515869140625, None),
    ("unsloth/Qwen3-14B-unsloth-bnb-4bit", "qwen3-14b", "nf4", 0.515869140625, None),
    ("unsloth/Qwen3-8B-GGUF:Q8_0", "qwen3-8b", "q8_0", 1.0626, None),
    ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:q4_k_m", "llama-3.1-8b", "q4_k_m", 0.6118, None),
    ("unsloth/gpt-oss-20b-BF16", "gpt-oss-20b", "bf16", 2.0, None),
]


@pytest.mark.parametrize(
    ("typed", "model", "weights", "bytes_per_element", "kv"), QUANTISED, ids=[q[0] for q in QUANTISED]
)
def test_a_name_that_ends_in_a_number_format_is_the_model_so_stored(typed, model, weights, bytes_per_element, kv):
    arch, plain = shipped_architecture(typed), shipped_architecture(model)
    assert resolve_model_name(typed).id == model
    assert (arch.weights.mlp.name, arch.weights.mlp.bytes_per_element) == (weights, bytes_per_element)
    assert (arch.weights.kv and arch.weights.kv.name) == kv
    assert num_parameters(arch) == num_parameters(plain)
    assert any("as its name says" in note or note.startswith("By its name alone") for note in arch.notes)
    assert hub_id(typed) == typed


def test_a_quantised_name_without_an_owner_names_no_repository():
    """Anybody may have published it."""
    assert hub_id("Qwen3-8B-AWQ") is None
    assert hub_id("qwen3-8b") == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("NousResearch/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("unsloth/gemma-2-9b-it", "gemma-2-9b"),
        ("Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("qwen3-8b-q4_k_m", "qwen3-8b"),
    ],
)
def test_owners_and_words_for_tuning_change_no_shape(typed, model):
    assert resolve_model_name(typed).id == model


def test_a_checkpoint_that_ships_with_its_own_config_is_not_read_by_rule():
    assert resolve_model_name("nvidia/Llama-3.1-70B-Instruct-FP8").id == "llama-3.1-70b-fp8"
    assert resolve_model_name("Qwen/Qwen3-32B-FP8").stored is None


def test_a_file_of_llama_cpp_weighs_what_its_table_says():
    """ggml-org/llama.cpp tools/quantize/README.md: Llama 3.1 8B in Q4_K_M is 4.58 GiB, in Q8_0 7.95 GiB."""
    for file_type, published_gib in (("Q4_K_M", 4.58), ("Q8_0", 7.95), ("IQ4_XS", 4.17), ("F16", 14.96)):
        arch = shipped_architecture(f"bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:{file_type}")
        assert weights_bytes(arch, arch.weights) / GIB == pytest.approx(published_gib, rel=0.003)


def test_llama_cpp_takes_q4_k_m_where_no_type_is_named():
    assert (
        resolve_model_name("x/Qwen3-8B-GGUF").name == resolve_model_name("x/Qwen3-8B-GGUF:").name == "qwen3-8b-q4_k_m"
    )


@pytest.mark.parametrize("typed", ["x/Qwen3-8B-GGUF:Q9_Z", "x/Qwen3-8B-MLX-4bit", "x/Qwen3-8B-exl2"])
def test_formats_that_nothing_here_runs_are_said_to_be_so(typed):
    with pytest.raises(UsageError, match=r"file type|Apple silicon|ExLlama"):
        resolve_model_name(typed)


def published_quantised() -> list[tuple[str, str]]:
    """Hub ids of checkpoints that ship with their own quantisation, whose names and plain models a rule reads too."""
    found = []
    for hub in model_aliases():
        owner, _, bare = folded_name(hub).rpartition("/")
        cut = split_name(owner, bare) if owner else None
        if cut is not None and cut[0] in {folded_name(name) for name in model_aliases()}:
            found.append((hub, cut[0]))
    return found


PUBLISHED = published_quantised()
OTHER_FORMATS = (
    *("sgl-project/DeepSeek-V4-Flash-FP8", "sgl-project/DeepSeek-V4-Pro-FP8"),  # converted from MXFP4 experts
    *("nvidia/Qwen3.6-27B-NVFP4", "nvidia/Qwen3.6-35B-A3B-NVFP4"),  # attention in fp8, which others leave in 16 bits
)


def test_more_than_20_published_configs_are_compared():
    assert len(PUBLISHED) > 20


@pytest.mark.slow
@pytest.mark.parametrize(("hub", "plain"), [p for p in PUBLISHED if p[0] not in OTHER_FORMATS], ids=lambda p: p)
def test_the_rule_of_a_name_agrees_with_the_config_that_was_published_under_it(hub, plain):
    """Bytes of the weights within 5 %: shared experts, first layers and some projections are skipped model by model."""
    owner, _, bare = folded_name(hub).rpartition("/")
    cut = split_name(owner, bare)
    own = shipped_architecture(hub)
    ruled = parse_architecture(cut[1].of(load_model_config(plain)), "ruled")
    assert own.weights.name == ruled.weights.name
    held, said = (float(weights_bytes(a, a.weights)) for a in (own, ruled))
    assert said == pytest.approx(held, rel=0.05)
