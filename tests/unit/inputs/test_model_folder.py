"""A model's folder: what tools write beside its config.json, and configs of other tools."""

from __future__ import annotations

import json

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import read_model_config

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
OWN = {"quantization_config": {"quant_method": "fp8"}}


def folder(tmp_path, config, **beside):
    for name, content in {"config": config, **beside}.items():
        if content is not None:
            (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("own", "beside", "name"),
    [
        ({}, {"quantize_config": {"bits": 4, "group_size": 128, "desc_act": False}}, "int4"),
        ({}, {"quantize_config": {"bits": 8, "group_size": 128}}, "int8_wo"),
        ({}, {"quant_config": {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}}, "int4"),
        ({}, {"quantization_config": {"quant_method": "auto-round", "bits": 4, "group_size": 128}}, "int4"),
        (OWN, {"quantize_config": {"bits": 4}}, "fp8"),
        ({}, {}, "bf16"),
    ],
)
def test_what_a_tool_wrote_beside_the_config_is_read(tmp_path, own, beside, name):
    assert read_model_config(folder(tmp_path, {**CONFIG, **own}, **beside)).weights.name == name


def test_awq_beside_the_config_runs_by_its_own_kernels(tmp_path):
    assert read_model_config(folder(tmp_path, CONFIG, quant_config={"w_bit": 4, "q_group_size": 64})).weights.is_awq


@pytest.mark.parametrize(
    ("config", "beside", "said"),
    [
        ({**CONFIG, "quantization": {"group_size": 64, "bits": 4}}, {}, "MLX"),
        ({**CONFIG, "quantization_config": {"group_size": 64, "bits": 4, "mode": "affine"}}, {}, "MLX"),
        ({"dim": 4096, "n_layers": 32, "hidden_dim": 14336, "n_heads": 32, "vocab_size": 100}, {}, "Mistral"),
        (None, {"params": {"dim": 4096, "n_layers": 32}}, "params.json"),
        ({"dim": 7168, "n_layers": 61, "inter_dim": 18432, "vocab_size": 129280}, {}, "DeepSeek"),
        ({"dim": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": -1}, {}, "its makers"),
        ({"pretrained_config": {"architecture": "LlamaForCausalLM"}, "build_config": {}}, {}, "TensorRT-LLM"),
        ({"architecture": "LlamaForCausalLM", "num_hidden_layers": 32, "mapping": {}, "vocab_size": 1}, {}, "TensorRT"),
        (CONFIG, {"quantize_config": {"bits": 3}}, "not planned yet"),
    ],
)
def test_a_config_of_another_tool_is_refused_by_its_name(tmp_path, config, beside, said):
    with pytest.raises(UsageError, match=said) as refused:
        read_model_config(folder(tmp_path, config, **beside))
    assert refused.value.hint
