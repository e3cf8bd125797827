"""Images as tokens: each family by the rule of its own processor."""

from __future__ import annotations

import pytest

from gpufleet.architecture.parse import parse_architecture
from gpufleet.architecture.vision import image_tokens, vision_flop
from gpufleet.catalog.models import load_model_config, shipped_architecture


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("qwen2.5-vl-7b", 1024, 1024, 37 * 37),  # sides rounded to multiples of 28: 1036 x 1036
        ("qwen2.5-vl-7b", 640, 480, 23 * 17),  # 644 x 476
        ("qwen2.5-vl-7b", 10_000, 10_000, 128 * 128),  # at most 16,384 tokens
        ("qwen3-vl-8b", 1024, 1024, 32 * 32),  # 32 pixels a token
        ("llava-1.5-7b", 1024, 1024, 576),  # 336 x 336 in patches of 14, whatever it was (arXiv:2310.03744)
        ("llava-1.5-7b", 100, 3000, 576),
        ("gemma-3-12b", 1024, 1024, 256),  # arXiv:2503.19786, section 2
        ("pixtral-12b", 1024, 1024, 64 * 65),  # arXiv:2410.07073: patches of 16, one [IMG_BREAK] or [IMG_END] a row
        ("pixtral-12b", 2048, 1024, 32 * 65),  # shrunk to 1024 x 512
        ("mistral-small-3.1-24b", 1540, 1540, 55 * 56),  # 28 pixels a token
        ("internvl3-8b", 448, 448, 256),  # arXiv:2404.16821, section 3.3: tiles of 448, 256 tokens each
        ("internvl3-8b", 1024, 1024, (9 + 1) * 256),  # 3 x 3 tiles and the whole image once more
        ("internvl3-8b", 1024, 768, (12 + 1) * 256),
    ],
)
def test_an_image_becomes_as_many_tokens_as_its_processor_makes(model, width, height, tokens):
    assert image_tokens(shipped_architecture(model).vision, width, height) == tokens


@pytest.mark.parametrize(
    "model", ["qwen2.5-vl-7b", "qwen3-vl-8b", "llava-1.5-7b", "pixtral-12b", "mistral-small-3.1-24b", "internvl3-8b"]
)
@pytest.mark.parametrize("size", [(1, 1), (1, 20_000), (20_000, 1), (20_000, 20_000)])
def test_the_oddest_image_is_at_least_one_token_and_no_more_than_the_largest(model, size):
    tower = shipped_architecture(model).vision
    assert 1 <= image_tokens(tower, *size) <= max(tower.largest_image_tokens, 55 * 56, 64 * 65)


def test_windows_make_attention_within_an_image_cheaper():
    """Qwen2.5-VL: 28 of 32 layers see 8 x 8 patches (arXiv:2502.13923, section 2.1)."""
    tower = shipped_architecture("qwen2.5-vl-7b").vision
    assert (tower.num_windowed_layers, tower.window_patches) == (28, 64)
    apart = float(vision_flop(tower, 1369, 0.0))
    attention = float(vision_flop(tower, 1369, 4 * 1369)) - apart
    assert attention == pytest.approx(4 * 1280 * 5476 * (4 * 5476 + 28 * 64))


def test_text_of_qwen2_vl_is_read_from_beside_the_tower_and_from_within_it():
    """Configs of 2024 keep the text model's fields at the top, transformers 5 in text_config."""
    flat = load_model_config("qwen2.5-vl-7b")
    vision = flat["vision_config"]
    inner = {k: v for k, v in flat.items() if k not in ("vision_config", "model_type", "architectures")}
    nested = {"model_type": "qwen2_5_vl", "vision_config": vision, "text_config": inner}
    assert parse_architecture(flat, "m").blocks == parse_architecture(nested, "m").blocks
