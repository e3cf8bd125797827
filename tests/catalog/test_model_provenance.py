"""Configs that no shipped table holds: where they come from, and that they count as published."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpufleet
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.models import load_model_config, model_names, shipped_architecture
from gpufleet.units import GB as GIGA

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

FILE = Path(gpufleet.__file__).parent / "data" / "architectures" / "provenance.toml"
PROVENANCE = tomllib.loads(FILE.read_text(encoding="utf-8"))

NAMED_BILLIONS = {
    "deepseek-v2": 236,  # arXiv:2405.04434, abstract
    "kimi-linear-48b-a3b": 48,  # arXiv:2510.26692, abstract
    "mamba2-2.7b": 2.7,  # arXiv:2405.21060
    "nemotron-h-56b": 56,  # arXiv:2504.03624, abstract
    "olmoe-1b-7b": 6.9,  # arXiv:2409.02060, abstract
    "phi-3-medium-4k": 14,  # arXiv:2404.14219
    "phi-3.5-moe": 42,  # arXiv:2404.14219
    "phi-4-mini": 3.8,  # arXiv:2503.01743
    "qwen2-57b-a14b": 57,  # arXiv:2407.10671, table 1
    "qwen-7b": 7.72,  # a public table of its checkpoint
}


@pytest.mark.parametrize("name", sorted(PROVENANCE))
def test_a_config_says_where_it_comes_from_and_which_fields_nobody_confirmed(name: str) -> None:
    entry, config = PROVENANCE[name], load_model_config(name)
    assert name in model_names()
    assert entry["hub"].count("/") == 1
    assert entry["evidence"]
    assert set(entry["unconfirmed"]) <= set(config)


@pytest.mark.parametrize(("name", "billions"), NAMED_BILLIONS.items())
def test_these_configs_are_as_large_as_they_are_named(name: str, billions: float) -> None:
    """Sizes as their papers round them: 2.5 %."""
    assert num_parameters(shipped_architecture(name)) / GIGA == pytest.approx(billions, rel=0.025)


def test_qwen_3_8_27b_is_qwen_3_5_27b_and_its_prediction_layer() -> None:
    """Qwen/Qwen3.8-27B: 27,781,427,952 in its safetensors; one full-attention layer, a joint of two inputs, norms."""
    hidden, width, heads, kv_heads, head_dim = 5120, 17408, 24, 4, 256
    attention = hidden * head_dim * (2 * heads + 2 * kv_heads) + heads * head_dim * hidden + 2 * head_dim
    layer = attention + 3 * hidden * width + 2 * hidden
    joint = 2 * hidden * hidden + 3 * hidden
    assert num_parameters(shipped_architecture("qwen3.5-27b")) + layer + joint == 27_781_427_952
    assert num_parameters(shipped_architecture("Qwen/Qwen3.8-27B-FP8")) + layer + joint == 27_781_427_952


def test_qwen_7b_is_served_up_to_its_sequence_length() -> None:
    assert shipped_architecture("qwen-7b").max_context_tokens == 8192
