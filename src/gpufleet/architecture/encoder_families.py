"""Encoders of text, images and speech: one function per family, config fields to `EncoderModel`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import head_dim
from gpufleet.domain.encoder import Convolution, EncoderModel, LayerStack, Projection, Takes, Tower
from gpufleet.errors import UsageError

AUDIO_POSITIONS_PER_S = 16000.0
TEXT_ENCODER, VISION_ENCODER, SPEECH_ENCODER = "text encoder", "vision encoder", "speech encoder"
VISION_TEXT = "vision and text encoder"
LONGEST_AUDIO_TOKENS = 2**16


def biased_layers(
    fields: ConfigFields,
    hidden_size: int,
    num_layers: int,
    heads: int,
    width: int,
    query_key_value_bias: bool = True,
    is_causal: bool = False,
) -> LayerStack:
    """Layers of BERT and its kin: biases everywhere, two layer norms, a plain MLP."""
    vectors = 3 * hidden_size * query_key_value_bias + hidden_size + width + hidden_size + 4 * hidden_size
    size = head_dim(fields, hidden_size, heads)
    return LayerStack(
        num_layers, hidden_size, heads, size, width, gated=False, is_causal=is_causal, vector_params=vectors
    )


def _usual_stack(fields: ConfigFields, is_causal: bool = False) -> LayerStack:
    hidden_size = fields.count("hidden_size", default=768)
    return biased_layers(
        fields,
        hidden_size,
        fields.layers("num_hidden_layers", default=12),
        fields.count("num_attention_heads", default=12),
        fields.count("intermediate_size", default=3072),
        fields.flag("qkv_bias", default=True),
        is_causal,
    )


def _text_encoder(
    fields: ConfigFields,
    family: str,
    stack: LayerStack,
    max_tokens: int,
    embedding_params: int,
    has_pooler: bool,
) -> EncoderModel:
    """A text encoder with a norm behind the embedding and, where it has one, a pooler on the first token."""
    hidden_size = stack.hidden_size
    pooler = (Projection(hidden_size, hidden_size, once=True),) if has_pooler else ()
    tower = Tower(
        "text encoder",
        Takes.TEXT,
        stack,
        max_tokens,
        projections=pooler,
        embedding_params=embedding_params,
        vector_params=2 * hidden_size + hidden_size * has_pooler,
    )
    return EncoderModel(fields.name, family, TEXT_ENCODER, (tower,))


def bert(fields: ConfigFields, family: str) -> EncoderModel:
    """BERT, and what has its shape (MiniLM, BGE, E5, GTE): learned positions, two token types, a pooler."""
    stack = _usual_stack(fields)
    positions = fields.count("max_position_embeddings", default=512)
    rows = fields.count("vocab_size", default=30522) + positions + fields.count("type_vocab_size", default=2)
    return _text_encoder(fields, family, stack, positions, rows * stack.hidden_size, has_pooler=True)


def roberta(fields: ConfigFields, family: str, default_vocab: int = 50265) -> EncoderModel:
    """RoBERTa: BERT whose positions begin after the padding token; one or two token types."""
    stack = _usual_stack(fields)
    positions = fields.count("max_position_embeddings", default=512)
    rows = fields.count("vocab_size", default=default_vocab) + positions + fields.count("type_vocab_size", default=2)
    longest = positions - 2 if positions > 2 else positions
    return _text_encoder(fields, family, stack, longest, rows * stack.hidden_size, has_pooler=True)


def xlm_roberta(fields: ConfigFields, family: str) -> EncoderModel:
    """XLM-RoBERTa and CamemBERT: RoBERTa, whose class has the vocabulary of BERT where the config has none."""
    return roberta(fields, family, default_vocab=30522)


def distilbert(fields: ConfigFields, family: str) -> EncoderModel:
    """DistilBERT: BERT without token types and pooler, in names of its own."""
    hidden_size = fields.count("dim", default=768)
    heads, width = fields.count("n_heads", default=12), fields.count("hidden_dim", default=3072)
    stack = biased_layers(fields, hidden_size, fields.layers("n_layers", default=6), heads, width)
    positions = fields.count("max_position_embeddings", default=512)
    rows = fields.count("vocab_size", default=30522) + positions
    return _text_encoder(fields, family, stack, positions, rows * hidden_size, has_pooler=False)


def mpnet(fields: ConfigFields, family: str) -> EncoderModel:
    """MPNet: RoBERTa without token types, with relative positions shared by all layers."""
    stack = _usual_stack(fields)
    positions = fields.count("max_position_embeddings", default=512)
    relative = fields.count("relative_attention_num_buckets", default=32) * stack.num_heads
    rows = fields.count("vocab_size", default=30527) + positions
    longest = positions - 2 if positions > 2 else positions
    return _text_encoder(fields, family, stack, longest, rows * stack.hidden_size + relative, has_pooler=True)


def vit(fields: ConfigFields, family: str) -> EncoderModel:
    """ViT: patches by a convolution with a bias, a class token, learned positions, a pooler."""
    stack = _usual_stack(fields)
    hidden_size = stack.hidden_size
    pooled = fields.count("pooler_output_size", default=hidden_size)
    patches, convolution = _patches(fields, hidden_size, default_patch=16, biased=True)
    tower = Tower(
        "vision encoder",
        Takes.IMAGE,
        stack,
        patches + 1,
        (convolution,),
        (Projection(hidden_size, pooled, once=True),),
        embedding_params=(1 + patches + 1) * hidden_size,
        vector_params=2 * hidden_size + pooled,
        input_positions=patches,
        extra_tokens=1,
    )
    return EncoderModel(fields.name, family, VISION_ENCODER, (tower,))


def _patches(fields: ConfigFields, hidden_size: int, default_patch: int, biased: bool) -> tuple[int, Convolution]:
    """Patches of an image, and the convolution that makes a token of each."""
    image, patch = fields.count("image_size", default=224), fields.count("patch_size", default=default_patch)
    if patch > image:
        raise UsageError(f"{fields.name}: a patch of {patch} pixels is larger than its image of {image}")
    channels = fields.count("num_channels", default=3)
    convolution = Convolution(channels, hidden_size, patch * patch, vector_params=biased * hidden_size)
    return (image // patch) ** 2, convolution


def clip(fields: ConfigFields, family: str) -> EncoderModel:
    """CLIP: a vision and a text tower, each projected into one space."""
    shared = fields.count("projection_dim", default=512)
    vision = _clip_vision(_inner(fields, "vision_config"), shared)
    text = _clip_text(_inner(fields, "text_config"), shared)
    return EncoderModel(fields.name, family, VISION_TEXT, (vision, text), other_params=1)


def _inner(fields: ConfigFields, key: str) -> ConfigFields:
    inner = fields.values.get(key)
    if inner is None:
        inner = {}
    if not isinstance(inner, Mapping):
        raise UsageError(f"{fields.name}: {key} is not an object", found=inner)
    return ConfigFields(inner, fields.name)


def _clip_vision(fields: ConfigFields, shared: int) -> Tower:
    stack = _usual_stack(fields)
    hidden_size = stack.hidden_size
    patches, convolution = _patches(fields, hidden_size, default_patch=32, biased=False)
    return Tower(
        "vision encoder",
        Takes.IMAGE,
        stack,
        patches + 1,
        (convolution,),
        (Projection(hidden_size, shared, once=True),),
        embedding_params=(1 + patches + 1) * hidden_size,
        vector_params=4 * hidden_size,
        input_positions=patches,
        extra_tokens=1,
    )


def _clip_text(fields: ConfigFields, shared: int) -> Tower:
    hidden_size = fields.count("hidden_size", default=512)
    heads, width = fields.count("num_attention_heads", default=8), fields.count("intermediate_size", default=2048)
    num_layers = fields.layers("num_hidden_layers", default=12)
    stack = biased_layers(fields, hidden_size, num_layers, heads, width, is_causal=True)
    positions = fields.count("max_position_embeddings", default=77)
    rows = fields.count("vocab_size", default=49408) + positions
    return Tower(
        "text encoder",
        Takes.TEXT,
        stack,
        positions,
        projections=(Projection(hidden_size, shared, once=True),),
        embedding_params=rows * hidden_size,
        vector_params=2 * hidden_size,
    )


def wav2vec2(fields: ConfigFields, family: str) -> EncoderModel:
    """wav2vec 2.0 and HuBERT: convolutions over samples, a projection, positions by a grouped convolution."""
    if fields.flag("add_adapter", default=False):
        raise UsageError(f"{fields.name}: an adapter behind the encoder is not planned yet", expected="no add_adapter")
    stack = _usual_stack(fields)
    hidden_size, samples = stack.hidden_size, _sample_convolutions(fields)
    features = samples[-1].out_channels
    normed = fields.flag("feat_proj_layer_norm", default=True)
    project = Convolution(features, hidden_size, 1, vector_params=hidden_size + 2 * features * normed)
    kernel = fields.count("num_conv_pos_embeddings", default=128)
    groups = fields.count("num_conv_pos_embedding_groups", default=16)
    scales = 2 * hidden_size if fields.flag("conv_pos_batch_norm", default=False) else kernel
    positions = Convolution(hidden_size, hidden_size, kernel, groups=groups, vector_params=scales + hidden_size)
    tower = Tower(
        "speech encoder",
        Takes.AUDIO,
        stack,
        LONGEST_AUDIO_TOKENS,
        (*samples, project, positions),
        vector_params=2 * hidden_size + hidden_size * _masks(fields),
        positions_per_s=AUDIO_POSITIONS_PER_S,
    )
    return EncoderModel(fields.name, family, SPEECH_ENCODER, (tower,))


def _masks(fields: ConfigFields) -> bool:
    """Whether there is a vector for masked positions: where training masks any."""
    shares = [fields.values.get("mask_time_prob", 0.05), fields.values.get("mask_feature_prob", 0.0)]
    return any(isinstance(share, (int, float)) and share > 0 for share in shares)


def _sample_convolutions(fields: ConfigFields) -> Sequence[Convolution]:
    """The convolutions over samples: the first alone is normed by group, or every one by layer."""
    widths = _sizes(fields, "conv_dim", [512] * 7)
    kernels = _sizes(fields, "conv_kernel", [10, 3, 3, 3, 3, 2, 2])
    strides = _sizes(fields, "conv_stride", [5, 2, 2, 2, 2, 2, 2])
    if not len(widths) == len(kernels) == len(strides):
        raise UsageError(f"{fields.name}: conv_dim, conv_kernel and conv_stride differ in length")
    every = fields.values.get("feat_extract_norm", "group") == "layer"
    biased = fields.flag("conv_bias", default=False)
    channels = [1, *widths]
    return tuple(
        Convolution(
            channels[i],
            width,
            kernels[i],
            strides[i],
            vector_params=(2 * (every or i == 0) + biased) * width,
            is_padded=False,
        )
        for i, width in enumerate(widths)
    )


def _sizes(fields: ConfigFields, key: str, default: list[int]) -> list[int]:
    """A list of sizes, each checked like a field of its own."""
    listed = fields.items(key)
    if listed is None:
        return default
    if len(listed) > 64:
        raise UsageError(f"{fields.name}: {key} is absurd", found=f"{len(listed)} entries", expected="at most 64")
    return [ConfigFields({key: size}, fields.name).count(key) for size in listed]
