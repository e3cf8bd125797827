"""Dense decoders of 2025 that normalise queries and keys, or leave out the gate of the MLP; one function per family.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import (
    Biases,
    Layer,
    attention,
    decoder,
    gated_mlp,
    normed_over_all_heads,
    plain_mlp,
    qwen3_biases,
    two_norms,
    uniform,
)
from gpufleet.architecture.reach import Reach, layer_reaches, sliding
from gpufleet.domain.architecture import Architecture

GLOBAL_EVERY, XIELU_PARAMS = 4, 2


def olmo3(fields: ConfigFields, family: str) -> Architecture:
    """OLMo 3: the norms of OLMo 2, and windows in three layers of four."""
    biased = fields.flag("attention_bias", default=False)
    biases, mlp = Biases(query_key_value=biased, output=biased), gated_mlp(fields)
    reaches = _three_of_four(fields)
    layers = [Layer(normed_over_all_heads(attention(fields, biases, r)), mlp, two_norms(fields)) for r in reaches]
    return decoder(fields, family, layers, tied=False)


def exaone4(fields: ConfigFields, family: str) -> Architecture:
    """EXAONE 4: norms over each head of q and k, behind attention and MLP alone; windows in three layers of four."""
    mlp = gated_mlp(fields)
    mixers = [attention(fields, Biases(norms_per_head=2), reach) for reach in _three_of_four(fields)]
    return decoder(fields, family, [Layer(mixer, mlp, two_norms(fields)) for mixer in mixers], tied=False)


def _three_of_four(fields: ConfigFields) -> list[Reach]:
    """Windows in all layers but every fourth."""
    local, layers = sliding(fields, default=4096), fields.layers("num_hidden_layers")
    return layer_reaches(fields, layers, local, lambda layer: (layer + 1) % GLOBAL_EVERY != 0)


def hunyuan_dense(fields: ConfigFields, family: str) -> Architecture:
    """Hunyuan of 2025: norms over each head of q and k."""
    mixer = attention(fields, qwen3_biases(fields))
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=False)


def apertus(fields: ConfigFields, family: str) -> Architecture:
    """Apertus: an MLP without gate whose activation has two parameters of its own (xIELU)."""
    plain = plain_mlp(fields.count("intermediate_size"), fields.count("hidden_size"), biased=False)
    mlp = replace(plain, vector_params=plain.vector_params + XIELU_PARAMS)
    mixer = attention(fields, qwen3_biases(fields))
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=False, default_context=65536)


def arcee(fields: ConfigFields, family: str) -> Architecture:
    """AFM: Llama with an MLP without gate."""
    biased = fields.flag("attention_bias", default=False)
    width, hidden_size = fields.count("intermediate_size"), fields.count("hidden_size")
    mlp = plain_mlp(width, hidden_size, biased=fields.flag("mlp_bias", default=False))
    mixer = attention(fields, Biases(query_key_value=biased, output=biased))
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=False, default_context=4096)


def ernie4_5(fields: ConfigFields, family: str) -> Architecture:
    """ERNIE 4.5 without experts: Llama with a tied embedding."""
    biased = fields.flag("use_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), default_head_dim=128)
    mlp = gated_mlp(fields, biased=biased)
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=True, default_context=131072)
