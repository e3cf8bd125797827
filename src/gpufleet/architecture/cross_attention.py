"""Llama 3.2 Vision: layers between those of the language model read an image by cross-attention.

The image is no part of the prompt: its patches are keys and values of those layers alone. A prompt without one skips
them, so here they hold their weights and keep nothing of the text.
"""

from __future__ import annotations

from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import Biases, Layer, attention, decoder, gated_mlp, two_norms
from gpufleet.architecture.reach import Reach
from gpufleet.domain.architecture import Architecture, VisionTower

CROSS_EVERY, FIRST_CROSS, GATES, ROWS_FOR_IMAGES = 5, 3, 2, 8
ASPECT_RATIOS, NUM_COLOURS = 9, 3  # eight shapes of tiles, and none
NOTHING_OF_THE_TEXT = Reach(1)


def mllama_text(fields: ConfigFields, family: str) -> Architecture:
    """The language model: Llama's layers, and every fifth one with gated cross-attention and norms over each head."""
    num_layers, mlp = fields.layers("num_hidden_layers"), gated_mlp(fields)
    crossed = fields.layer_numbers("cross_attention_layers")
    crossed = frozenset(range(FIRST_CROSS, num_layers, CROSS_EVERY)) if crossed is None else crossed
    own = Layer(attention(fields, Biases(), default_kv_heads=8), mlp, two_norms(fields))
    reads = attention(fields, Biases(norms_per_head=2), NOTHING_OF_THE_TEXT, default_kv_heads=8)
    cross = Layer(replace(reads, vector_params=reads.vector_params + GATES), mlp, two_norms(fields))
    layers = [cross if layer in crossed else own for layer in range(num_layers)]
    plain = decoder(fields, family, layers, tied=False, default_context=131072, default_vocab=128256)
    note = (
        f"{len(crossed)} layers read images by cross-attention: a prompt of text alone skips them. An engine that "
        "tries images when it starts keeps far less room for text: vLLM held back 36.6 GiB for 128 sequences on one "
        "H100 (github.com/vllm-project/vllm pull/12126)"
    )
    rows = ROWS_FOR_IMAGES * plain.hidden_size
    return replace(plain, embedding_params=rows, notes=(*plain.notes, note))


def mllama_tower(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Its tower: local and gated global layers, tables of positions and of tiles, and a projector of one matrix."""
    hidden, width = fields.count("hidden_size", default=1280), fields.count("intermediate_size", default=5120)
    local, global_layers = fields.layers("num_hidden_layers", default=32), fields.layers("num_global_layers", default=8)
    patch, image = fields.count("patch_size", default=14), fields.count("image_size", default=448)
    tiles, positions = fields.count("max_num_tiles", default=4), (image // patch) ** 2 + 1
    layers = local + global_layers
    per_patch = NUM_COLOURS * patch**2 * hidden + layers * (4 * hidden**2 + 2 * hidden * width)
    seen, out = fields.count("vision_output_dim", default=7680), text.count("hidden_size")
    vectors = layers * (width + 5 * hidden) + GATES * global_layers
    tables = positions * hidden + 1 + ASPECT_RATIOS * tiles * positions * hidden
    tables += 2 * (ASPECT_RATIOS * tiles * hidden + 1) + hidden + 4 * hidden
    return VisionTower(
        num_layers=layers,
        hidden_size=hidden,
        patch_size=patch,
        patches_per_token=1,
        params=per_patch + vectors + tables + seen * out + out,
        params_per_patch=per_patch,
        params_per_token=seen * out,
        width=width,
        patch_elements=NUM_COLOURS * patch**2,
        image_size=image,
        is_cross_attended=True,
    )
