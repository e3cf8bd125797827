"""The longest context that engines serve, as a config says it."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.architecture.parse import parse_architecture

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 32_768,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}


@pytest.mark.parametrize(
    ("scaling", "tokens"),
    [
        (None, 32_768),
        (YARN, 131_072),
        ({**YARN, "original_max_position_embeddings": 8192}, 32_768),
        ({"type": "yarn", "factor": 2}, 65_536),
        ({"rope_type": "linear", "factor": 2.5}, 81_920),
        ({"rope_type": "dynamic", "factor": 2.0}, 65_536),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32_768),
        ({"rope_type": "longrope", "factor": 32.0}, 32_768),
        ({"rope_type": "yarn", "factor": None}, 32_768),
        ({"rope_type": "yarn", "factor": "4"}, 32_768),
        ({"rope_type": "yarn", "factor": 1e300}, 32_768),
        ("yarn", 32_768),
    ],
)
def test_rope_scaling_stretches_the_positions_as_engines_stretch_them(scaling: object, tokens: int) -> None:
    """Qwen2.5's card: 32,768 positions, 131,072 with YARN of factor 4; Llama 3.1 says its stretched 131,072 itself."""
    assert parse_architecture({**LLAMA, "rope_scaling": scaling}, "toy").max_context_tokens == tokens


def test_the_newer_name_of_rope_scaling_counts_too() -> None:
    assert parse_architecture({**LLAMA, "rope_parameters": YARN}, "toy").max_context_tokens == 131_072
