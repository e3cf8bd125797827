"""Vision towers: what they add to parameters and to the reading of a prompt with images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.cross_attention import mllama_tower
from gpufleet.domain.architecture import Architecture, VisionTower
from gpufleet.domain.arrays import Floats
from gpufleet.domain.images import Images, PromptImages
from gpufleet.errors import UsageError
from gpufleet.records import dataclass

NUM_COLOURS, ROUNDING = 3, 1e-9
QWEN2_LARGEST_IMAGE_PIXELS = 16384 * 28**2  # max_pixels of the processors of Qwen2-VL and Qwen2.5-VL
GEMMA3_POOLED, MISTRAL3_MERGED = 4, 2
INTERNVL_MERGED, INTERNVL_TILES, HALF_FILLED = 2, 12, 0.5
QWEN_LARGEST_IMAGE_PIXELS = 4096**2  # size.longest_edge of the processors of Qwen2-VL to Qwen 3.8


@dataclass(frozen=True)
class _Encoder:
    """Sizes that all towers share; `taps` count the pixels of a patch over its frames and colours."""

    hidden_size: int
    width: int
    num_layers: int
    taps: int
    merged: int

    @property
    def plain_layer(self) -> int:
        """Matrices of attention and of an MLP without gate."""
        return 4 * self.hidden_size**2 + 2 * self.hidden_size * self.width

    @property
    def plain_vectors(self) -> int:
        """Biases of all of them, and two layer norms with shifts."""
        return 9 * self.hidden_size + self.width

    @property
    def patching(self) -> int:
        """The matrix that embeds a patch."""
        return self.hidden_size * self.taps


def vision_tower(
    family: str, vision: Mapping[str, object], text: Mapping[str, object], name: str
) -> VisionTower | None:
    """The tower of a multimodal config; None where its kind is not known, so that only the text is counted."""
    build = TOWERS.get(family)
    return build(ConfigFields(vision, name), ConfigFields(text, name)) if build else None


def vision_flop(tower: VisionTower, image_tokens: Floats, patches_per_image: Floats = 0.0) -> Floats:
    """FLOP to turn images of `image_tokens` in all into tokens of the language model.

    2 x (patches x parameters per patch + image tokens x parameters per token)
    + 4 x hidden x layers x patches x patches per image   (attention within one image, or within windows)   [flop]

    >>> tower = VisionTower(27, 1152, 16, 4, 451290864, 412000000, 34603008)
    >>> round(float(vision_flop(tower, 1000)) / 1e12, 2)
    3.37
    """
    patches = image_tokens * tower.patches_per_token
    matrices = 2.0 * (patches * tower.params_per_patch + image_tokens * tower.params_per_token)
    windowed: Floats = np.minimum(patches_per_image, tower.window_patches)
    seen = (tower.num_layers - tower.num_windowed_layers) * patches_per_image + tower.num_windowed_layers * windowed
    return matrices + 4.0 * tower.hidden_size * patches * seen


def image_tokens(tower: VisionTower, width_pixels: float, height_pixels: float) -> float:
    """Tokens of one image: its patches, merged, after it is scaled as the model's processor does.

    A photo of 1,024 x 1,024 for Qwen3.5:

    >>> image_tokens(VisionTower(27, 1152, 16, 4, 451290864, 412000000, 34603008), 1024, 1024)
    1024.0
    """
    side = tower.patch_size * math.sqrt(tower.patches_per_token)
    if tower.largest_image_tokens:
        return _bounded_tokens(side, tower.largest_image_tokens, width_pixels, height_pixels)
    if tower.most_tiles:
        tiles = math.prod(tiling(tower.most_tiles, tower.image_size, width_pixels, height_pixels))
        return float((tiles + (tiles > 1)) * math.ceil(tower.image_size / side) ** 2)
    if tower.image_size and not tower.keeps_shape:
        width_pixels = height_pixels = tower.image_size
    elif tower.image_size:
        scale = min(1.0, tower.image_size / max(width_pixels, height_pixels))
        width_pixels, height_pixels = width_pixels * scale, height_pixels * scale
    columns, rows = math.ceil(width_pixels / side - ROUNDING), math.ceil(height_pixels / side - ROUNDING)
    return float(rows * (columns + tower.closes_rows))


def patches_together(tower: VisionTower, tokens: float) -> float:
    """Patches of an image that see each other: all of them, or those of one tile."""
    return float(tower.image_size // tower.patch_size) ** 2 if tower.most_tiles else tokens * tower.patches_per_token


def tiling(most: int, size: int, width_pixels: float, height_pixels: float) -> tuple[int, int]:
    """Columns and rows of the tiles, `size` pixels wide, whose shape is nearest to an image's.

    Of those that are as near, the most that the image fills by half.

    >>> tiling(12, 448, 1024, 1024), tiling(12, 448, 448, 448), tiling(12, 448, 1024, 768)
    ((3, 3), (1, 1), (4, 3))
    """
    grids = [(columns, rows) for columns in range(1, most + 1) for rows in range(1, most // columns + 1)]
    aspect, pixels, best = width_pixels / height_pixels, width_pixels * height_pixels, (1, 1)
    for grid in sorted(grids, key=math.prod):
        nearer = abs(best[0] / best[1] - aspect) - abs(grid[0] / grid[1] - aspect)
        if nearer > 0 or (nearer == 0 and pixels > HALF_FILLED * size**2 * math.prod(grid)):
            best = grid
    return best


def with_images(arch: Architecture, images: Images | None) -> Architecture:
    """The model of a question whose prompts hold images; a model that reads none is refused."""
    if images is None:
        return arch
    if arch.vision is None:
        raise UsageError(
            f"{arch.name} reads no images here",
            found=f"images of {images}",
            expected="a model whose vision tower is counted, such as qwen2.5-vl-7b",
            hint="'gpufleet catalog models' lists them; without images the question stands.",
        )
    if arch.vision.is_cross_attended:
        raise UsageError(
            f"{arch.name} reads images by cross-attention, which is not planned with images yet",
            found=f"images of {images}",
            expected="prompts of text alone, or a model that takes images into its prompt, such as qwen2.5-vl-7b",
        )
    tokens = image_tokens(arch.vision, images.width_pixels, images.height_pixels)
    flop = float(images.count * vision_flop(arch.vision, tokens, patches_together(arch.vision, tokens)))
    return replace(arch, images=PromptImages(images, images.count * tokens, flop))


def _bounded_tokens(side: float, most: int, width_pixels: float, height_pixels: float) -> float:
    """Qwen: sides rounded to whole tokens; an image with too many of them is shrunk first, its sides rounded down."""
    columns, rows = max(round(width_pixels / side), 1), max(round(height_pixels / side), 1)
    if columns * rows <= most:
        return float(columns * rows)
    shrink = math.sqrt(most * side**2 / (width_pixels * height_pixels))
    return float(max(int(width_pixels * shrink / side), 1) * max(int(height_pixels * shrink / side), 1))


def _tower(fields: ConfigFields, encoder: _Encoder, layer: int, merging: int, vectors: int) -> VisionTower:
    per_patch = encoder.patching + encoder.num_layers * layer
    return VisionTower(
        num_layers=encoder.num_layers,
        hidden_size=encoder.hidden_size,
        patch_size=fields.count("patch_size"),
        patches_per_token=encoder.merged,
        params=per_patch + merging + vectors,
        params_per_patch=per_patch,
        params_per_token=merging,
        width=encoder.width,
        patch_elements=encoder.taps,
    )


def _qwen_vl(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Qwen3-VL to Qwen 3.6: learned positions; a merger at the end, and one for each layer that feeds the text."""
    frames, patch = fields.count("temporal_patch_size", default=2), fields.count("patch_size", default=16)
    hidden = fields.count("hidden_size")
    encoder = _Encoder(
        hidden_size=hidden,
        width=fields.count("intermediate_size"),
        num_layers=fields.layers("depth"),
        taps=fields.count("in_channels", default=NUM_COLOURS) * frames * patch**2,
        merged=fields.count("spatial_merge_size", default=2) ** 2,
    )
    merged, out = encoder.merged * hidden, fields.count("out_hidden_size")
    deep = len(fields.items("deepstack_visual_indexes") or ())
    merging = (1 + deep) * (merged**2 + merged * out)
    vectors = hidden + fields.count("num_position_embeddings") * hidden
    vectors += (1 + deep) * (merged + out) + 2 * hidden + deep * 2 * merged
    tower = _tower(fields, encoder, encoder.plain_layer, merging, vectors + encoder.num_layers * encoder.plain_vectors)
    return replace(tower, largest_image_tokens=QWEN_LARGEST_IMAGE_PIXELS // (patch**2 * encoder.merged))


def _gemma4(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Gemma 4: gated MLPs without biases, norms over each head, a table of positions for each axis."""
    hidden, patch = fields.count("hidden_size"), fields.count("patch_size", default=16)
    width, layers = fields.count("intermediate_size"), fields.layers("num_hidden_layers")
    merged = fields.count("pooling_kernel_size", default=3) ** 2
    encoder = _Encoder(hidden, width, layers, NUM_COLOURS * patch**2, merged)
    heads = fields.count("num_attention_heads") + fields.count("num_key_value_heads", default=12)
    layer = 2 * hidden * heads * fields.count("head_dim") + 3 * hidden * width
    vectors = 2 * fields.count("position_embedding_size") * hidden
    vectors += layers * (4 * hidden + 2 * fields.count("head_dim"))
    return _tower(fields, encoder, layer, text.count("hidden_size") * hidden, vectors)


def _kimi(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Kimi K2.5: learned positions on a grid, a projector of two layers over merged patches."""
    hidden, patch = fields.count("vt_hidden_size", "hidden_size"), fields.count("patch_size", default=14)
    width = fields.count("vt_intermediate_size", "intermediate_size")
    layers = fields.layers("vt_num_hidden_layers", "num_hidden_layers")
    sides = fields.items("merge_kernel_size", 2) or [2, 2]
    merge = ConfigFields({"height": sides[0], "width": sides[1]}, fields.name)
    encoder = _Encoder(hidden, width, layers, NUM_COLOURS * patch**2, merge.count("height") * merge.count("width"))
    merged, out = encoder.merged * hidden, text.count("hidden_size")
    grid = fields.count("init_pos_emb_height") * fields.count("init_pos_emb_width")
    vectors = hidden * (1 + grid + 2 + 2) + merged + out
    return _tower(
        fields,
        encoder,
        encoder.plain_layer,
        merged * (merged + out),
        vectors + layers * encoder.plain_vectors,
    )


def _minimax_m3(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """MiniMax M3: rotary positions; a projector for each patch, and one for merged patches."""
    hidden, patch = fields.count("hidden_size"), fields.count("patch_size", default=14)
    width, layers = fields.count("intermediate_size"), fields.layers("num_hidden_layers")
    compression = fields.values.get("img_token_compression_config")
    nested = ConfigFields(compression if isinstance(compression, Mapping) else {}, fields.name)
    frames, side = nested.count("temporal_patch_size", default=2), nested.count("spatial_merge_size", default=2)
    encoder = _Encoder(hidden, width, layers, NUM_COLOURS * frames * patch**2, side**2)
    out = text.count("hidden_size")
    merging = hidden * out + out**2 + encoder.merged * out**2 + out**2
    vectors = 2 * hidden + 4 * out + layers * encoder.plain_vectors
    return _tower(fields, encoder, encoder.plain_layer, merging, vectors)


def _qwen2_vl(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Qwen2-VL: rotary positions, plain MLPs, a merger of 2 x 2 patches."""
    hidden, patch = fields.count("embed_dim"), fields.count("patch_size", default=14)
    width = fields.count("mlp_ratio", default=4) * hidden
    encoder = _qwen2_encoder(fields, hidden, width)
    merged, out = encoder.merged * hidden, fields.count("hidden_size")
    vectors = encoder.num_layers * encoder.plain_vectors + 2 * hidden + merged + out
    tower = _tower(fields, encoder, encoder.plain_layer, merged**2 + merged * out, vectors)
    return replace(tower, largest_image_tokens=QWEN2_LARGEST_IMAGE_PIXELS // (patch**2 * encoder.merged))


def _qwen2_5_vl(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Qwen2.5-VL: gated MLPs with biases, RMS norms, windows of 112 pixels in all layers but a few."""
    hidden, patch = fields.count("hidden_size"), fields.count("patch_size", default=14)
    width = fields.count("intermediate_size")
    encoder = _qwen2_encoder(fields, hidden, width)
    merged, out = encoder.merged * hidden, fields.count("out_hidden_size")
    vectors = encoder.num_layers * (7 * hidden + 2 * width) + hidden + merged + out
    tower = _tower(fields, encoder, 4 * hidden**2 + 3 * hidden * width, merged**2 + merged * out, vectors)
    return replace(
        tower,
        largest_image_tokens=QWEN2_LARGEST_IMAGE_PIXELS // (patch**2 * encoder.merged),
        num_windowed_layers=max(encoder.num_layers - len(fields.items("fullatt_block_indexes") or ()), 0),
        window_patches=(fields.count("window_size", default=112) // patch) ** 2,
    )


def _qwen2_encoder(fields: ConfigFields, hidden: int, width: int) -> _Encoder:
    frames, patch = fields.count("temporal_patch_size", default=2), fields.count("patch_size", default=14)
    taps = fields.count("in_channels", "in_chans", default=NUM_COLOURS) * frames * patch**2
    merged = fields.count("spatial_merge_size", default=2) ** 2
    return _Encoder(hidden, width, fields.layers("depth", default=32), taps, merged)


def _clip_like(fields: ConfigFields, merged: int = 1) -> tuple[_Encoder, int]:
    """CLIP and SigLIP: learned positions; the encoder, and how many patches an image has."""
    patch, image = fields.count("patch_size"), fields.count("image_size")
    hidden, layers = fields.count("hidden_size"), fields.layers("num_hidden_layers")
    encoder = _Encoder(hidden, fields.count("intermediate_size"), layers, NUM_COLOURS * patch**2, merged)
    return encoder, (image // patch) ** 2


def _gemma3(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Gemma 3: SigLIP, and a mean over 4 x 4 patches: 256 tokens for every image."""
    merged = GEMMA3_POOLED**2
    encoder, patches = _clip_like(fields, merged)
    hidden = encoder.hidden_size
    vectors = hidden * (1 + patches + 2 + 1) + encoder.num_layers * encoder.plain_vectors
    tower = _tower(fields, encoder, encoder.plain_layer, hidden * text.count("hidden_size"), vectors)
    return replace(tower, image_size=fields.count("image_size"), keeps_shape=False)


def _llava(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """LLaVA: CLIP or Pixtral, and a projector of two layers."""
    out = text.count("hidden_size")
    if fields.values.get("model_type") == "pixtral":
        return _pixtral(fields, projector=lambda hidden: hidden * out + out**2, vectors=2 * out, merged=1)
    encoder, patches = _clip_like(fields)
    hidden = encoder.hidden_size
    vectors = hidden * (1 + patches + 1 + 4) + encoder.num_layers * encoder.plain_vectors + 2 * out
    tower = _tower(fields, encoder, encoder.plain_layer, hidden * out + out**2, vectors)
    return replace(tower, image_size=fields.count("image_size"), keeps_shape=False)


def _internvl(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """InternVL: InternViT with scales for each layer, 2 x 2 patches merged, tiles of 448 pixels, a projector of two."""
    sizes = [fields.items(key, 2) or [fields.values.get(key)] for key in ("image_size", "patch_size")]
    image, patch = (ConfigFields({"size": size[0]}, fields.name).count("size") for size in sizes)
    hidden, out = fields.count("hidden_size"), text.count("hidden_size")
    layers, width = fields.layers("num_hidden_layers"), fields.count("intermediate_size")
    encoder = _Encoder(hidden, width, layers, NUM_COLOURS * patch**2, INTERNVL_MERGED**2)
    merged, biased = encoder.merged * hidden, fields.flag("attention_bias", "qkv_bias", default=True)
    vectors = hidden * (2 + (image // patch) ** 2 + 1) + 2 * merged + 2 * out
    vectors += layers * (encoder.plain_vectors + 2 * hidden - 3 * hidden * (not biased))
    tower = _tower(ConfigFields({"patch_size": patch}, fields.name), encoder, encoder.plain_layer, 0, vectors)
    merging = merged * out + out**2
    return replace(
        tower, params=tower.params + merging, params_per_token=merging, image_size=image, most_tiles=INTERNVL_TILES
    )


def _mistral3(fields: ConfigFields, text: ConfigFields) -> VisionTower:
    """Mistral Small 3.1: Pixtral, 2 x 2 patches merged behind a norm, a projector of two layers without biases."""
    out, merged = text.count("hidden_size"), MISTRAL3_MERGED**2

    def projector(hidden: int) -> int:
        return merged * hidden**2 + hidden * out + out**2

    return _pixtral(fields, projector, vectors=fields.count("hidden_size"), merged=merged)


def _pixtral(fields: ConfigFields, projector: Callable[[int], int], vectors: int, merged: int) -> VisionTower:
    """Pixtral: gated MLPs without biases, RMS norms; images keep their shape, and a token closes each row."""
    hidden, width, patch = fields.count("hidden_size"), fields.count("intermediate_size"), fields.count("patch_size")
    encoder = _Encoder(hidden, width, fields.layers("num_hidden_layers"), NUM_COLOURS * patch**2, merged)
    vectors += hidden * (1 + 2 * encoder.num_layers)
    tower = _tower(fields, encoder, 4 * hidden**2 + 3 * hidden * width, projector(hidden), vectors)
    return replace(tower, image_size=fields.count("image_size"), closes_rows=True)


TOWERS: Mapping[str, Callable[[ConfigFields, ConfigFields], VisionTower]] = {
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "internvl": _internvl,
    "kimi_k25": _kimi,
    "llava": _llava,
    "minimax_m3_vl": _minimax_m3,
    "mistral3": _mistral3,
    "mllama": mllama_tower,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen2_vl": _qwen2_vl,
    "qwen3_5": _qwen_vl,
    "qwen3_5_moe": _qwen_vl,
    "qwen3_vl": _qwen_vl,
    "qwen3_vl_moe": _qwen_vl,
}
