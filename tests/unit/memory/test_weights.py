"""Weight bytes of one device."""

from dataclasses import fields, replace

import numpy as np
import pytest

from gpufleet.architecture.parameters import (
    attention_params,
    layer_params,
    num_parameters,
    parameter_parts,
    weights_bytes,
)
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.architecture import Attention
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision_labels import weight_format
from gpufleet.memory.weights import (
    ElementBytes,
    padding_bytes_per_device,
    stage_share,
    weights_bytes_per_device,
    weights_read_bytes_per_device,
    weights_terms,
)
from gpufleet.units import GIB

DECODERS = ["llama-3.3-70b", "deepseek-v3", "gpt-oss-120b", "qwen3-235b-a22b", "gemma-3-12b-text", "opt-6.7b", "gpt2"]
EIGHT_RANKS = np.array([8]), 4, 2


@pytest.mark.parametrize("name", DECODERS)
def test_one_device_holds_the_whole_checkpoint(name: str) -> None:
    arch = shipped_architecture(name)
    assert float(weights_bytes_per_device(arch, arch.weights)) == pytest.approx(weights_bytes(arch, arch.weights))


@pytest.mark.parametrize("name", DECODERS)
def test_the_parts_of_a_device_add_up(name: str) -> None:
    arch, layout = shipped_architecture(name), Layout(tp=2, pp=2)
    whole = weights_bytes_per_device(arch, arch.weights, 2, 2)
    assert sum(term.value for term in weights_terms(arch, arch.weights, layout)) == pytest.approx(float(whole))


def test_kv_projections_are_copied_once_tp_exceeds_kv_heads() -> None:
    arch = shipped_architecture("llama-3.3-70b")
    eight, sixteen = weights_bytes_per_device(arch, arch.weights, np.array([8, 16]))
    kv_heads_per_rank = 2 * arch.num_layers * arch.hidden_size * 128 * 2.0
    norms = eight - 2 * (eight - sixteen) - kv_heads_per_rank
    assert norms == pytest.approx(161 * 8192 * 2.0)


def test_latent_down_projections_are_copied_on_every_rank() -> None:
    arch = shipped_architecture("deepseek-v3")
    copied = 7168 * (1536 + 512 + 64) * 61
    one = weights_bytes_per_device(arch, arch.weights, np.array([8, 16]), 1, 8, np.array([1, 1]))
    assert one[1] > copied


def test_experts_spread_over_attention_data_parallel_ranks() -> None:
    arch = shipped_architecture("deepseek-v3")
    tensor, data = (float(weights_bytes_per_device(arch, arch.weights, tp, 1, 8, dp)) for tp, dp in ((8, 1), (1, 8)))
    assert tensor < data < 1.4 * tensor


def test_a_rare_kind_of_layer_is_a_prologue_and_common_kinds_alternate() -> None:
    deepseek = shipped_architecture("deepseek-v3")
    dense_and_moe = [0.0 if block.count == 3 else 1.0 for block in deepseek.blocks]
    assert stage_share(deepseek, dense_and_moe, 2) == 31
    gemma = shipped_architecture("gemma-3-12b-text")
    local = [float(np.isfinite(block.mixer.window_tokens)) for block in gemma.blocks]
    assert stage_share(gemma, local, 2) == pytest.approx(20)


def test_one_layer_in_eight_still_alternates_and_one_in_nine_is_a_prologue() -> None:
    """Jamba has one attention layer in every eight: a stage has its share of them, not a stage without any."""
    arch = shipped_architecture("llama-3.1-8b")
    [layer] = arch.blocks
    eighth, ninth = (replace(arch, blocks=(replace(layer, count=4), replace(layer, count=n))) for n in (28, 32))
    assert stage_share(eighth, [1.0, 3.0], 2) == (4 * 1.0 + 28 * 3.0) / 2
    assert stage_share(ninth, [1.0, 3.0], 2) == 18 * 3.0


def test_the_last_of_two_stages_needs_its_own_copy_of_a_tied_head() -> None:
    arch = shipped_architecture("gemma-7b")
    table = arch.vocab_size * arch.hidden_size * 2.0
    halves = 2 * weights_bytes_per_device(arch, arch.weights, 1, 2) - weights_bytes_per_device(arch, arch.weights)
    assert halves == pytest.approx(table, rel=1e-3)


def test_many_candidates_of_many_formats_equal_one_by_one() -> None:
    from gpufleet.domain.precision_labels import weight_format

    arch = shipped_architecture("mixtral-8x7b")
    formats = [weight_format(arch, label) for label in ("bf16", "fp8", "int4")]
    index, tp = np.array([0, 1, 2, 1]), np.array([1, 2, 4, 8])
    together = weights_bytes_per_device(arch, ElementBytes.gather(formats, index), tp)
    alone = [float(weights_bytes_per_device(arch, formats[i], int(t))) for i, t in zip(index, tp, strict=True)]
    assert together.tolist() == pytest.approx(alone)


