"""Dense decoders with RMS norms and rotary positions: one function per family, config fields to `Architecture`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import (
    Biases,
    Layer,
    attention,
    decoder,
    gated_mlp,
    qwen3_biases,
    qwen_mixers,
    two_norms,
    uniform,
)
from gpufleet.architecture.reach import layer_reaches, sliding
from gpufleet.domain.architecture import Architecture, Attention, DenseMlp


def llama(fields: ConfigFields, family: str) -> Architecture:
    """Llama 1 to 3, and the many models of the same shape."""
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased))
    mlp = gated_mlp(fields, biased=fields.flag("mlp_bias", default=False))
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=False)


def mistral(fields: ConfigFields, family: str) -> Architecture:
    """Mistral: every layer slides over a window where the config names one."""
    window = sliding(fields, default=4096)
    reaches = layer_reaches(fields, fields.layers("num_hidden_layers"), window, lambda _: True)
    mlp = gated_mlp(fields)
    layers = [Layer(attention(fields, Biases(), r, default_kv_heads=8), mlp, two_norms(fields)) for r in reaches]
    return decoder(fields, family, layers, tied=False, default_context=131072)


def _alike(fields: ConfigFields, mixers: Sequence[Attention], feed_forward: DenseMlp) -> list[Layer]:
    return [Layer(mixer, feed_forward, two_norms(fields)) for mixer in mixers]


def qwen2(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 1.5 to 2.5: biases on q, k and v."""
    mixers = qwen_mixers(fields, Biases(query_key_value=True))
    return decoder(fields, family, _alike(fields, mixers, gated_mlp(fields)), tied=False, default_context=32768)


def qwen3(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 3: norms over each head of q and k."""
    mixers = qwen_mixers(fields, qwen3_biases(fields), default_head_dim=128)
    return decoder(fields, family, _alike(fields, mixers, gated_mlp(fields)), tied=False, default_context=32768)


def gemma(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 1: tied embedding, heads of 256."""
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), default_head_dim=256)
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=True, default_context=8192)


def gemma2(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 2: four norms a layer; every other layer slides, the first one first."""
    hidden_size, num_layers = fields.count("hidden_size"), fields.layers("num_hidden_layers")
    reaches = layer_reaches(fields, num_layers, sliding(fields, default=4096), lambda layer: layer % 2 == 0)
    mlp, biased = gated_mlp(fields), fields.flag("attention_bias", default=False)
    biases = Biases(query_key_value=biased, output=biased)
    layers = [Layer(attention(fields, biases, r, default_head_dim=256), mlp, 4 * hidden_size) for r in reaches]
    return decoder(fields, family, layers, tied=True, default_context=8192)


def gemma3_text(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 3: norms on q and k, four norms a layer, one global layer after every five local ones."""
    hidden_size, num_layers = fields.count("hidden_size"), fields.layers("num_hidden_layers")
    pattern = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    local = sliding(fields, default=4096)
    reaches = layer_reaches(fields, num_layers, local, lambda layer: (layer + 1) % pattern != 0)
    biased = fields.flag("attention_bias", default=False)
    biases = Biases(query_key_value=biased, output=biased, norms_per_head=2)
    mixers = {
        reach: attention(fields, biases, reach, default_head_dim=256, default_heads=8, default_kv_heads=4)
        for reach in set(reaches)
    }
    mlp = gated_mlp(fields)
    layers = [Layer(mixers[reach], mlp, 4 * hidden_size) for reach in reaches]
    return decoder(fields, family, layers, tied=True, default_context=131072, default_vocab=262208)


def phi3(fields: ConfigFields, family: str) -> Architecture:
    """Phi 3 and 4: Llama's shape with a window where the config names one."""
    mixer = attention(fields, Biases(), sliding(fields))
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=False, default_context=4096)
