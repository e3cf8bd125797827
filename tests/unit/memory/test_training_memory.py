"""The peak of a step, verdicts, terms, checkpoints."""

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.training import (
    ADAMW,
    ADAMW_8BIT,
    BF16_MIXED,
    BF16_PURE,
    QLORA_BASE,
    Adapter,
    Method,
    Recipe,
    Recompute,
    Sharding,
    one_layout,
)
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.memory.training import (
    COUNTED,
    TrainingMemory,
    checkpoint_bytes,
    trainable_share,
    training_memory,
    training_terms,
)
from gpufleet.provenance import Grade
from gpufleet.units import GIB, TB

CONSTANTS = load_training_memory_constants()
LLAMA = shipped_architecture("llama-3.1-8b")
CARD = 80 * GIB
PURE = Recipe(Method.FULL, BF16_PURE, replace(ADAMW, follows_weights=True), 4096, chunked_loss=True)
QLORA = Recipe(Method.QLORA, BF16_PURE, ADAMW, 2048, Adapter(16), base=QLORA_BASE, chunked_loss=True)


def memory(recipe: Recipe = PURE, device_bytes: float = CARD, **layout: object) -> TrainingMemory:
    return training_memory(LLAMA, recipe, one_layout(**layout), device_bytes, CONSTANTS)


def counted(found: TrainingMemory) -> float:
    return sum(float(getattr(found, name)[0]) for name in COUNTED)


def test_the_terms_add_up_to_the_peak() -> None:
    found = memory(recompute=Recompute.FULL)
    assert counted(found) + float(found.workspace[0]) == pytest.approx(float(found.peak.expected[0]))


def test_gradients_of_a_single_micro_batch_take_the_room_of_activations() -> None:
    """Peak: the larger of both ends of the backward pass; with accumulation gradients lie beside activations."""
    one, many = memory(), memory(num_micro_batches=4)
    states = float((one.weights + one.optimizer)[0])
    begins = float((one.activations + one.logits)[0]) + 2.0 * 128256 * 4096
    assert counted(one) == pytest.approx(states + begins)
    assert counted(many) == pytest.approx(
        states + 2.0 * num_parameters(LLAMA) + float((many.activations + many.logits)[0])
    )


def test_megatron_keeps_a_buffer_of_gradients_all_the_time() -> None:
    found = memory(Recipe(Method.FULL, BF16_MIXED, ADAMW, 4096), dp=8)
    assert float(found.reused[0]) == 0.0


def test_a_step_with_8_bit_states_widens_one_matrix_at_a_time() -> None:
    found = memory(replace(PURE, optimizer=ADAMW_8BIT))
    assert float(found.step[0]) == pytest.approx(12.0 * 128256 * 4096)
    assert float(memory(replace(PURE, optimizer=replace(ADAMW_8BIT, is_paged=True))).step[0]) == 0.0


def test_verdicts_say_whether_the_high_end_fits_too() -> None:
    found = memory(QLORA)
    low, high = float(found.total.expected[0]), float(found.total.high[0])
    for room, verdict in ((high * 1.01, FITS), ((low + high) / 2, TIGHT), (low * 0.99, DOES_NOT_FIT)):
        assert memory(QLORA, room).verdicts[0] == verdict
        assert bool(memory(QLORA, room).fits[0]) == (verdict != DOES_NOT_FIT)


def test_full_training_of_8b_does_not_fit_where_qlora_does() -> None:
    """bitsandbytes and Unsloth: QLoRA of 8B runs on 16 GB; AdamW of 8B needs more than one card of 80 GB."""
    assert memory(QLORA, 16 * GIB, recompute=Recompute.FULL).verdicts[0] == FITS
    mixed = Recipe(Method.FULL, BF16_MIXED, ADAMW, 4096)
    assert memory(mixed, CARD, recompute=Recompute.FULL).verdicts[0] == DOES_NOT_FIT
    sharded = {"dp": 8, "sharding": Sharding.ZERO_3, "recompute": Recompute.FULL}
    assert memory(mixed, CARD, **sharded).verdicts[0] == FITS


def test_each_layout_is_held_against_its_own_device() -> None:
    two = replace(one_layout(), **{name: np.repeat(c, 2) for name, c in one_layout().columns().items()})
    two = replace(two, device=np.array([0, 1]))
    found = training_memory(LLAMA, QLORA, two, np.array([8 * GIB, CARD]), CONSTANTS)
    assert list(found.verdicts) == [DOES_NOT_FIT, FITS]


def test_terms_carry_formula_numbers_and_source() -> None:
    terms = training_terms(LLAMA, QLORA, one_layout(), CARD, CONSTANTS)
    found = memory(QLORA)
    assert sum(term.value for term in terms) == pytest.approx(
        float((found.peak.expected + found.context.expected + found.fragmentation.expected)[0])
    )
    assert all(term.formula and term.source and term.inputs for term in terms)
    assert {term.name for term in terms if term.grade is Grade.TRANSFERRED} >= {"context", "fragmentation"}
    assert "rank 16 on q, k, v, o" in next(term.inputs for term in terms if term.name == "adapters")


def test_a_checkpoint_holds_weights_master_weights_and_states() -> None:
    """arXiv:2104.04473, section 5.10: 13.8 TB for a model of 1,008 billion weights."""
    recipe = Recipe(Method.FULL, BF16_MIXED, ADAMW, 2048)
    assert checkpoint_bytes(LLAMA, recipe) / num_parameters(LLAMA) * 1.008 == pytest.approx(13.8 * TB / 1e12, rel=0.03)
    assert checkpoint_bytes(LLAMA, QLORA) < 0.05 * checkpoint_bytes(LLAMA, recipe)


def test_everything_learns_but_with_adapters() -> None:
    assert trainable_share(LLAMA, PURE) == 1.0
    assert 0.0 < trainable_share(LLAMA, QLORA) < 0.01


def test_constants_state_range_and_source() -> None:
    for name, constant in vars(CONSTANTS).items():
        assert constant.low <= constant.value <= constant.high, name
        assert constant.source
        assert constant.points is not None