def test_a_step_of_one_token_reads_only_the_active_experts() -> None:
    arch = shipped_architecture("mixtral-8x7b")
    one = weights_read_bytes_per_device(arch, arch.weights, Layout(), 1)
    many = weights_read_bytes_per_device(arch, arch.weights, Layout(), 1000)
    experts = 32 * 8 * 3 * 4096 * 14336 * 2.0
    assert many - one == pytest.approx(experts * 6 / 8, rel=1e-6)


@pytest.mark.parametrize("name", ["llama-3.3-70b", "opt-6.7b"])
def test_a_step_of_a_dense_model_reads_all_but_the_embedding(name: str) -> None:
    """Where head and embedding are tied, the head is read all the same."""
    arch = shipped_architecture(name)
    embedding = 0.0 if arch.tied_embeddings else arch.vocab_size * arch.hidden_size * 2.0
    read = weights_read_bytes_per_device(arch, arch.weights, Layout())
    assert read == pytest.approx(weights_bytes(arch, arch.weights) - embedding, rel=2e-3)


def test_one_projection_serves_keys_and_values_where_they_are_the_same() -> None:
    """Gemma 4: Q and O of 16 heads of 512, and K of one head."""
    apart, same = (Attention(16, 1, 512, keys_are_values=shared) for shared in (False, True))
    assert attention_params(apart, 2816, 1) == 2 * 2816 * 512 * (16 + 1)
    assert attention_params(same, 2816, 1) == 2 * 2816 * 512 * 16 + 2816 * 512


def test_a_model_of_absurd_size_is_counted_and_not_wrapped_around() -> None:
    from gpufleet.domain.architecture import Architecture, Attention, Block, MixtureOfExperts
    from gpufleet.domain.precision import BF16, WeightFormat

    huge = 2**24
    block = Block(4096, Attention(1, 1, 1), MixtureOfExperts(huge, 1, huge, gated=True))
    arch = Architecture("absurd", "llama", huge, huge, (block,), False, 1)
    sharded = weights_bytes_per_device(arch, WeightFormat.uniform(BF16), np.array([1, 2]))
    assert sharded[0] == pytest.approx(4096 * 3 * float(huge) ** 3 * 2, rel=1e-3)
    assert sharded[0] > sharded[1] > 0
    assert parameter_parts(arch).routed_experts == 4096 * 3 * huge**3
    assert num_parameters(arch) == 4096 * (3 * huge**3 + huge**2 + 4 * huge) + 2 * huge**2


@pytest.mark.parametrize("name", [*DECODERS, "qwen3-next-80b-a3b", "deepseek-v4-flash", "nemotron-h-56b"])
def test_a_rank_alone_holds_exactly_what_is_counted_and_ranks_together_no_less(name: str) -> None:
    """One home for both: the whole model is one rank, and ranks copy what they cannot divide."""
    arch = shipped_architecture(name)
    for block in arch.blocks:
        whole, eighth = layer_params(block, arch.hidden_size), layer_params(block, arch.hidden_size, *EIGHT_RANKS)
        for part in (f.name for f in fields(whole)):
            counted, held = getattr(whole, part), float(np.asarray(getattr(eighth, part)).max())
            assert isinstance(counted, int)
            assert counted / 8 <= held <= counted


@pytest.mark.parametrize(
    ("model", "low_gib", "high_gib"), [("gpt-oss-20b", 13.47, 13.72), ("gpt-oss-120b", 64.38, 65.97)]
)
def test_mxfp4_experts_load_in_whole_tiles(model: str, low_gib: float, high_gib: float) -> None:
    """vLLM: 13.47 GiB (llm-d-planner@e50305af90), 13.72 (A100), 64.38 and 65.97 (issues 33155, 23278)."""
    arch = shipped_architecture(model)
    padding = padding_bytes_per_device(arch, arch.weights, 256)
    counted = float(weights_bytes_per_device(arch, arch.weights))
    assert (counted + float(padding.expected)) / GIB == pytest.approx(low_gib, rel=0.01)
    assert (counted + float(padding.high)) / GIB == pytest.approx(high_gib, rel=0.01)


def test_other_formats_and_aligned_rows_are_not_padded() -> None:
    gpt_oss, llama = shipped_architecture("gpt-oss-20b"), shipped_architecture("llama-3.1-8b")
    assert padding_bytes_per_device(gpt_oss, weight_format(gpt_oss, "bf16"), 256).high == 0
    assert padding_bytes_per_device(gpt_oss, gpt_oss.weights, 1).expected == 0
    assert padding_bytes_per_device(llama, llama.weights, 256).high == 0


def test_metas_fp8_checkpoint_keeps_attention_in_sixteen_bits() -> None:
    """vllm-project/vllm issue 6746: 57.75 GiB on each of 8 GPUs as first published, every KV head twice."""
    first, fixed = shipped_architecture("llama-3.1-405b-fp8-2024-07"), shipped_architecture("llama-3.1-405b-fp8")
    loaded = float(weights_bytes_per_device(first, first.weights, tp=8)) / GIB
    assert loaded == pytest.approx(57.75, rel=0.015)
    assert weights_bytes_per_device(fixed, fixed.weights, tp=8) < weights_bytes_per_device(first, first.weights, tp=8)
    assert fixed.weights.attention.name == "bf16"
    assert fixed.weights.mlp.name == "fp8"
