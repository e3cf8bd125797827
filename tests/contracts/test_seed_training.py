"""What the seeds say of training, asked of the planner: GPUs, memory, hours, spot, checkpoints, bytes of a weight.

A line that differs quotes our figure in docs/seeds.md; `quoted` holds that figure to what the planner says today.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from tools.seed_index import PAGE, all_elements, entries_of

from gpufleet.api import fit
from gpufleet.api.training import FinetuneRequest, plan_finetune, plan_train
from gpufleet.api.training_estimates import estimate_training, trained_model
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.network import network_of_gpu
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.compat import rules
from gpufleet.domain.training_recipes import method_named, recipe_of_words
from gpufleet.inputs.training_layout import parse_layout
from gpufleet.layout.training import Cluster, grid_of, training_layouts
from gpufleet.memory.training import training_memory
from gpufleet.optimize.training_machines import usual_training_machine
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime
from gpufleet.results.training import TrainingDeployment, TrainingEstimate, TrainingPlan
from gpufleet.units import DAY, GIB, HOUR

TEXT = {element.id: element.text for element in all_elements()}
SAID = {entry.id: entry.reason for entry in entries_of(PAGE.read_text(encoding="utf-8"))}
STATE = {entry.id: entry.state for entry in entries_of(PAGE.read_text(encoding="utf-8"))}
TABLE_TOKENS = 100e6
"""The tokens of the table of training times; the blocks of advice above it name none."""
NEAR = 0.1
"""A figure on the page is rounded; more than this beside it, and the page is stale."""
OLD_GPUS = ("T4", "V100")
EIGHT = "tp=1,pp=1,dp=8,sharding=zero-3"
SHARDED = f"{EIGHT},micro-batch=1"


class Best(NamedTuple):
    """The fastest layout that has room (None: there is none), and the least memory that any layout takes of a GPU."""

    fastest: TrainingEstimate | None
    least_gb: float

    @property
    def found(self) -> TrainingEstimate:
        assert self.fastest is not None
        return self.fastest

    @property
    def tokens_per_s(self) -> float:
        return self.found.speed.tokens_per_s_per_gpu.value * self.found.num_gpus

    @property
    def slowest_tokens_per_s(self) -> float:
        low = self.found.speed.tokens_per_s_per_gpu.low
        assert low is not None
        return low * self.found.num_gpus

    @property
    def fastest_tokens_per_s(self) -> float:
        high = self.found.speed.tokens_per_s_per_gpu.high
        assert high is not None
        return high * self.found.num_gpus

    @property
    def hours(self) -> float:
        return TABLE_TOKENS / self.tokens_per_s / HOUR

    @property
    def gib(self) -> float:
        return self.found.memory.total_bytes.value / GIB


@cache
def trained(
    model: str, gpus: str, method: str = "full", layout: str = "", precision: str | None = None, sequence: float = 1024
) -> Best:
    """A model on so many GPUs of one kind, 64 sequences a step of each; GPUs without BF16 train in FP16."""
    catalog, (name, number) = load_catalog(), gpus.split(":")
    usual = ("fp16-mixed" if method == "full" else "fp16") if name.startswith(OLD_GPUS) else None
    arch, batch = trained_model(model), 64 * int(number)
    recipe = recipe_of_words(
        arch, method_named(method), sequence_tokens=sequence, rank=None, modules=None, precision=precision or usual,
        optimizer=None, offload=None, eager=False, is_from_nothing=False,
    )  # fmt: skip
    gpu = resolve_gpu(catalog, name).accelerator
    machine = usual_training_machine(gpu, network_of_gpu(gpu, catalog.instances.values()))
    grid = grid_of(parse_layout(layout) if layout else {}, batch, tunes=True)
    layouts, _ = training_layouts(arch, recipe, Cluster(0, machine, int(number)), batch, grid)
    memory = training_memory(arch, recipe, layouts, gpu.memory_bytes, load_training_memory_constants())
    least_gb = float(np.asarray(memory.total.expected).min()) / 1e9
    fitting = layouts.take(memory.fits)
    if not len(fitting):
        return Best(None, least_gb)
    time = TrainingTime(KernelModel(arch, recipe, (machine,), calibration_of(catalog)), fitting, load_training_time())
    per_token = np.asarray(step_terms(time).total / fitting.global_batch)
    fastest = fitting.take(np.array([int(per_token.argmin())]))
    return Best(estimate_training(arch, recipe, fastest, machine), least_gb)


def num_weights(model: str) -> int:
    return num_parameters(trained_model(model))


@cache
def tuned(model: str, gpus: str, method: str, clouds: str = "", pricing: str = "", tokens: float = 1e9) -> TrainingPlan:
    """Priced machines that train a model further."""
    return plan_finetune(
        model, tokens=tokens, gpus=[gpus], method=method, clouds=[clouds] if clouds else None, rows=100, idle=True,
        pricing=[pricing] if pricing else None, precision="fp16-mixed" if gpus.startswith(OLD_GPUS) else None,
        sequence_tokens=1024,
    )  # fmt: skip


@cache
def pretrained(model: str, tokens: float, gpus: str) -> TrainingPlan:
    """Priced machines that train a model from nothing."""
    return plan_train(model, tokens=tokens, gpus=[gpus])


@cache
def bytes_of_parts(model: str, layout: str, precision: str = "bf16-mixed") -> Mapping[str, float]:
    """Memory of each of eight GPUs by part, in one layout."""
    found = trained(model, "A100-80GB:8", "full", layout, precision, 2048).found
    return {term.name: term.value for term in found.memory.terms}


def quoted(line: str, unit: str) -> list[float]:
    """The figures with a unit that the page gives as the reason of a line; behind a range, both of its ends."""
    numbers = re.findall(rf"([\d,.]*\d)(?: to ([\d,.]*\d))? {unit}", SAID[line])
    return [float(number.replace(",", "")) for pair in numbers for number in pair if number]


def assert_quotes(line: str, figure: float, unit: str) -> None:
    found = quoted(line, unit)
    assert any(abs(each / figure - 1) <= NEAR for each in found), f"{line} quotes {found} {unit}, ours is {figure:.4g}"


def is_machine(row: TrainingDeployment, name: str) -> bool:
    return row.instance.removeprefix("Standard_") == name


RUNS = {
    "assessment:222": ("gpt2", "T4:1", 16, "full"),
    "assessment:223": ("gpt2-large", "V100:1", 8, "full"),
    "assessment:224": ("gpt-j-6b", "A100-40GB:1", 4, "lora"),
    "assessment:225": ("llama-7b", "A100-40GB:1", 2, "lora"),
    "assessment:226": ("llama-65b", "A100-80GB:8", 1, "lora"),
}


@pytest.mark.parametrize("line", RUNS)
def test_a_run_is_several_times_as_fast_as_the_table_says_at_its_own_batch(line: str) -> None:
    model, gpus, batch, method = RUNS[line]
    *_, said_batch, rate, hours = (cell.strip() for cell in TEXT[line].strip("|").split("|"))
    assert int(said_batch) == batch
    ours, said = trained(model, gpus, method, f"micro-batch={batch}"), float(rate.replace(",", ""))
    assert ours.slowest_tokens_per_s > 5 * said
    assert ours.hours < float(hours.split()[0]) / 8
    for figure in (ours.slowest_tokens_per_s, ours.tokens_per_s, ours.fastest_tokens_per_s):
        assert_quotes(line, figure, "tokens/s")
    assert_quotes(line, ours.hours, "h")


def test_2500_tokens_a_second_use_3_percent_of_a_t4() -> None:
    ours = trained("gpt2", "T4:1", "full", "micro-batch=16")
    assert ours.found.speed.mfu_ratio * 2500 / ours.tokens_per_s == pytest.approx(0.03, rel=0.15)


@pytest.mark.parametrize("line", ["assessment:224", "assessment:225", "assessment:226"])
def test_only_adapters_train_on_the_gpus_of_the_three_larger_runs(line: str) -> None:
    model, gpus, _, method = RUNS[line]
    assert method == "lora"
    assert trained(model, gpus).fastest is None
    assert "all weights do not fit" in SAID[line]


@pytest.mark.parametrize(
    ("line", "says"), [("75", "T4 or V100"), ("76", "gpu_count: 1"), ("77", "8-16GB"), ("79", "batch_size: 16-32")]
)
@pytest.mark.parametrize("gpu", ["T4", "V100"])
@pytest.mark.parametrize("batch", [16, 32])
def test_gpt2_trains_on_one_t4_or_v100_at_the_batches_and_in_the_memory_of_the_block(
    line: str, says: str, gpu: str, batch: int
) -> None:
    assert says in TEXT[f"assessment:{line}"]
    assert 8 <= trained("gpt2", f"{gpu}:1", "full", f"micro-batch={batch}").gib <= 16


@pytest.mark.parametrize(
    ("line", "hours", "model", "gpus", "method"),
    [
        ("assessment:78", "2-8", "gpt2", "T4:1", "full"),
        ("assessment:92", "8-24", "llama-7b", "A100-40GB:1", "lora"),
        ("assessment:92", "8-24", "llama-7b", "A100-80GB:2", "full"),
        ("assessment:106", "24-72", "llama-65b", "A100-80GB:8", "lora"),
        ("assessment:106", "24-72", "llama-65b", "A100-80GB:16", "full"),
    ],
)
def test_the_tokens_of_the_table_take_fewer_hours_than_a_block_says(
    line: str, hours: str, model: str, gpus: str, method: str
) -> None:
    assert f'"{hours} hours"' in TEXT[line]
    ours = trained(model, gpus, method).hours
    assert ours < float(hours.split("-")[0])
    assert_quotes(line, ours, "h")


@pytest.mark.parametrize(
    ("line", "says", "cloud", "machine", "model", "gpus"),
    [
        ("81", "g4dn.2xlarge", "aws", "g4dn.2xlarge", "gpt2", "T4:1"),
        ("83", "NC4as_T4_v3", "azure", "NC4as_T4_v3", "gpt2", "T4:1"),
        ("96", "a2-highgpu-1g", "gcp", "a2-highgpu-1g", "llama-7b", "A100-40GB:1"),
        ("96", "a2-highgpu-1g", "gcp", "a2-highgpu-1g", "gpt-j-6b", "A100-40GB:1"),
        ("97", "NC24ads_A100_v4", "azure", "NC24ads_A100_v4", "llama-7b", "A100-PCIe-80GB:1"),
        ("97", "NC24ads_A100_v4", "azure", "NC24ads_A100_v4", "gpt-j-6b", "A100-PCIe-80GB:1"),
    ],
)
def test_one_machine_of_a_block_trains_the_models_of_its_heading(
    line: str, says: str, cloud: str, machine: str, model: str, gpus: str
) -> None:
    """GPT-2 in full; models of 6 and 7 billion weights with adapters."""
    assert says in TEXT[f"assessment:{line}"]
    rows = tuned(model, gpus, "full" if model == "gpt2" else "lora", cloud).deployments
    assert any(is_machine(row, machine) and row.instance_count == 1 for row in rows)


def test_a_t4_on_gcp_is_known_and_has_no_price() -> None:
    assert "n1-standard-8 + T4" in TEXT["assessment:82"]
    names = {(instance.cloud, instance.name) for instance in load_catalog().instances.values()}
    assert ("gcp", "n1-standard-8+T4") in names
    assert not [offer for offer in load_catalog().offers if offer.instance == "n1-standard-8+T4"]


@pytest.mark.parametrize("model", ["gpt-j-6b", "llama-7b"])
def test_all_weights_of_a_medium_model_need_two_gpus_of_80_gb_and_its_adapters_one_of_any(model: str) -> None:
    assert "V100 or A100" in TEXT["assessment:89"]
    assert "1-2" in TEXT["assessment:90"]
    assert "16-32GB" in TEXT["assessment:91"]
    for gpu in ("V100-16GB", "V100-32GB", "A100-40GB"):
        assert trained(model, f"{gpu}:2").fastest is None
        assert trained(model, f"{gpu}:1", "lora").fastest is not None
    assert trained(model, "A100-80GB:1").fastest is None
    assert trained(model, "A100-80GB:2").fastest is not None
    assert_quotes("assessment:91", trained(model, "A100-80GB:1").least_gb, "GB")
    assert_quotes("assessment:89", trained(model, "A100-80GB:1").least_gb, "GB")


@pytest.mark.parametrize("batch", [4, 16])
@pytest.mark.parametrize("model", ["gpt-j-6b", "llama-7b"])
def test_adapters_of_a_medium_model_train_at_the_batches_of_the_block(model: str, batch: int) -> None:
    assert "batch_size: 4-16" in TEXT["assessment:93"]
    assert trained(model, "A100-40GB:1", "lora", f"micro-batch={batch}").gib <= 40


def test_p3_is_no_longer_started_and_p4d_trains_a_medium_model() -> None:
    assert "p3.2xlarge or p4d.24xlarge" in TEXT["assessment:95"]
    instances = {(instance.cloud, instance.name): instance for instance in load_catalog().instances.values()}
    assert instances["aws", "p3.2xlarge"].retired
    assert not instances["aws", "p4d.24xlarge"].retired
    for model in ("gpt-j-6b", "llama-7b"):
        assert [row.instance for row in tuned(model, "A100-40GB:8", "full", "aws").deployments] == ["p4d.24xlarge"]


def test_adapters_of_llama_65b_train_on_4_to_8_a100_of_80_gb_at_batches_of_1_to_4() -> None:
    assert "A100 80GB" in TEXT["assessment:103"]
    assert "4-8" in TEXT["assessment:104"]
    assert "1-4" in TEXT["assessment:107"]
    for gpus in (4, 8):
        for batch in (1, 4):
            assert trained("llama-65b", f"A100-80GB:{gpus}", "lora", f"micro-batch={batch}").fastest is not None


def test_all_weights_of_llama_65b_take_16_gpus_of_80_gb() -> None:
    assert trained("llama-65b", "A100-80GB:8").fastest is None
    assert trained("llama-65b", "A100-80GB:16").fastest is not None
    assert_quotes("assessment:104", trained("llama-65b", "A100-80GB:8").least_gb, "GB")
    assert_quotes("assessment:105", trained("llama-65b", "A100-80GB:8").least_gb * 8, "GB")


@pytest.mark.parametrize(
    ("line", "cloud", "machine", "with_80_gb"),
    [
        ("assessment:109", "aws", "p4d.24xlarge", "p4de.24xlarge"),
        ("assessment:110", "gcp", "a2-highgpu-8g", "a2-ultragpu-8g"),
    ],
)
def test_the_machine_that_a_block_names_for_80_gb_has_gpus_of_40_and_trains_adapters_alone(
    line: str, cloud: str, machine: str, with_80_gb: str
) -> None:
    assert machine in TEXT[line]
    assert machine in [row.instance for row in tuned("llama-65b", "A100-40GB:8", "lora", cloud).deployments]
    assert with_80_gb in [row.instance for row in tuned("llama-65b", "A100-80GB:8", "lora", cloud).deployments]
    assert not tuned("llama-65b", "A100-40GB:8", "full", cloud).deployments
    assert with_80_gb in SAID[line]
    assert_quotes(line, trained("llama-65b", "A100-40GB:8").least_gb, "GB")


def test_four_machines_of_one_gpu_wait_for_their_network() -> None:
    assert "4x NC24ads_A100_v4" in TEXT["assessment:111"]
    rows = tuned("llama-65b", "A100-PCIe-80GB:4", "lora", "azure", tokens=TABLE_TOKENS).deployments
    four, two = (
        next(row for row in rows if is_machine(row, name) and row.instance_count == count)
        for name, count in (("NC24ads_A100_v4", 4), ("NC48ads_A100_v4", 2))
    )
    assert four.usd.value > 3 * two.usd.value
    assert four.speed.exposed_s["data_parallel"] > four.speed.step_s.value / 2
    assert_quotes("assessment:111", four.work_s / HOUR, "h")
    assert_quotes("assessment:111", two.work_s / HOUR, "h")


def test_training_takes_18_bytes_a_weight_and_80_gb_hold_3_billion_of_them() -> None:
    assert "32-80GB" in TEXT["assessment:13"]
    assert trained("gpt2-xl", "A100-40GB:1").least_gb < 32 < trained("llama-3.2-3b", "A100-80GB:1").least_gb < 80
    assert_quotes("assessment:13", trained("llama-7b", "A100-80GB:1").least_gb, "GB")
    parts = bytes_of_parts("llama-7b", "tp=1,pp=1,dp=8,sharding=zero-1")
    states = parts["weights"] + parts["gradients"] + 8 * parts["optimizer"]
    assert states / num_weights("llama-7b") == pytest.approx(18, rel=0.01)


@pytest.mark.parametrize(("model", "method"), [("gpt-j-6b", "lora"), ("llama-7b", "lora"), ("ft-gpt-20b", "qlora")])
def test_adapters_train_in_16_to_40_gb_within_a_day(model: str, method: str) -> None:
    assert "16-40GB" in TEXT["assessment:14"]
    ours = trained(model, "A100-40GB:1", method)
    assert 16 <= ours.gib <= 40
    assert ours.hours < 24
    assert trained(model, "A100-40GB:1").fastest is None


def test_a_run_on_spot_writes_checkpoints_and_pays_for_what_it_repeats() -> None:
    assert "checkpointing" in TEXT["assessment:190"]
    assert "Checkpointing, graceful handling" in TEXT["assessment:431"]
    spot, steady = (tuned("llama-7b", "A100-40GB:8", "full", "aws", kind).answer for kind in ("spot", "on_demand"))
    assert spot.interruptions > steady.interruptions == 0
    assert spot.checkpoint_interval_s < steady.checkpoint_interval_s
    assert spot.repeated_ratio > steady.repeated_ratio
    assert spot.paid_s.value > spot.work_s


def test_what_spot_saves_of_a_run_starts_below_70_percent_and_ends_above_80() -> None:
    assert '"70-80%"' in TEXT["assessment:191"]
    runs = [
        ("llama-7b", "A100-40GB:8", "full", "aws"),
        ("llama-7b", "A100-40GB:8", "full", "gcp"),
        ("llama-3.1-8b", "A100-80GB:8", "lora", "aws"),
        ("gpt2", "T4:1", "full", "aws"),
    ]
    pairs = [[tuned(*run, kind).answer.usd.value for kind in ("spot", "on_demand")] for run in runs]
    savings = [1 - spot / steady for spot, steady in pairs]
    assert min(savings) < 0.7
    assert max(savings) > 0.8
    assert "below 70 %" in SAID["assessment:191"]
    assert "above 80 %" in SAID["assessment:191"]


def test_a_plan_says_what_tokens_cost_and_how_many_pass() -> None:
    """The metrics training_throughput and cost_per_training_epoch, as figures of each row of a plan."""
    assert "training_throughput" in TEXT["assessment:361"]
    assert "cost_per_training_epoch" in TEXT["assessment:366"]
    plan = tuned("llama-7b", "A100-40GB:8", "full", "gcp")
    for row in plan.deployments:
        assert row.tokens_per_s.value * row.work_s == pytest.approx(plan.tokens, rel=0.01)
        assert row.usd_per_million_tokens.value * plan.tokens / 1e6 == pytest.approx(row.usd.value)


def test_large_models_train_on_gpus_of_80_gb_where_those_of_40_do_not_hold_them() -> None:
    assert "A100 80GB for large model training" in TEXT["assessment:439"]
    for model, number in (("gpt-j-6b", 2), ("llama-7b", 2), ("ft-gpt-20b", 8), ("llama-65b", 16)):
        assert trained(model, f"A100-80GB:{number}").fastest is not None
        assert model == "ft-gpt-20b" or trained(model, f"A100-40GB:{number}").fastest is None


def test_mixed_precision_is_faster_than_fp32() -> None:
    assert "Mixed precision training (FP16)" in TEXT["assessment:454"]
    mixed, single = (trained("llama-7b", "A100-80GB:8", "full", "", name) for name in ("fp16-mixed", "fp32"))
    assert mixed.tokens_per_s > 1.5 * single.tokens_per_s


def test_a_step_of_training_is_products_and_needs_the_bandwidth_of_memory() -> None:
    assert "high-bandwidth memory and extreme parallel throughput" in TEXT["lesson:13"]
    speed = trained("llama-7b", "A100-80GB:8").found.speed
    assert speed.binding == "products"
    assert speed.exposed_s["elementwise"] + speed.exposed_s["optimizer"] > 0.02 * speed.step_s.value
    assert bytes_of_parts("llama-7b", "tp=1,pp=1,dp=8,sharding=zero-1")["gradients"] > 0


def test_adapters_are_few_weights_quicker_and_take_less_memory_than_all_of_them() -> None:
    assert "Updating subset of parameters or adapters" in TEXT["lesson:14"]
    assert "Moderate memory requirements" in TEXT["computation:38"]
    plan = tuned("llama-7b", "A100-40GB:1", "lora")
    assert plan.num_trained_parameters < 0.01 * plan.num_parameters
    some, every = (trained("llama-7b", "A100-80GB:2", method) for method in ("lora", "full"))
    assert some.tokens_per_s > 1.2 * every.tokens_per_s
    assert some.least_gb < every.least_gb / 3


def test_fine_tuning_costs_less_than_100_usd_and_training_from_nothing_more_than_100_000() -> None:
    assert "$100 or $100,000" in TEXT["lesson:75"]
    assert "Choose between fine-tuning existing models vs. training from scratch" in TEXT["lesson:76"]
    tuning = plan_finetune("llama-3.1-8b", tokens="50M").answer.usd.value
    assert tuning < 100
    assert pretrained("llama-3.1-8b", 15e12, "H100:256").answer.usd.value > 100_000


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("lesson:121", "optimizer"),
        ("lesson:122", "optimizer"),
        ("computation:68", "optimizer"),
        ("computation:69", "gradients"),
    ],
)
def test_states_of_training_are_the_seeds_multiples_of_the_weights_in_fp32_alone(line: str, part: str) -> None:
    """Twice (optimizer) and once (gradients); in mixed precision they keep FP32 beside weights of 16 bits."""
    single, mixed = (bytes_of_parts("llama-7b", SHARDED, name) for name in ("fp32", "bf16-mixed"))
    seed = {"optimizer": 2, "gradients": 1}[part]
    assert single[part] / single["weights"] == pytest.approx(seed, rel=0.01)
    assert_quotes(line, mixed[part] / mixed["weights"], "x the weights")
    assert mixed[part] / mixed["weights"] > 1.9 * seed


def test_activations_follow_batch_and_recomputation_and_not_the_weights() -> None:
    assert "Forward activations (1x)" in TEXT["computation:70"]
    few, many = (
        bytes_of_parts("llama-7b", f"{EIGHT},micro-batch={said}")["activations"]
        for said in ("1,recompute=full", "4,recompute=none")
    )
    weights = 2 * num_weights("llama-7b")
    assert few / weights < 0.1
    assert many / weights > 2
    assert_quotes("computation:70", few / weights, "x")
    assert_quotes("computation:70", many / weights, "x")


def test_buffers_are_less_than_half_of_the_weights() -> None:
    assert "Temporary buffers (2x)" in TEXT["computation:71"]
    parts = bytes_of_parts("llama-7b", f"{SHARDED},recompute=full")
    kept = ("weights", "gradients", "optimizer", "activations")
    buffers = sum(size for name, size in parts.items() if name not in kept)
    assert 0 < buffers < num_weights("llama-7b")


def test_six_times_the_weights_are_too_few_gpus_in_16_bits_and_too_many_in_32() -> None:
    assert "6 \\times" in TEXT["computation:60"]
    billions = num_weights("llama-65b") / 1e9
    seed = [math.ceil(rules.gpus_for_training(billions, width, 80)) for width in (2, 4)]
    precisions = ("bf16-mixed", "fp32")
    taken = [8 * trained("llama-65b", "A100-80GB:8", "full", "", name, 2048).least_gb for name in precisions]
    assert seed == [10, 20]
    assert taken[0] / 80 > 15
    assert 13 < taken[1] / 80 <= 14
    assert_quotes("computation:60", taken[0], "GB")


def test_mixed_precision_saves_time_and_activations_and_no_states() -> None:
    assert "Mixed-precision training uses FP16" in TEXT["lesson:176"]
    single, mixed = (bytes_of_parts("llama-7b", f"{SHARDED},recompute=none", name) for name in ("fp32", "fp16-mixed"))
    states = [8 * sum(p[name] for name in ("weights", "gradients", "optimizer")) for p in (single, mixed)]
    per_weight = [size / num_weights("llama-7b") for size in states]
    assert per_weight == pytest.approx([16, 18], rel=0.01)
    assert single["activations"] == pytest.approx(2 * mixed["activations"], rel=0.05)
    assert {16.0, 18.0} <= set(quoted("lesson:176", "bytes"))


def test_a_token_takes_six_operations_a_weight_and_attention_beside() -> None:
    assert "7e9 * 6 * 10000" in TEXT["lesson:278"]
    found = trained("llama-7b", "A100-80GB:8", sequence=2048).found
    peak = load_catalog().accelerators["A100-SXM4-80GB"].peak_flop_per_s["bf16"]
    per_token = found.speed.mfu_ratio * peak / found.speed.tokens_per_s_per_gpu.value
    assert 6.0 < per_token / num_weights("llama-7b") < 6.6


def test_inference_takes_less_memory_than_training() -> None:
    assert "Lower memory requirements than training" in TEXT["computation:31"]
    assert "Highest resource demands" in TEXT["computation:45"]
    served = sum(part.size.value for part in fit("llama-7b", "A100-80GB:1", 2048).parts) / 1e9
    adapters, every = (trained("llama-7b", "A100-80GB:1", method, "micro-batch=1") for method in ("lora", "full"))
    assert served < adapters.found.memory.total_bytes.value / 1e9 < every.least_gb
    dear, cheap = (
        pretrained("llama-3.1-8b", 15e12, "H100:256"),
        plan_finetune("llama-3.1-8b", tokens="50M", method="full"),
    )
    assert dear.answer.gpu_hours.value > 1000 * cheap.answer.gpu_hours.value


def test_fine_tuning_is_stable_in_16_bits_with_fp32_master_weights() -> None:
    """What is usual: 16 bits with master weights where all learn, 16 bits alone where adapters do; FP32 is slower."""
    assert "Higher precision needs (FP32)" in TEXT["computation:39"]
    usual = [tuned("llama-7b", "A100-80GB:8", method).precision for method in ("full", "lora")]
    assert usual == ["bf16-mixed", "bf16"]
    mixed, single = (trained("llama-7b", "A100-80GB:8", "full", "", name) for name in ("bf16-mixed", "fp32"))
    assert_quotes("computation:39", mixed.tokens_per_s / single.tokens_per_s, "times")


def test_fine_tuning_is_spread_over_gpus_and_over_machines() -> None:
    assert "Distributed training capable" in TEXT["computation:40"]
    one, eight = (trained("llama-7b", f"A100-80GB:{number}", "lora") for number in (1, 8))
    assert eight.tokens_per_s == pytest.approx(8 * one.tokens_per_s, rel=0.1)
    assert [row for row in tuned("llama-7b", "A100-40GB:2", "lora", "gcp").deployments if row.instance_count == 2]


@pytest.mark.parametrize("line", ["computation:41", "computation:85", "computation:86"])
def test_smaller_micro_batches_take_less_memory_and_more_time_for_the_same_batch(line: str) -> None:
    words = {
        "computation:41": "gradient accumulation", "computation:85": "micro-batches", "computation:86": "Trades speed",
    }  # fmt: skip
    assert words[line] in TEXT[line]
    small, large = (trained("llama-7b", "A100-80GB:1", "lora", f"micro-batch={n},recompute=none") for n in (1, 8))
    assert small.found.layout.num_micro_batches == 8 * large.found.layout.num_micro_batches
    assert small.gib < large.gib
    assert small.tokens_per_s < large.tokens_per_s


def test_tokens_and_batch_are_asked_and_a_learning_rate_changes_no_step() -> None:
    assert "dataset size, learning rate, batch size" in TEXT["computation:42"]
    words = {each.name for each in fields(FinetuneRequest)}
    assert {"tokens", "global_batch"} <= words
    assert not {name for name in words if "rate" in name.split("_")}
    some, twice = (tuned("llama-7b", "A100-40GB:8", "lora", "aws", tokens=n).answer.work_s for n in (1e9, 2e9))
    assert twice == pytest.approx(2 * some, rel=0.01)


def test_billions_of_weights_need_several_gpus_and_gpt2_does_not() -> None:
    assert "Requires distributed infrastructure" in TEXT["computation:46"]
    for number in (1, 2):
        assert not pretrained("llama-3.1-8b", 10e9, f"H100:{number}").deployments
    assert pretrained("llama-3.1-8b", 10e9, "H100:8").deployments
    assert plan_train("gpt2", tokens="1B", gpus=["T4:1"], precision="fp16-mixed").deployments


@pytest.mark.parametrize(
    ("model", "tokens", "gpus"), [("llama-3.1-8b", 15e12, "H100:256"), ("llama-65b", 1.4e12, "A100-80GB:2048")]
)
def test_pre_training_takes_weeks_to_months(model: str, tokens: float, gpus: str) -> None:
    assert "weeks to months" in TEXT["computation:48"]
    assert 14 < pretrained(model, tokens, gpus).answer.finish_s.value / DAY < 100


def test_long_runs_fail_and_start_again_from_checkpoints() -> None:
    assert "checkpoint management, fault tolerance" in TEXT["computation:49"]
    plan = pretrained("llama-65b", 1.4e12, "A100-80GB:2048")
    assert plan.checkpoint_bytes > 12 * plan.num_parameters
    row = plan.answer
    assert row.failures > 5
    assert 0 < row.checkpoint_write_s < row.checkpoint_interval_s < DAY
    assert row.finish_s.value > row.work_s


def test_each_stage_of_zero_takes_less_memory() -> None:
    assert "ZeRO" in TEXT["computation:89"]
    stages = ["zero-1", "zero-2", "zero-3"]
    totals = [
        trained("llama-7b", "A100-80GB:8", "full", f"tp=1,micro-batch=1,recompute=full,sharding={s}").gib
        for s in stages
    ]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < totals[0] / 2


@pytest.mark.parametrize("name", ["fp16-mixed", "bf16-mixed"])
def test_mixed_precision_computes_in_16_bits_and_steps_weights_of_32(name: str) -> None:
    assert "FP16/BF16 computation with FP32 master weights" in TEXT["computation:105"]
    recipe = recipe_of_words(
        trained_model("llama-7b"), method_named("full"), sequence_tokens=None, rank=None, modules=None, precision=name,
        optimizer=None, offload=None, eager=False, is_from_nothing=True,
    )  # fmt: skip
    assert (recipe.formats.weight_bytes, recipe.formats.master_bytes) == (2, 4)


def test_what_lies_in_host_memory_leaves_room_on_the_gpu() -> None:
    assert "CPU offloading opportunities" in TEXT["computation:139"]
    words = {"tokens": "10M", "method": "full", "gpus": ["A100-80GB:1"], "idle": True}
    assert not plan_finetune("llama-7b", **words).deployments
    offloaded = plan_finetune("llama-7b", offload=["optimizer"], **words)
    assert offloaded.answer.memory.host_bytes > 8 * offloaded.num_parameters


def test_the_page_leaves_no_line_that_waits_for_training_as_such() -> None:
    stale = ("come with training", "comes with training", "training plans", "training of our own", "runs come with")
    waiting = [line for line, reason in SAID.items() if STATE[line] == "planned" and any(s in reason for s in stale)]
    assert waiting == []
