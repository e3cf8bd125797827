"""Multi-head latent attention (DeepSeek MLA) on one device, without the four projections, which are plain GEMMs.

Decode runs absorbed: queries are multiplied into the latent space, attend over the compressed cache as one shared KV
head, and the result is multiplied out again. Prefill expands the latent to full heads (a GEMM) and attends causally.
"""

from __future__ import annotations

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Curves, LatentAttentionCurves
from gpufleet.performance.attention import causal_pairs
from gpufleet.performance.interpolation import curve_s, log2
from gpufleet.performance.roofline import PairRoofline, RowRoofline, roofline_s

ACTIVATION_BYTES = 2.0
KV_LORA_RANK = 512
QK_ROPE_HEAD_DIM = 64
LATENT_DIM = KV_LORA_RANK + QK_ROPE_HEAD_DIM
QK_NOPE_HEAD_DIM = 128
V_HEAD_DIM = 128
KEY_DIM = QK_NOPE_HEAD_DIM + QK_ROPE_HEAD_DIM


def latent_decode_flop(batch: Floats, num_heads: Floats, context_tokens: Floats) -> Floats:
    """Operations of absorbed decode: 2 (576 + 512) flop per head and cached token.

    >>> latent_decode_flop(1, 128, 1000) / 1e6
    278.528
    """
    return batch * context_tokens * (2 * (LATENT_DIM + KV_LORA_RANK) * num_heads)


def latent_decode_bytes(batch: Floats, num_heads: Floats, context_tokens: Floats, kv_bytes: Floats) -> Floats:
    """Bytes of absorbed decode: 512 + 64 cached elements per token, query and output of every head.

    >>> latent_decode_bytes(1, 128, 1000, 2.0)
    1430528.0
    """
    queries_and_outputs = num_heads * ((LATENT_DIM + KV_LORA_RANK) * ACTIVATION_BYTES)
    return batch * (context_tokens * (LATENT_DIM * kv_bytes) + queries_and_outputs)


