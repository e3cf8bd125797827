"""What a layer keeps for its backward pass: equations of arXiv:2205.05198, kernels, experts, adapters, pipelines."""

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp
from gpufleet.domain.training import (
    ADAMW,
    BF16_PURE,
    FP16_MIXED,
    QLORA_BASE,
    Adapter,
    Method,
    Recipe,
    Recompute,
    TrainingLayouts,
    one_layout,
)
from gpufleet.memory.training_activations import (
    activations,
    bytes_per_logit,
    layer_activations,
    microbatches_in_flight,
    stage_activations,
)

CONSTANTS = load_training_memory_constants()
HIDDEN, HEADS, SEQUENCE = 12288, 96, 2048
GPT_3 = Architecture(
    "gpt-3",
    "gpt2",
    HIDDEN,
    51200,
    (Block(96, Attention(HEADS, HEADS, 128), DenseMlp(4 * HIDDEN, False), 4 * HIDDEN),),
    True,
    SEQUENCE,
)
MEGATRON = Recipe(Method.FULL, FP16_MIXED, ADAMW, SEQUENCE, flash=False, dropout=True)
LLAMA = shipped_architecture("llama-2-7b")
PLAIN = Recipe(Method.FULL, BF16_PURE, ADAMW, SEQUENCE)
LORA = Recipe(Method.LORA, BF16_PURE, ADAMW, SEQUENCE, Adapter(8, ("q", "v")))


def per_layer(layout: TrainingLayouts) -> float:
    """Bytes per token and hidden element that one layer of GPT-3 keeps."""
    layers = [layer_activations(block, GPT_3, MEGATRON, CONSTANTS) for block in GPT_3.blocks]
    return float(stage_activations(GPT_3, layers, MEGATRON, layout, CONSTANTS)[0]) / HIDDEN / GPT_3.num_layers


def of_llama(recipe: Recipe) -> float:
    kept = layer_activations(LLAMA.blocks[0], LLAMA, recipe, CONSTANTS)
    return (kept.whole + kept.cut + kept.scores) / LLAMA.hidden_size


SCORES = 5 * HEADS * SEQUENCE / HIDDEN


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (one_layout(), 34 + SCORES),  # equation 1
        (one_layout(tp=8), 10 + 24 / 8 + SCORES / 8),  # equation 2
        (one_layout(tp=8, sequence_parallel=True), (34 + SCORES) / 8),  # equation 4
        (one_layout(tp=8, sequence_parallel=True, recompute=Recompute.SELECTIVE), 34 / 8),  # equation 6
        (one_layout(tp=8, recompute=Recompute.FULL), 2.0),  # section 5
    ],
)
def test_equations_of_korthikanti_come_out(layout: TrainingLayouts, expected: float) -> None:
    assert per_layer(layout) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("pp", "chunks", "micro_batches", "expected"),
    [(1, 1, 8, 1.0), (8, 1, 64, 8.0), (8, 1, 3, 3.0), (8, 3, 64, 8 + 7 / 3), (8, 3, 8, 8.0)],
)
def test_micro_batches_in_flight_fill_the_first_stage(
    pp: int, chunks: int, micro_batches: int, expected: float
) -> None:
    layout = one_layout(pp=pp, interleave=chunks, num_micro_batches=micro_batches)
    assert float(microbatches_in_flight(layout)[0]) == pytest.approx(expected)


def test_kernels_that_are_not_fused_keep_more() -> None:
    assert of_llama(replace(PLAIN, compiled=False)) > of_llama(PLAIN)
    assert of_llama(replace(LORA, compiled=False)) > of_llama(LORA)


def test_frozen_matrices_keep_no_input_but_those_of_bitsandbytes_do() -> None:
    eager = replace(LORA, compiled=False)
    quantised = replace(eager, method=Method.QLORA, base=QLORA_BASE)
    assert of_llama(eager) < of_llama(quantised) < of_llama(replace(PLAIN, compiled=False)) + 8
    assert of_llama(replace(quantised, compiled=True)) == of_llama(LORA)


def test_adapters_on_more_matrices_keep_more() -> None:
    few = replace(LORA, compiled=False)
    many = replace(few, adapter=Adapter(8))
    assert of_llama(many) - of_llama(few) == pytest.approx(
        CONSTANTS.adapter_input_bytes.value * (4 * 4096 + 11008) / 4096
    )


