"""Laws of recurrent, sparse and compressed layers, over shapes that nobody published too."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.architecture.flops import decode_score_flop, prompt_score_flop
from gpufleet.architecture.kv_cache import kv_bytes_per_sequence, layer_kv_bytes, state_bytes_per_sequence
from gpufleet.architecture.parameters import mixer_params, num_parameters
from gpufleet.architecture.recurrent import state_bytes_per_layer
from gpufleet.architecture.sparse_attention import attended_tokens, prompt_pairs
from gpufleet.architecture.vision import image_tokens, vision_flop
from gpufleet.catalog.models import model_names, shipped_architecture
from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp, LatentAttention
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, NoFeedForward, NoMixer, StateSpace, TokenIndex
from gpufleet.errors import UsageError
from gpufleet.memory.weights import weights_bytes_per_device

MLP = DenseMlp(64, gated=True)
INDEX = TokenIndex(4, 32, 64, 36, 33.0)
contexts = st.integers(min_value=0, max_value=2_000_000)
powers = st.sampled_from([1, 2, 4, 8, 16])
delta_nets = st.builds(GatedDeltaNet, powers, st.just(16), powers, powers, st.integers(1, 8))
state_spaces = st.builds(StateSpace, st.sampled_from([64, 128]), powers, st.integers(1, 8), powers)
compressed = st.builds(
    CompressedAttention, powers, st.sampled_from([8, 64]), powers, st.just(1), powers, st.integers(1, 4096),
    st.integers(0, 256), kept_entries=st.sampled_from([8.0, 512.0, math.inf]),
)  # fmt: skip


def one_layer(mixer) -> Block:
    return Block(1, mixer, MLP)


@given(st.one_of(delta_nets, state_spaces), contexts)
def test_a_state_does_not_grow_with_the_context(mixer, context):
    assert layer_kv_bytes(mixer, 2.0, context) == state_bytes_per_layer(mixer) > 0


@given(st.integers(1, 10_000), st.booleans(), contexts)
def test_a_window_never_keeps_more_than_full_attention(window, chunked, context):
    full = Attention(8, 2, 64)
    local = replace(full, window_tokens=window, chunked=chunked)
    kept, all_of_it = (layer_kv_bytes(m, 2.0, context) for m in (local, full))
    assert kept <= all_of_it
    assert decode_score_flop(local, context) <= decode_score_flop(full, context)


@given(compressed, contexts)
def test_compression_never_keeps_or_reads_more_than_every_token_and_its_window(mixer, context):
    vector_bytes = 2.0 * mixer.head_dim
    kept = layer_kv_bytes(mixer, 2.0, context)
    assert kept <= vector_bytes * (context + min(context, mixer.window_tokens))
    assert attended_tokens(mixer, context) * vector_bytes <= kept


@given(st.integers(1, 4096), contexts)
def test_what_an_index_chooses_is_kept_whole_but_read_in_part(kept, context):
    full = LatentAttention(8, 64, 512, 128, 64, 128)
    sparse = replace(full, kept_tokens=kept, index=INDEX)
    more = layer_kv_bytes(sparse, 2.0, context)
    assert more == layer_kv_bytes(full, 2.0, context) + 33.0 * context
    assert attended_tokens(sparse, context) == min(kept, context)


@given(compressed, st.integers(1, 3000))
def test_a_prompt_reads_about_what_its_tokens_read_one_by_one(mixer, tokens):
    one_by_one = sum(float(attended_tokens(mixer, n)) for n in range(1, tokens + 1))
    slack = tokens if mixer.tokens_per_entry else 1e-6  # groups that are not full yet
    assert float(prompt_pairs(mixer, tokens)) == pytest.approx(one_by_one, abs=slack, rel=1e-9)


@given(st.one_of(delta_nets, state_spaces), st.integers(1, 10_000))
def test_a_recurrence_costs_the_same_for_every_token(mixer, tokens):
    assert prompt_score_flop(mixer, tokens) == pytest.approx(tokens * decode_score_flop(mixer, 1))
    assert decode_score_flop(mixer, 1) == decode_score_flop(mixer, 10**6) > 0


@given(st.one_of(delta_nets, state_spaces, compressed), powers)
def test_ranks_together_hold_at_least_all_of_a_layer(mixer, tp):
    per_rank = layer_kv_bytes(mixer, 2.0, 4096, tp, 16)
    alone = layer_kv_bytes(mixer, 2.0, 4096, 1, 16)
    assert per_rank <= alone <= tp * per_rank
    assert mixer_params(mixer, 64, tp) <= mixer_params(mixer, 64) <= tp * mixer_params(mixer, 64, tp)


@given(delta_nets, powers)
def test_more_ranks_never_need_more_memory_for_weights(mixer, tp):
    arch = Architecture("m", "x", 64, 640, (one_layer(mixer),), True, 4096)
    assert weights_bytes_per_device(arch, arch.weights, tp) <= weights_bytes_per_device(arch, arch.weights, 1)
    assert weights_bytes_per_device(arch, arch.weights, 1) == 2.0 * num_parameters(arch)


def test_a_layer_without_mixer_keeps_nothing_and_one_without_mlp_has_no_matrices_there():
    arch = Architecture(
        "m", "x", 64, 640, (Block(2, NoMixer(), MLP), Block(2, Attention(4, 4, 16), NoFeedForward())), True, 4096
    )
    assert kv_bytes_per_sequence(arch, 2.0, 100) == 2 * 2 * 4 * 16 * 2 * 100
    assert state_bytes_per_sequence(arch) == 0
    assert num_parameters(arch) == 640 * 64 + 2 * 3 * 64 * 64 + 2 * 4 * 64 * 64


def _architectures():
    for name in model_names():
        try:
            yield shipped_architecture(name)
        except UsageError:
            continue


@pytest.mark.parametrize("arch", [a for a in _architectures() if a.vision], ids=lambda a: a.name)
def test_an_image_costs_at_least_two_flop_per_matrix_parameter_and_patch(arch):
    tower = arch.vision
    assert 0 < tower.params_per_patch + tower.params_per_token < tower.params < num_parameters(arch)
    tokens = image_tokens(tower, 1024, 768)
    assert image_tokens(tower, 2048, 1536) >= tokens > 0
    least = 2 * tokens * tower.patches_per_token * tower.params_per_patch
    assert least < vision_flop(tower, tokens) < vision_flop(tower, tokens, patches_per_image=4000)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (lambda: GatedDeltaNet(3, 4, 8, 8, 4), "cannot share"),
        (lambda: GatedDeltaNet(0, 4, 8, 8, 4), "num_key_heads"),
        (lambda: StateSpace(64, 0, 4, 1), "state_size"),
        (lambda: TokenIndex(4, 32, 64, 36, 0.0), "cache_bytes_per_entry"),
        (lambda: CompressedAttention(3, 5, 8, 7, 8, 128), "do not divide"),
    ],
)
def test_shapes_that_no_model_has_are_refused_at_birth(broken, what):
    with pytest.raises(ValueError, match=what):
        broken()
