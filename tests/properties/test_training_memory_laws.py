"""Laws of training memory that hold whatever the numbers."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import (
    ADAMW,
    ADAMW_8BIT,
    BF16_PURE,
    NUMBER_FORMATS,
    QLORA_BASE,
    Adapter,
    Method,
    Recipe,
    Recompute,
    Sharding,
    TrainingLayouts,
    one_layout,
)
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.memory.training_activations import activations
from gpufleet.memory.training_states import model_states
from gpufleet.units import GIB

CONSTANTS = load_training_memory_constants()
MODELS = ["llama-3.1-8b", "llama-3.2-3b", "deepseek-v3", "gemma-3-12b-text", "mixtral-8x7b", "gpt2", "gpt-oss-20b"]
models = st.sampled_from(MODELS).map(shipped_architecture)
powers = st.integers(0, 4).map(lambda n: 2**n)
few = st.integers(1, 6)
OPTIMIZERS = [ADAMW, ADAMW_8BIT, replace(ADAMW, follows_weights=True), replace(ADAMW, in_backward=True)]
ROUNDING = 1 + 1e-9


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    sequence = float(draw(st.integers(64, 32768)))
    flags = {name: draw(st.booleans()) for name in ("compiled", "flash", "chunked_loss", "dropout")}
    if draw(st.booleans()):
        formats = draw(st.sampled_from(sorted(NUMBER_FORMATS.values(), key=lambda each: each.name)))
        return Recipe(Method.FULL, formats, draw(st.sampled_from(OPTIMIZERS)), sequence, **flags)
    if draw(st.booleans()):
        return Recipe(Method.QLORA, BF16_PURE, ADAMW, sequence, Adapter(8), base=QLORA_BASE, **flags)
    return Recipe(Method.LORA, BF16_PURE, ADAMW, sequence, Adapter(8, ("q", "v")), **flags)


@st.composite
def layouts(draw: st.DrawFn) -> TrainingLayouts:
    return one_layout(
        draw(powers),
        draw(few),
        draw(st.sampled_from((1, 2))),
        draw(powers),
        interleave=draw(st.sampled_from((1, 2))),
        sharding=draw(st.sampled_from(Sharding)),
        micro_batch=draw(few),
        num_micro_batches=draw(few),
        recompute=draw(st.sampled_from(Recompute)),
        sequence_parallel=draw(st.booleans()),
    )


def memory(arch: Architecture, recipe: Recipe, layout: TrainingLayouts) -> TrainingMemory:
    return training_memory(arch, recipe, layout, 80 * GIB, CONSTANTS)


def total(arch: Architecture, recipe: Recipe, layout: TrainingLayouts) -> float:
    return float(np.asarray(memory(arch, recipe, layout).total.expected)[0])


def with_column(layout: TrainingLayouts, **columns: int) -> TrainingLayouts:
    return replace(layout, **{name: np.array([value]) for name, value in columns.items()})


@given(models, recipes(), layouts())
def test_each_stage_of_zero_keeps_no_more_than_the_one_before(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts
) -> None:
    """Without a pipeline, in which sharded weights and gradients stay whole for all micro-batches."""
    stages = [with_column(layout, sharding=stage, pp=1) for stage in (0, 1, 2, 3)]
    found = [model_states(arch, recipe, each, CONSTANTS) for each in stages]
    kept = [float((each.resident + each.gradients)[0]) for each in found]
    assert all(later <= earlier * ROUNDING for earlier, later in pairwise(kept))


@given(models, recipes(), layouts(), st.integers(1, 5))
def test_more_data_parallel_ranks_never_raise_memory(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts, doublings: int
) -> None:
    """From two ranks on: the first brings buffers and gathered blocks."""
    of_two = with_column(layout, dp=2)
    assert total(arch, recipe, with_column(layout, dp=2 * 2**doublings)) <= total(arch, recipe, of_two) * ROUNDING


@given(models, recipes(), layouts())
def test_full_recompute_never_raises_memory(arch: Architecture, recipe: Recipe, layout: TrainingLayouts) -> None:
    none, full = (with_column(layout, recompute=mode) for mode in (Recompute.NONE, Recompute.FULL))
    assert total(arch, recipe, full) <= total(arch, recipe, none) * ROUNDING


@given(models, recipes(), layouts())
def test_selective_recompute_lies_between_none_and_full(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts
) -> None:
    none, some, full = (activations(arch, recipe, with_column(layout, recompute=m), CONSTANTS) for m in Recompute)
    assert float(some.kept[0]) <= float(none.kept[0]) * ROUNDING
    assert float(full.kept[0]) <= float(some.kept[0]) * ROUNDING


@given(models, recipes(), layouts())
def test_longer_sequences_and_larger_micro_batches_never_lower_memory(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts
) -> None:
    longer = replace(recipe, sequence_tokens=2 * recipe.sequence_tokens)
    larger = with_column(layout, micro_batch=2 * int(layout.micro_batch[0]))
    now = total(arch, recipe, layout)
    assert total(arch, longer, layout) * ROUNDING >= now
    assert total(arch, recipe, larger) * ROUNDING >= now


@given(models, recipes(), layouts())
def test_every_term_counts_and_verdicts_agree_with_totals(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts
) -> None:
    found = memory(arch, recipe, layout)
    named = ("weights", "gradients", "optimizer", "adapters", "gathered", "buffers", "activations", "logits", "step")
    assert all(float(getattr(found, name)[0]) >= 0 for name in named)
    assert float(found.reused[0]) <= 1e-6 * float(found.peak.expected[0])
    low, expected, high = (float(np.asarray(end)[0]) for end in found.total.ends().values())
    assert 0 < low <= expected <= high
    assert (found.verdicts[0] == FITS) == (high <= 80 * GIB)
    assert (found.verdicts[0] == DOES_NOT_FIT) == (expected > 80 * GIB)


@given(models, recipes(), layouts(), st.lists(layouts(), max_size=4))
def test_a_layout_among_others_is_what_it_is_alone(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts, others: list[TrainingLayouts]
) -> None:
    every = [layout, *others]
    together = TrainingLayouts(
        **{name: np.concatenate([each.columns()[name] for each in every]) for name in layout.columns()}
    )
    found = memory(arch, recipe, together).total.expected
    assert np.allclose(found, [total(arch, recipe, each) for each in every], rtol=1e-12)
