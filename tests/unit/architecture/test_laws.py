"""Laws that hold for every shipped decoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.architecture.flops import FlopParts, flop_per_token, prefill_flop
from gpufleet.architecture.kv_cache import kv_bytes_per_sequence
from gpufleet.architecture.parameters import (
    num_active_parameters,
    num_parameters,
    num_text_parameters,
    parameter_parts,
    weights_bytes,
)
from gpufleet.architecture.sparse_attention import prompt_pairs
from gpufleet.catalog.models import model_names, shipped_architecture
from gpufleet.domain.architecture import Attention, MixtureOfExperts
from gpufleet.domain.precision import BF16, PRECISIONS, WeightFormat
from gpufleet.errors import UsageError


def _decoders():
    for name in model_names():
        try:
            yield shipped_architecture(name)
        except UsageError:
            continue


DECODERS = list(_decoders())
decoders = st.sampled_from(DECODERS)
contexts = st.integers(min_value=0, max_value=2_000_000)


def test_most_shipped_models_are_decoders():
    assert len(model_names()) >= 93
    assert len(DECODERS) >= 70


@given(decoders, contexts, contexts)
def test_a_longer_context_never_needs_fewer_kv_bytes(arch, one, other):
    short, long = sorted((one, other))
    assert kv_bytes_per_sequence(arch, 2.0, short) <= kv_bytes_per_sequence(arch, 2.0, long)


@given(decoders)
def test_active_parameters_never_exceed_all(arch):
    active, total = num_active_parameters(arch), num_text_parameters(arch)
    assert 0 < active <= total <= num_parameters(arch)
    assert (active < total) == arch.is_moe


@given(decoders)
def test_bf16_weights_are_two_bytes_a_parameter(arch):
    assert weights_bytes(arch, WeightFormat.uniform(BF16)) == 2 * num_parameters(arch)


@given(decoders, st.sampled_from(sorted(PRECISIONS)), st.sampled_from(sorted(PRECISIONS)))
def test_fewer_bytes_an_element_never_weigh_more(arch, one, other):
    light, heavy = sorted((PRECISIONS[one], PRECISIONS[other]), key=lambda p: p.bytes_per_element)
    light_bytes = weights_bytes(arch, WeightFormat("l", BF16, light, light, light, light))
    assert light_bytes <= weights_bytes(arch, WeightFormat("h", BF16, heavy, heavy, heavy, heavy))


@given(decoders, st.integers(min_value=1, max_value=100_000))
def test_decoding_costs_two_flop_per_active_matrix_parameter_and_the_attention(arch, context):
    flop: FlopParts = flop_per_token(arch, context)
    parts = parameter_parts(arch)
    matrices = num_active_parameters(arch) - parts.embedding - parts.head - parts.vectors
    head = 2 * arch.vocab_size * (arch.embedding_width or arch.hidden_size)
    active_biases = parts.expert_vectors and sum(
        b.count * b.feed_forward.top_k * b.feed_forward.expert_vector_params
        for b in arch.blocks
        if isinstance(b.feed_forward, MixtureOfExperts)
    )
    assert flop.total - flop.scores == pytest.approx(2 * (matrices - active_biases) + head)
    assert flop.scores > 0


@given(decoders, st.integers(min_value=1, max_value=50_000))
def test_a_prompt_of_one_token_reads_like_one_step_and_longer_ones_cost_more(arch, tokens):
    assert prefill_flop(arch, 1).projections == flop_per_token(arch, 1).projections
    assert prefill_flop(arch, tokens).total < prefill_flop(arch, tokens + 1).total


@pytest.mark.parametrize(("window", "chunked"), [(4, False), (4, True), (float("inf"), False)])
def test_causal_pairs_are_those_that_one_counts(window, chunked):
    mixer = Attention(1, 1, 64, window_tokens=window, chunked=chunked)
    for tokens in range(1, 20):
        first = [(q // 4) * 4 if chunked else max(0, q - window + 1) for q in range(tokens)]
        assert prompt_pairs(mixer, tokens) == sum(q - start + 1 for q, start in enumerate(first))
