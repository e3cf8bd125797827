"""Parameter counts against models that were instantiated, and checkpoint bytes against published ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpufleet.architecture.parameters import num_active_parameters, num_parameters, weights_bytes
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config, shipped_architecture
from gpufleet.units import GIB

COUNTS = Path(__file__).parents[2] / "measurements" / "param_counts.csv"
with COUNTS.open(encoding="utf-8", newline="") as table:
    DECODERS = [row for row in csv.DictReader(table) if row["kind"].startswith("decoder LM")]


def test_the_table_holds_every_decoder_that_was_counted():
    assert len(DECODERS) == 237


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row["model"])
def test_shipped_config_counts_to_the_last_parameter(row):
    arch = shipped_architecture(row["model"])
    assert num_parameters(arch) == int(row["params_exact"])
    if row["active_params"]:
        assert num_active_parameters(arch) == int(row["active_params"])


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row["model"])
def test_fields_that_a_config_leaves_out_are_the_defaults_of_its_class(row):
    family = load_model_config(row["model"])["model_type"]
    arch = parse_architecture({"model_type": family, **json.loads(row["config_json"])}, row["model"])
    assert num_parameters(arch) == int(row["params_exact"])


# `total_size` in the checkpoint's model.safetensors.index.json, in its own repository on the Hugging Face hub.
INDEX_TOTAL_SIZE_BYTES = {
    "meta-llama/Llama-3.1-8B": 16_060_522_496,
    "meta-llama/Llama-3.1-70B": 141_107_412_992,
    "meta-llama/Llama-2-70b-hf": 137_953_316_864,
    "mistralai/Mixtral-8x7B-v0.1": 93_405_585_408,
    "mistralai/Mistral-7B-v0.1": 14_483_464_192,
    "Qwen/Qwen2.5-7B": 15_231_233_024,
}
# Checkpoint sizes with MXFP4 experts: gpt-oss model card (arXiv:2508.10925), table 1.
MODEL_CARD_GIB = {"openai/gpt-oss-120b": 60.8, "openai/gpt-oss-20b": 12.8}


@pytest.mark.parametrize(("model", "published_bytes"), INDEX_TOTAL_SIZE_BYTES.items())
def test_weights_of_16_bit_checkpoints_are_the_published_bytes(model, published_bytes):
    arch = shipped_architecture(model)
    assert weights_bytes(arch, arch.weights) == pytest.approx(published_bytes, rel=1e-5)


@pytest.mark.parametrize(("model", "published_gib"), MODEL_CARD_GIB.items())
def test_weights_of_quantised_checkpoints_are_within_one_percent(model, published_gib):
    arch = shipped_architecture(model)
    assert weights_bytes(arch, arch.weights) / GIB == pytest.approx(published_gib, rel=0.01)