def test_without_flash_attention_scores_grow_with_the_sequence() -> None:
    short, long = (of_llama(replace(PLAIN, flash=False, sequence_tokens=s)) - of_llama(PLAIN) for s in (2048, 8192))
    assert long == pytest.approx(4 * short)
    assert short == pytest.approx(2.0 * 32 * 2048 / 4096)


def test_under_flash_attention_selective_recompute_keeps_what_matrices_put_out() -> None:
    """Residual stream before two norms, queries, keys, values, attention, gate and up: 16-bit each."""
    kept = [layer_activations(block, LLAMA, PLAIN, CONSTANTS) for block in LLAMA.blocks]
    found = stage_activations(LLAMA, kept, PLAIN, one_layout(recompute=Recompute.SELECTIVE), CONSTANTS)
    assert float(found[0]) / LLAMA.num_layers == pytest.approx(
        CONSTANTS.selective_kept_share.value * 2 * (2 * 4096 + 4 * 4096 + 2 * 11008)
    )


def test_every_expert_that_serves_a_token_keeps_what_it_was_sent() -> None:
    mixtral = shipped_architecture("mixtral-8x7b")
    block = mixtral.blocks[0]
    dense = replace(block, feed_forward=DenseMlp(14336, True))
    routed = layer_activations(block, mixtral, PLAIN, CONSTANTS).cut
    of_dense = layer_activations(dense, mixtral, PLAIN, CONSTANTS).cut
    attention = of_dense - CONSTANTS.gated_trained_bytes.value * 14336
    sent = 2 * 2 * 4096
    assert routed - attention == pytest.approx(
        2 * CONSTANTS.expert_imbalance.value * (sent + CONSTANTS.gated_trained_bytes.value * 14336)
    )


@pytest.mark.parametrize("model", ["deepseek-v3", "gemma-3-12b-text", "kimi-linear-48b-a3b", "mamba2-2.7b"])
def test_every_kind_of_mixer_keeps_something(model: str) -> None:
    arch = shipped_architecture(model)
    for block in arch.blocks:
        assert layer_activations(block, arch, PLAIN, CONSTANTS).cut > 0


def test_sequence_parallel_ranks_put_the_sequence_together_for_a_product() -> None:
    cut = activations(LLAMA, PLAIN, one_layout(tp=4, sequence_parallel=True), CONSTANTS)
    assert float(cut.gathered[0]) == 2 * 2 * 4096 * SEQUENCE
    assert float(activations(LLAMA, PLAIN, one_layout(tp=4), CONSTANTS).gathered[0]) == 0.0


def test_context_parallelism_divides_tokens() -> None:
    one, two = (activations(LLAMA, PLAIN, one_layout(cp=cp), CONSTANTS) for cp in (1, 2))
    assert float(two.kept[0]) == pytest.approx(float(one.kept[0]) / 2)
    assert float(two.logits[0]) == pytest.approx(float(one.logits[0]) / 2)


def test_offloaded_activations_lie_in_host_memory() -> None:
    layout = one_layout(recompute=Recompute.FULL)
    away = activations(LLAMA, replace(PLAIN, offloads_activations=True), layout, CONSTANTS)
    here = activations(LLAMA, PLAIN, layout, CONSTANTS)
    assert float(away.host[0]) == pytest.approx(float(here.kept[0])) == pytest.approx(32 * 2 * 4096 * SEQUENCE)
    assert float(away.kept[0]) == 0.0
    assert float(here.host[0]) == 0.0


def test_a_loss_in_chunks_keeps_fewer_bytes_per_logit() -> None:
    for compiled in (True, False):
        recipe = replace(PLAIN, compiled=compiled)
        assert bytes_per_logit(replace(recipe, chunked_loss=True), CONSTANTS).value < 5
        assert bytes_per_logit(recipe, CONSTANTS).value > 8


def test_recomputing_a_model_of_one_layer_keeps_no_more_than_the_layer() -> None:
    one = replace(LLAMA, blocks=(replace(LLAMA.blocks[0], count=1),))
    none, full = (activations(one, PLAIN, one_layout(recompute=mode), CONSTANTS) for mode in (0, Recompute.FULL))
    assert np.all(full.kept + full.working <= none.kept + none.working)
