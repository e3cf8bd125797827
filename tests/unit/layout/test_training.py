"""Layouts of training: one story a rule, and the combinations that are tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import (
    ADAMW,
    BF16_MIXED,
    Method,
    Recipe,
    Sharding,
    TrainingLayouts,
    TrainingMachine,
    one_layout,
)
from gpufleet.layout.training import (
    COARSE,
    FINE,
    RULES,
    Cluster,
    Grid,
    combined,
    joined,
    rows_of,
    training_layouts,
)
from gpufleet.units import GB

LLAMA, MIXTRAL = shipped_architecture("llama-3.1-8b"), shipped_architecture("mixtral-8x7b")
RECIPE = Recipe(Method.FULL, BF16_MIXED, ADAMW, 4096)
LONG = replace(RECIPE, sequence_tokens=32_768)
NODE = TrainingMachine(load_catalog().accelerators["H100-SXM"], 8, False, 450 * GB, 400 * GB)
ONE_LAYOUT = Grid(
    interleave=(1,), micro_batch=(1,), recompute=FINE.recompute[:1], sharding=(Sharding.DDP,),
    context_parallel=(1,), expert_parallel=(1,),
)  # fmt: skip


def is_allowed(
    rule: str, layout: TrainingLayouts, batch: int = 16, *, arch: Architecture = LLAMA, recipe: Recipe = RECIPE
) -> bool:
    return bool(RULES[rule](arch, recipe, layout, batch)[0])


def test_every_rank_takes_as_many_heads() -> None:
    """Llama 3.1 8B has 32 heads over 8 of keys and values, which repeat beyond 8 ranks."""
    assert [is_allowed("training_heads", one_layout(tp)) for tp in (1, 3, 8, 16, 64)] == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_the_batch_is_dealt_out_in_whole_micro_batches() -> None:
    assert is_allowed("training_batch", one_layout(dp=4, micro_batch=4))
    assert not is_allowed("training_batch", one_layout(dp=4, micro_batch=3))
    assert not is_allowed("training_batch", one_layout(dp=32))


def test_every_chunk_of_a_pipeline_holds_a_layer() -> None:
    assert is_allowed("training_chunks", one_layout(pp=8, interleave=4))
    assert not is_allowed("training_chunks", one_layout(pp=8, interleave=5))


def test_interleaved_stages_pass_groups_of_micro_batches() -> None:
    assert is_allowed("training_interleave", one_layout(pp=4, interleave=2, num_micro_batches=8))
    assert not is_allowed("training_interleave", one_layout(pp=4, interleave=2, num_micro_batches=6))
    assert not is_allowed("training_interleave", one_layout(interleave=2, num_micro_batches=8))
    assert is_allowed("training_interleave", one_layout(pp=4, num_micro_batches=6))


def test_a_pipeline_shares_optimizer_states_and_nothing_more() -> None:
    allowed = [
        is_allowed("training_pipeline_sharding", one_layout(pp=2, dp=16, sharding=sharding)) for sharding in Sharding
    ]
    assert allowed == [True, True, False, False, False]
    assert all(is_allowed("training_pipeline_sharding", one_layout(dp=16, sharding=sharding)) for sharding in Sharding)


def test_one_copy_shares_nothing_and_hybrid_sharding_needs_several_machines() -> None:
    assert not is_allowed("training_sharding_alone", one_layout(tp=8, sharding=Sharding.ZERO_1))
    assert is_allowed("training_sharding_alone", one_layout(cp=2, sharding=Sharding.ZERO_3))
    assert not is_allowed("training_sharding_alone", one_layout(dp=8, sharding=Sharding.HYBRID))
    assert is_allowed("training_sharding_alone", one_layout(dp=16, sharding=Sharding.HYBRID))
    assert is_allowed("training_sharding_alone", one_layout(tp=4, dp=4, sharding=Sharding.HYBRID))


def test_a_sequence_is_cut_into_an_early_and_a_late_piece_a_rank() -> None:
    assert is_allowed("training_sequence", one_layout(cp=8), recipe=LONG)
    assert not is_allowed("training_sequence", one_layout(cp=8), recipe=replace(LONG, sequence_tokens=32_770))
    assert is_allowed("training_sequence", one_layout(), recipe=replace(RECIPE, sequence_tokens=4099))


def test_a_sequence_is_not_cut_into_crumbs() -> None:
    assert is_allowed("training_sequence", one_layout(cp=2), recipe=replace(RECIPE, sequence_tokens=8192))
    assert not is_allowed("training_sequence", one_layout(cp=2), recipe=RECIPE)


def test_an_optimizer_that_steps_in_the_backward_pass_adds_nothing_up() -> None:
    at_once = replace(RECIPE, optimizer=replace(ADAMW, in_backward=True))
    assert is_allowed("training_in_backward", one_layout(dp=16), recipe=at_once)
    assert not is_allowed("training_in_backward", one_layout(num_micro_batches=2), recipe=at_once)
    assert is_allowed("training_in_backward", one_layout(num_micro_batches=2))


def test_experts_are_dealt_out_over_ranks_of_a_stage() -> None:
    assert is_allowed("training_experts", one_layout(dp=8, ep=8), arch=MIXTRAL)
    assert not is_allowed("training_experts", one_layout(dp=16, ep=16), arch=MIXTRAL), "it has 8 experts"
    assert not is_allowed("training_experts", one_layout(dp=4, ep=8), arch=MIXTRAL), "so many ranks there are not"
    assert not is_allowed("training_experts", one_layout(dp=6, ep=4), arch=MIXTRAL), "two ranks would have none"


def test_what_a_rule_drops_is_counted_once_under_the_first_that_does() -> None:
    cluster = Cluster(0, NODE, 8)
    layouts, drops = training_layouts(LLAMA, RECIPE, cluster, 16, FINE)
    tried = len(combined(LLAMA, RECIPE, cluster, 16, FINE))
    assert tried == len(layouts) + sum(drop.count for drop in drops)
    assert {drop.reason.code for drop in drops} <= set(RULES)
    assert all(np.all(rule(LLAMA, RECIPE, layouts, 16)) for rule in RULES.values())


def test_every_gpu_works_unless_some_may_idle() -> None:
    seven = Cluster(0, NODE, 7)
    working, _ = training_layouts(LLAMA, RECIPE, seven, 16, FINE)
    idling, _ = training_layouts(LLAMA, RECIPE, replace(seven, may_idle=True), 16, FINE)
    assert set(working.num_devices.tolist()) == {7}
    assert {1, 4, 6} <= set(idling.num_devices.tolist()) <= set(range(1, 8))


def test_tensor_parallelism_stays_in_a_machine() -> None:
    layouts, _ = training_layouts(LLAMA, RECIPE, Cluster(0, NODE, 32), 64, FINE)
    assert layouts.tp.max() == 8


def test_only_long_sequences_are_cut_over_ranks_whatever_is_said() -> None:
    cluster = Cluster(0, NODE, 8)
    assert set(training_layouts(LLAMA, RECIPE, cluster, 16, FINE)[0].cp.tolist()) == {1}
    assert {1, 2, 4, 8} <= set(training_layouts(LLAMA, LONG, cluster, 16, FINE)[0].cp.tolist())
    said = replace(FINE, context_parallel=(2,))
    assert set(training_layouts(LLAMA, LONG, cluster, 16, said)[0].cp.tolist()) == {2}
    layouts, drops = training_layouts(LLAMA, RECIPE, cluster, 16, said)
    assert len(layouts) == 0
    assert "training_sequence" in {drop.reason.code for drop in drops}


def test_dense_models_have_no_experts_to_share() -> None:
    cluster = Cluster(0, NODE, 8)
    assert set(training_layouts(LLAMA, RECIPE, cluster, 16, FINE)[0].ep.tolist()) == {1}
    assert {1, 2, 4, 8} == set(training_layouts(MIXTRAL, RECIPE, cluster, 16, FINE)[0].ep.tolist())


@pytest.mark.parametrize(("name", "said", "expected"), [("pipeline_parallel", 2, {2}), ("data_parallel", 4, {4})])
def test_parts_that_are_said_are_kept(name: str, said: int, expected: set[int]) -> None:
    grid = replace(FINE, **{name: (said,)})  # type: ignore[arg-type]
    layouts, _ = training_layouts(LLAMA, RECIPE, Cluster(0, NODE, 8), 16, grid)
    column = layouts.pp if name == "pipeline_parallel" else layouts.dp
    assert set(column.tolist()) == expected
    assert set(layouts.num_devices.tolist()) == {8}


def test_a_number_that_no_layout_deals_out_has_none() -> None:
    layouts, drops = training_layouts(LLAMA, RECIPE, Cluster(0, NODE, 37), 1, replace(FINE, tensor_parallel=(2,)))
    assert (len(layouts), drops) == (0, [])


def test_micro_batches_make_up_the_batch() -> None:
    layouts, _ = training_layouts(LLAMA, RECIPE, Cluster(0, NODE, 16), 48, FINE)
    assert set(layouts.global_batch.tolist()) == {48}


def test_what_is_searched_coarsely_is_a_part_of_what_is_searched_finely() -> None:
    for name in Grid.__dataclass_fields__:
        assert set(getattr(COARSE, name)) <= set(getattr(FINE, name)), name


def test_layouts_of_several_clusters_remember_where_they_came_from() -> None:
    parts = [training_layouts(LLAMA, RECIPE, Cluster(0, NODE, n), 16, ONE_LAYOUT)[0] for n in (1, 2, 8)]
    together, part = joined(parts), rows_of(parts)
    assert len(together) == sum(map(len, parts))
    assert [set(together.num_devices[part == index].tolist()) for index in range(3)] == [{1}, {2}, {8}]