def latent_decode_roofline_s(curves: Curves, batch: Floats, num_heads: Floats, context_tokens: Floats) -> FloatArray:
    """Least seconds of absorbed decode."""
    flop = latent_decode_flop(batch, num_heads, context_tokens)
    size_bytes = latent_decode_bytes(batch, num_heads, context_tokens, curves.bytes_per_element)
    return roofline_s(flop, curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def latent_decode_rows(curves: Curves, num_heads: Floats) -> RowRoofline:
    """The same roofline as what each cached token adds to the queries and outputs of its sequence."""
    stored, bandwidth_bytes_per_s = curves.bytes_per_element, curves.bandwidth_bytes_per_s
    both_bytes, own_bytes = (latent_decode_bytes(1.0, num_heads, tokens, stored) for tokens in (1.0, 0.0))
    return RowRoofline(
        compute_s=latent_decode_flop(1.0, num_heads, 1.0) / curves.peak_flop_per_s,
        read_s=own_bytes / bandwidth_bytes_per_s,
        moved_s=(both_bytes - own_bytes) / bandwidth_bytes_per_s,
    )


def latent_decode_coordinates(batch: Floats, num_heads: Floats, context_tokens: Floats) -> tuple[FloatArray, ...]:
    """Where an absorbed decode step stands in the grid.

    >>> [float(c) for c in latent_decode_coordinates(4, 16, 4096)]
    [2.0, 4.0, 12.0]
    """
    return log2(batch), log2(num_heads), log2(context_tokens)


def absorb_flop(tokens: Floats, num_heads: Floats) -> Floats:
    """Operations of the products into and out of the latent space: 2 x 512 x (128 + 128) per token and head.

    >>> absorb_flop(1, 128) / 1e6
    33.554432
    """
    return tokens * num_heads * (2 * KV_LORA_RANK * (QK_NOPE_HEAD_DIM + V_HEAD_DIM))


def absorb_bytes(tokens: Floats, num_heads: Floats) -> Floats:
    """Bytes of the same products in 16 bit: both matrices of every head, and their inputs and outputs.

    >>> absorb_bytes(1, 128) / 1e6
    33.882112
    """
    elements = KV_LORA_RANK * (QK_NOPE_HEAD_DIM + V_HEAD_DIM)
    vectors = 2 * KV_LORA_RANK + QK_NOPE_HEAD_DIM + V_HEAD_DIM
    return num_heads * (elements * ACTIVATION_BYTES + tokens * (vectors * ACTIVATION_BYTES))


def absorb_roofline_s(curves: Curves, tokens: Floats, num_heads: Floats) -> FloatArray:
    """Least seconds of the two batched products [tokens, 128] x [128, 512] and back, per head, in 16 bit."""
    size_bytes = absorb_bytes(tokens, num_heads)
    return roofline_s(absorb_flop(tokens, num_heads), curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def absorb_rows(curves: Curves, num_heads: Floats) -> RowRoofline:
    """The same roofline as what each token adds to reading the matrices."""
    both_bytes, shared_bytes = (absorb_bytes(tokens, num_heads) for tokens in (1.0, 0.0))
    return RowRoofline(
        compute_s=absorb_flop(1.0, num_heads) / curves.peak_flop_per_s,
        read_s=shared_bytes / curves.bandwidth_bytes_per_s,
        moved_s=(both_bytes - shared_bytes) / curves.bandwidth_bytes_per_s,
    )


def absorb_coordinates(tokens: Floats, num_heads: Floats) -> tuple[FloatArray, ...]:
    """Where the batched products stand in the grid.

    >>> [float(c) for c in absorb_coordinates(256, 16)]
    [8.0, 4.0]
    """
    return log2(tokens), log2(num_heads)


def latent_prefill_flop(sequences: Floats, pairs: Floats, num_heads: Floats) -> Floats:
    """Operations of the prefill core: 2 x (192 + 128) flop per pair and head.

    >>> latent_prefill_flop(1, 1000 * 1001 / 2, 16) / 1e9
    5.12512
    """
    return sequences * pairs * num_heads * (2 * (KEY_DIM + V_HEAD_DIM))


def latent_prefill_bytes(sequences: Floats, query_tokens: Floats, num_heads: Floats) -> Floats:
    """Bytes of the prefill core: query and key of 192, value and output of 128 per head and token, in 16 bit.

    >>> latent_prefill_bytes(1, 1000, 16)
    20480000.0
    """
    return sequences * query_tokens * num_heads * (2 * (KEY_DIM + V_HEAD_DIM) * ACTIVATION_BYTES)


def latent_prefill_roofline_s(
    curves: Curves, sequences: Floats, query_tokens: Floats, pairs: Floats, num_heads: Floats
) -> FloatArray:
    """Least seconds of the prefill core."""
    flop = latent_prefill_flop(sequences, pairs, num_heads)
    size_bytes = latent_prefill_bytes(sequences, query_tokens, num_heads)
    return roofline_s(flop, curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def latent_prompt_roofline(curves: Curves, num_heads: Floats) -> PairRoofline:
    """The same roofline by pairs and tokens."""
    return PairRoofline(
        compute_s=latent_prefill_flop(1.0, 1.0, num_heads) / curves.peak_flop_per_s,
        moved_s=latent_prefill_bytes(1.0, 1.0, num_heads) / curves.bandwidth_bytes_per_s,
    )


def latent_prefill_coordinates(
    sequences: Floats, query_tokens: Floats, pairs: Floats, num_heads: Floats
) -> tuple[FloatArray, ...]:
    """Where a prefill stands in the grid: query rows and mean keys per query.

    >>> [float(c) for c in latent_prefill_coordinates(2, 1024.0, 1024 * 512.0, 16)]
    [15.0, 9.0]
    """
    return log2(sequences * query_tokens * num_heads), log2(pairs / query_tokens)


def latent_core_s(
    curves: LatentAttentionCurves, batch: Floats, num_heads: Floats, context_tokens: Floats
) -> FloatArray:
    """Seconds of one layer's absorbed decode over the compressed cache, for `batch` sequences.

    t = exp(grid) (roofline + 8 us)   [s]   With `absorb_s` that of attention as a whole.
    Dimensions of DeepSeek-V2/V3 and Kimi-K2. Source: measured MLA decode kernels, `data/calibration/kernels.csv`.
    Valid: 1-1,024 sequences, 1-131,072 tokens, 1-128 heads per device.
    """
    roofline = latent_decode_roofline_s(curves.decode, batch, num_heads, context_tokens)
    return curve_s(curves.decode, roofline, latent_decode_coordinates(batch, num_heads, context_tokens))


def absorb_s(curves: LatentAttentionCurves, tokens: Floats, num_heads: Floats) -> FloatArray:
    """Seconds of the products into and out of the latent space around one layer's absorbed decode.

    t = exp(grid) (roofline of the products + 4 us)   [s]   Source: measured BMM kernels, as of `latent_core_s`.
    """
    roofline = absorb_roofline_s(curves.absorb, tokens, num_heads)
    return curve_s(curves.absorb, roofline, absorb_coordinates(tokens, num_heads))


def latent_prefill_s(
    curves: LatentAttentionCurves,
    sequences: Floats,
    query_tokens: Floats,
    num_heads: Floats,
    pairs: Floats | None = None,
) -> FloatArray:
    """Seconds of one layer's causal prefill core for `sequences` prompts of `query_tokens`.

    `pairs` of query and key of one prompt, where not every token sees all before it.

    t = exp(grid) (max(640 pairs heads / peak, bytes / bandwidth) + 8 us)   [s]
    Expanding the latent into keys and values (kv_b_proj) is a GEMM that the caller adds. Source: measured MLA context
    kernels, `data/calibration/kernels.csv`. Valid: 1-256 sequences of 1-32,768 tokens.
    """
    pairs = causal_pairs(query_tokens, query_tokens) if pairs is None else pairs
    roofline = latent_prefill_roofline_s(curves.prefill, sequences, query_tokens, pairs, num_heads)
    coordinates = latent_prefill_coordinates(sequences, query_tokens, pairs, num_heads)
    return curve_s(curves.prefill, roofline, coordinates)
