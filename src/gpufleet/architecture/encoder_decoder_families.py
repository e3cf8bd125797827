"""Encoders with a decoder that attends to them (T5, Whisper): config fields to `EncoderModel`."""

from __future__ import annotations

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import head_dim
from gpufleet.domain.encoder import Convolution, EncoderModel, LayerStack, Projection, Takes, Tower

TEXT_TO_TEXT, SPEECH_TO_TEXT = "encoder-decoder", "speech encoder-decoder"
MEL_FRAMES_PER_S = 100.0


def t5(fields: ConfigFields, family: str) -> EncoderModel:
    """T5 and Flan-T5: RMS norms, no biases, relative positions in the first layer of each stack alone."""
    hidden_size, heads = fields.count("d_model", default=512), fields.count("num_heads", default=8)
    encoder = _t5_tower(fields, hidden_size, heads, is_decoder=False)
    decoder = _t5_tower(fields, hidden_size, heads, is_decoder=True)
    return EncoderModel(fields.name, family, TEXT_TO_TEXT, (encoder,), decoder)


MT5_DEFAULTS = {
    "vocab_size": 250112,
    "num_layers": 8,
    "num_heads": 6,
    "d_ff": 1024,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}


def mt5(fields: ConfigFields, family: str) -> EncoderModel:
    """mT5: T5 of version 1.1, with gates and a head of its own, in many languages."""
    given = {key: value for key, value in fields.values.items() if value is not None}
    return t5(ConfigFields({**MT5_DEFAULTS, **given}, fields.name), family)


def _t5_tower(fields: ConfigFields, hidden_size: int, heads: int, is_decoder: bool) -> Tower:
    """One stack; the encoder holds the embedding, the decoder the head."""
    num_layers = fields.layers("num_layers", default=6)
    if is_decoder:
        num_layers = fields.layers("num_decoder_layers", default=num_layers)
    stack = LayerStack(
        num_layers,
        hidden_size,
        heads,
        fields.count("d_kv", default=64),
        fields.count("d_ff", default=2048),
        gated=str(fields.values.get("feed_forward_proj", "relu")).startswith("gated"),
        is_causal=is_decoder,
        attends_to_encoder=is_decoder,
        vector_params=(3 if is_decoder else 2) * hidden_size,
    )
    vocab_size = fields.count("vocab_size", default=32128)
    relative = fields.count("relative_attention_num_buckets", default=32) * heads
    tied = fields.flag("tie_word_embeddings", default=True)
    head = (Projection(hidden_size, vocab_size, once=False, is_tied=tied),)
    return Tower(
        "text decoder" if is_decoder else "text encoder",
        Takes.TEXT,
        stack,
        fields.count("n_positions", default=512),
        projections=head if is_decoder else (),
        embedding_params=relative + (0 if is_decoder else vocab_size * hidden_size),
        vector_params=hidden_size,
        is_stretchable=True,
    )


def whisper(fields: ConfigFields, family: str) -> EncoderModel:
    """Whisper: two convolutions over a window of mel frames, fixed sinusoids, keys without bias, mostly a tied head."""
    hidden_size = fields.count("d_model", default=384)
    mels, frames = fields.count("num_mel_bins", default=80), fields.count("max_source_positions", default=1500)
    encoder = Tower(
        "speech encoder",
        Takes.WINDOW,
        _whisper_stack(fields, hidden_size, "encoder"),
        frames,
        (
            Convolution(mels, hidden_size, 3, vector_params=hidden_size),
            Convolution(hidden_size, hidden_size, 3, stride=2, vector_params=hidden_size),
        ),
        embedding_params=frames * hidden_size,
        vector_params=2 * hidden_size,
        input_positions=2 * frames,
        positions_per_s=MEL_FRAMES_PER_S,
    )
    vocab_size = fields.count("vocab_size", default=51865)
    answer = fields.count("max_target_positions", default=448)
    tied = fields.flag("tie_word_embeddings", default=True)
    decoder = Tower(
        "text decoder",
        Takes.TEXT,
        _whisper_stack(fields, hidden_size, "decoder"),
        answer,
        projections=(Projection(hidden_size, vocab_size, once=False, is_tied=tied),),
        embedding_params=(vocab_size + answer) * hidden_size,
        vector_params=2 * hidden_size,
    )
    return EncoderModel(fields.name, family, SPEECH_TO_TEXT, (encoder,), decoder)


def _whisper_stack(fields: ConfigFields, hidden_size: int, part: str) -> LayerStack:
    """Layers of one side: biases on query, value, output and MLP; a norm before each part."""
    is_decoder = part == "decoder"
    heads, width = (
        fields.count(f"{part}_attention_heads", default=6),
        fields.count(f"{part}_ffn_dim", default=1536),
    )
    attentions = 1 + is_decoder
    vectors = attentions * 3 * hidden_size + width + hidden_size + (attentions + 1) * 2 * hidden_size
    return LayerStack(
        fields.layers(f"{part}_layers", default=4),
        hidden_size,
        heads,
        head_dim(fields, hidden_size, heads),
        width,
        is_causal=is_decoder,
        attends_to_encoder=is_decoder,
        vector_params=vectors,
    )
