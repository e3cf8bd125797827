"""Laws of the time of a training step, and of the search for layouts, that hold whatever the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpufleet.answers.training_estimate import speed_figures
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import is_shipped_encoder, model_names, shipped_architecture
from gpufleet.catalog.network import network_of_gpu
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.architecture import Architecture, Attention, MixtureOfExperts
from gpufleet.domain.training import (
    ADAMW,
    BF16_AUTOCAST,
    BF16_MIXED,
    BF16_PURE,
    FP16_MIXED,
    QLORA_BASE,
    Adapter,
    Method,
    Recipe,
    Recompute,
    Sharding,
    TrainingLayouts,
    TrainingMachine,
    one_layout,
)
from gpufleet.errors import UsageError
from gpufleet.layout.training import Cluster, Grid, training_layouts
from gpufleet.memory.training import training_memory
from gpufleet.optimize.training_machines import usual_training_machine
from gpufleet.optimize.training_search import fastest
from gpufleet.performance.training import StepTerms, step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime, flop_per_token, tokens_per_s_per_gpu

TABLES = load_catalog()
CALIBRATION = calibration_of(TABLES)
TIME = load_training_time()
MEMORY = load_training_memory_constants()
MODELS = ["llama-3.1-8b", "llama-3.2-3b", "gemma-3-12b-text", "mixtral-8x7b", "gpt2", "gpt-oss-20b"]
WIDE_DENSE = ["llama-3.1-8b", "qwen3-32b", "llama-3.3-70b"]
GPUS = ["A100-SXM4-80GB", "H100-SXM", "H200-SXM", "L40S", "MI300X", "B200", "RTX-4090", "A40"]
WITH_BF16 = [name for name, gpu in sorted(TABLES.accelerators.items()) if gpu.computes("bf16")]
TRAINS = [name for name in WITH_BF16 if TABLES.accelerators[name].vendor in ("nvidia", "amd")]
ROUNDING = 1 + 1e-9

powers = st.integers(0, 3).map(lambda n: 2**n)
few = st.integers(1, 4)


def machine_of(gpu: str) -> TrainingMachine:
    return usual_training_machine(
        TABLES.accelerators[gpu], network_of_gpu(TABLES.accelerators[gpu], TABLES.instances.values())
    )


machines = st.sampled_from(GPUS).map(machine_of)
models = st.sampled_from(MODELS).map(shipped_architecture)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    sequence = float(2 ** draw(st.integers(8, 15)))
    flags = {name: draw(st.booleans()) for name in ("compiled", "flash", "overlapped", "stops_early")}
    method = draw(st.sampled_from(Method))
    if method is Method.FULL:
        formats = draw(st.sampled_from((BF16_MIXED, BF16_PURE, FP16_MIXED, BF16_AUTOCAST)))
        return Recipe(method, formats, ADAMW, sequence, **flags)
    recipe = Recipe(method, BF16_PURE, ADAMW, sequence, Adapter(8), **flags)
    return replace(recipe, base=QLORA_BASE) if method is Method.QLORA else recipe


@st.composite
def layouts(draw: st.DrawFn) -> TrainingLayouts:
    """Layouts that the rules allow of a pipeline: weights stay with it, chunks pass groups of micro-batches."""
    pp = draw(st.sampled_from((1, 1, 2, 3, 4)))
    interleave = draw(st.sampled_from((1, 2))) if pp > 1 else 1
    return one_layout(
        draw(powers),
        pp,
        draw(st.sampled_from((1, 2))),
        draw(powers),
        interleave=interleave,
        sharding=draw(st.sampled_from((Sharding.DDP, Sharding.ZERO_1) if pp > 1 else tuple(Sharding))),
        micro_batch=draw(few),
        num_micro_batches=draw(few) * (pp if interleave > 1 else 1),
        recompute=draw(st.sampled_from(Recompute)),
        sequence_parallel=True,
    )


def time_of(arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine) -> TrainingTime:
    return TrainingTime(KernelModel(arch, recipe, (machine,), CALIBRATION), layout, TIME)


def terms_of(arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine) -> StepTerms:
    return step_terms(time_of(arch, recipe, layout, machine))


def step_s(arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine) -> float:
    return float(terms_of(arch, recipe, layout, machine).total[0])


def with_column(layout: TrainingLayouts, **columns: int) -> TrainingLayouts:
    return replace(layout, **{name: np.array([value]) for name, value in columns.items()})


@given(models, recipes(), layouts(), machines)
def test_exposed_terms_are_times_and_sum_to_the_step(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine
) -> None:
    terms = terms_of(arch, recipe, layout, machine)
    parts = {f.name: float(getattr(terms, f.name)[0]) for f in fields(StepTerms)}
    step = float(terms.total[0])
    assert all(math.isfinite(part) and part >= -1e-12 * step for part in parts.values()), parts
    assert math.isclose(sum(parts.values()), step, rel_tol=1e-12)
    speed = speed_figures(time_of(arch, recipe, layout, machine), terms, 0)
    assert math.isclose(sum(speed.exposed_s.values()), speed.step_s.value, rel_tol=1e-12)


@given(models, recipes(), layouts(), machines)
def test_full_recompute_never_lowers_the_time_of_a_layout(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine
) -> None:
    none, some, full = (step_s(arch, recipe, with_column(layout, recompute=m), machine) for m in Recompute)
    assert none <= some * ROUNDING
    assert some <= full * ROUNDING


@given(
    st.sampled_from(WIDE_DENSE).map(shipped_architecture),
    layouts(),
    st.sampled_from(TRAINS).map(machine_of),
    st.sampled_from((2048.0, 4096.0, 16384.0)),
    st.sampled_from((8, 16, 64)),
    st.booleans(),
)
def test_adapters_are_at_least_as_fast_as_training_all_weights(
    arch: Architecture, layout: TrainingLayouts, machine: TrainingMachine, sequence: float, rank: int, compiled: bool
) -> None:
    """Of a wide dense model in the same layout and precision, on 2,048 tokens a micro-batch and rank or more."""
    assume(float(layout.micro_batch[0]) * sequence / float(layout.cp[0]) >= 2048)
    full = Recipe(Method.FULL, BF16_PURE, ADAMW, sequence, compiled=compiled)
    lora = Recipe(Method.LORA, BF16_PURE, ADAMW, sequence, Adapter(rank), compiled=compiled)
    assert step_s(arch, lora, layout, machine) <= step_s(arch, full, layout, machine) * ROUNDING


@given(models, recipes(), machines, st.sampled_from((2, 3, 4, 8)), powers)
def test_the_share_of_the_bubble_tends_to_nothing(
    arch: Architecture, recipe: Recipe, machine: TrainingMachine, pp: int, dp: int
) -> None:
    shares = []
    for num_micro_batches in (1, 4, 64, 1024, 65_536):
        layout = one_layout(1, pp, 1, dp, num_micro_batches=num_micro_batches)
        terms = terms_of(arch, recipe, layout, machine)
        shares.append(float(terms.bubble[0] / terms.total[0]))
    assert all(later < earlier for earlier, later in pairwise(shares))
    assert 0 < shares[-1] <= (pp - 1) / 65_536


@given(models, recipes(), layouts(), machines, st.sampled_from((1.1, 2.0, 10.0)))
def test_faster_links_and_networks_never_take_longer(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine, factor: float
) -> None:
    now = step_s(arch, recipe, layout, machine)
    linked = replace(machine, link_bytes_per_s=machine.link_bytes_per_s * factor)
    networked = replace(machine, network_bytes_per_s=machine.network_bytes_per_s * factor)
    assert step_s(arch, recipe, layout, linked) <= now * ROUNDING
    assert step_s(arch, recipe, layout, networked) <= now * ROUNDING


LONGEST_POWER = 6


@pytest.mark.slow
@given(models, recipes(), layouts(), machines, st.integers(0, 1))
def test_longer_sequences_of_as_many_tokens_never_lower_the_share_of_attention(
    arch: Architecture, recipe: Recipe, layout: TrainingLayouts, machine: TrainingMachine, halvings: int
) -> None:
    shares = []
    for power in range(LONGEST_POWER + 1):
        longer = replace(recipe, sequence_tokens=512.0 * 2**power)
        as_many = with_column(layout, micro_batch=2 ** (LONGEST_POWER - power) * 2**halvings)
        terms = terms_of(arch, longer, as_many, machine)
        shares.append(float(terms.attention[0] / terms.total[0]))
    assert all(later * ROUNDING >= earlier for earlier, later in pairwise(shares)), shares


BEST_MICRO_BATCHES = (1, 32)


def shipped_decoders() -> Iterator[Architecture]:
    """Every shipped model that writes text."""
    for name in model_names():
        with suppress(UsageError):
            if not is_shipped_encoder(name):
                yield shipped_architecture(name)


@pytest.mark.slow
def test_no_shipped_decoder_computes_faster_than_the_peak() -> None:
    """Model FLOPs utilization stays under 1 on every GPU with bf16: no layout is faster per GPU than one GPU alone."""
    every = tuple(machine_of(gpu) for gpu in TRAINS)
    single, sizes = one_layout(), len(BEST_MICRO_BATCHES)
    columns = {name: np.repeat(column, sizes * len(every)) for name, column in single.columns().items()}
    columns["micro_batch"] = np.tile(np.array(BEST_MICRO_BATCHES), len(every))
    columns["device"] = np.repeat(np.arange(len(every)), sizes)
    rows = TrainingLayouts(**columns)
    decoders = list(shipped_decoders())
    assert len(decoders) >= 100
    for arch in decoders:
        recipe = Recipe(Method.FULL, BF16_PURE, ADAMW, min(4096.0, float(arch.max_context_tokens)))
        time = TrainingTime(KernelModel(arch, recipe, every, CALIBRATION), rows, TIME)
        rates = tokens_per_s_per_gpu(time, step_terms(time).total)
        utilization = rates * flop_per_token(time, 0)[0] / time.at("peak_flop_per_s")
        fullest = int(np.argmax(utilization))
        assert 0 < utilization[fullest] < 1, (arch.name, TRAINS[fullest // sizes], utilization[fullest])


# --- the search for layouts, against plain loops ---

SMALL = Grid(
    interleave=(1, 2),
    micro_batch=(1, 2, 4),
    sharding=(Sharding.DDP, Sharding.ZERO_1, Sharding.ZERO_3, Sharding.HYBRID),
    context_parallel=(1, 2),
    expert_parallel=(1, 2, 8),
    tensor_parallel=(1, 2, 4, 8),
)


def allowed_one_by_one(arch: Architecture, recipe: Recipe, cluster: Cluster, batch: int) -> Iterator[TrainingLayouts]:
    """Every layout of the small grid that makes sense, by plain loops: nothing of the search is used."""
    node = cluster.machine.num_gpus
    for tp, pp, cp, dp in product(SMALL.tensor_parallel, range(1, cluster.num_gpus + 1), (1, 2), range(1, batch + 1)):
        used = tp * pp * cp * dp
        if used > cluster.num_gpus or (used < cluster.num_gpus and not cluster.may_idle):
            continue
        if tp > node or pp > arch.num_layers or (cp > 1 and recipe.sequence_tokens < 8192):
            continue
        if not all(deals_heads(block.mixer, tp) for block in arch.blocks):
            continue
        for ep, v, sharding, micro, recompute in product(
            SMALL.expert_parallel if arch.is_moe else (1,), (1, 2), SMALL.sharding, SMALL.micro_batch, Recompute
        ):
            if batch % (dp * micro) or pp * v > arch.num_layers:
                continue
            steps = batch // (dp * micro)
            if v > 1 and (pp == 1 or steps % pp):
                continue
            if pp > 1 and sharding in (Sharding.ZERO_2, Sharding.ZERO_3, Sharding.HYBRID):
                continue
            if sharding is not Sharding.DDP and dp * cp == 1:
                continue
            if sharding is Sharding.HYBRID and dp * cp <= max(node // tp, 1):
                continue
            if not deals_experts(arch, ep, tp * cp * dp):
                continue
            yield one_layout(
                tp, pp, cp, dp, ep, interleave=v, sharding=sharding, micro_batch=micro, num_micro_batches=steps,
                recompute=recompute, sequence_parallel=tp > 1, ranks_per_node=node,
            )  # fmt: skip


def deals_heads(mixer: object, tp: int) -> bool:
    """Whether TP ranks take as many heads each."""
    if not isinstance(mixer, Attention):
        return True
    kv = mixer.num_kv_heads
    return mixer.num_heads % tp == 0 and (kv % tp == 0 or tp % kv == 0)


def deals_experts(arch: Architecture, ep: int, ranks: int) -> bool:
    """Whether ranks of a stage take as many experts each."""
    experts = [b.feed_forward.num_experts for b in arch.blocks if isinstance(b.feed_forward, MixtureOfExperts)]
    return ranks % ep == 0 and all(num % ep == 0 for num in experts)


def searched(arch: Architecture, recipe: Recipe, cluster: Cluster, batch: int) -> tuple[int, float]:
    """How many layouts fit, and the shortest step, as the search finds them."""
    rows, _ = training_layouts(arch, recipe, cluster, batch, SMALL)
    if not len(rows):
        return 0, math.inf
    memory = training_memory(arch, recipe, rows, cluster.machine.accelerator.memory_bytes, MEMORY)
    kept = rows.take(memory.fits)
    if not len(kept):
        return 0, math.inf
    found = fastest(time_of(arch, recipe, kept, cluster.machine), np.zeros(len(kept), dtype=np.int64), [cluster])
    return len(kept), found[0].step_s


def looped(arch: Architecture, recipe: Recipe, cluster: Cluster, batch: int) -> tuple[int, float]:
    """The same, one layout after the other."""
    count, shortest = 0, math.inf
    for layout in allowed_one_by_one(arch, recipe, cluster, batch):
        memory = training_memory(arch, recipe, layout, cluster.machine.accelerator.memory_bytes, MEMORY)
        if bool(memory.fits[0]):
            count += 1
            shortest = min(shortest, step_s(arch, recipe, layout, cluster.machine))
    return count, shortest


def small_cases() -> list[tuple[str, str, int, int, bool, str]]:
    """Fifty questions: models, GPUs, how many of them, sequences of a step, whether some may idle, and the method."""
    dice = np.random.default_rng(50)
    picks = (["gpt2", "llama-3.2-3b", "mixtral-8x7b", "gpt-oss-20b"], ["H100-SXM", "L40S", "A100-SXM4-40GB"])
    return [
        (str(dice.choice(picks[0])), str(dice.choice(picks[1])), int(dice.choice([1, 2, 3, 4, 6, 8])),
         int(dice.choice([2, 4, 6, 8])), bool(dice.integers(2)), str(dice.choice(["full", "lora"])))
        for _ in range(50)
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", small_cases(), ids=lambda case: "-".join(map(str, case)))
def test_plain_loops_find_the_same_layouts_and_the_same_shortest_step(
    case: tuple[str, str, int, int, bool, str],
) -> None:
    model, gpu, num_gpus, batch, may_idle, method = case
    arch = shipped_architecture(model)
    recipe = (
        Recipe(Method.FULL, BF16_MIXED, ADAMW, 1024)
        if method == "full"
        else Recipe(Method.LORA, BF16_PURE, ADAMW, 1024, Adapter(16))
    )
    cluster = Cluster(0, machine_of(gpu), num_gpus, may_idle)
    counted, shortest = searched(arch, recipe, cluster, batch)
    assert (counted, pytest.approx(shortest, rel=1e-9)) == looped(arch, recipe, cluster, batch)


@given(
    models,
    st.sampled_from(["H100-SXM", "L40S", "A100-SXM4-40GB", "MI300X"]).map(machine_of),
    st.integers(1, 40),
    st.integers(1, 8),
    st.sampled_from([1, 2, 3, 8, 12, 32]),
)
def test_a_larger_count_with_idle_gpus_never_takes_longer(
    arch: Architecture, machine: TrainingMachine, num_gpus: int, more: int, batch: int
) -> None:
    recipe = Recipe(Method.FULL, BF16_MIXED, ADAMW, min(2048.0, float(arch.max_context_tokens)))
    _, fewer_s = searched(arch, recipe, Cluster(0, machine, num_gpus, may_idle=True), batch)
    _, more_s = searched(arch, recipe, Cluster(0, machine, num_gpus + more, may_idle=True), batch)
    assert more_s <= fewer_s * ROUNDING


@pytest.mark.slow
def test_a_long_sequence_is_cut_over_context_ranks_by_both() -> None:
    arch, recipe = shipped_architecture("llama-3.2-3b"), Recipe(Method.FULL, BF16_MIXED, ADAMW, 16_384)
    cluster = Cluster(0, machine_of("H100-SXM"), 8)
    counted, shortest = searched(arch, recipe, cluster, 4)
    assert counted > 0
    assert (counted, pytest.approx(shortest, rel=1e-9)) == looped(arch, recipe, cluster, 4)
