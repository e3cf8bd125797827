"""The calculators do what the seeds' own code does, on its examples and on any other input."""

from __future__ import annotations

import contextlib
import io
import math
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.compat import rules
from gpufleet.compat.rules import ParallelismStrategy
from gpufleet.errors import UsageError

LESSON = (Path(__file__).parents[2] / "contracts" / "seeds" / "lesson.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", LESSON, re.DOTALL)
CUT_BLOCK = LESSON.rpartition("```python\n")[2]


def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "seed"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "lesson.md", "exec", dont_inherit=True), names)
    return names


MEMORY = run(next(b for b in BLOCKS if "def calculate_memory_requirements" in b))
RUNTIME = run(next(b for b in BLOCKS if "def estimate_runtime" in b))
SCALING = run(
    CUT_BLOCK.rstrip() + textwrap.indent("\nreturn memory_per_gpu, effective_batch, scaling_efficiency", "    ")
)
rate = st.floats(0.1, 5000, allow_nan=False)


def test_the_seed_really_is_cut_off_inside_its_pipeline_branch() -> None:
    assert CUT_BLOCK.rstrip().endswith("scaling_efficiency = 1 - pipeline_bubble - communication_overhead")
    assert "ParallelismStrategy.TENSOR:" not in CUT_BLOCK


def test_the_examples_of_the_lesson_need_what_its_code_says() -> None:
    assert rules.calculate_memory_requirements(7_000_000_000, 2, 4, 2048) == MEMORY["inference_7b"]
    assert rules.calculate_memory_requirements(7_000_000_000, 4, 2, 2048, training=True) == MEMORY["training_7b"]
    assert (MEMORY["inference_7b"]["total_gb"], MEMORY["training_7b"]["total_gb"]) == (228.2, 319.47)


@given(
    st.integers(2, 10**13), st.sampled_from([1, 2, 4]), st.integers(1, 4096), st.integers(1, 10**6), st.booleans()
)  # fmt: skip
def test_memory_is_the_seeds_to_the_last_digit(
    parameters: int, size: int, batch: int, tokens: int, training: bool
) -> None:
    ours = rules.calculate_memory_requirements(parameters, size, batch, tokens, training)
    assert repr(ours) == repr(MEMORY["calculate_memory_requirements"](parameters, size, batch, tokens, training))


@given(
    st.tuples(rate, rate, st.integers(1, 200), rate, st.integers(1, 2000), rate),
    st.tuples(st.floats(1, 1e24), st.floats(0, 1e6), st.sampled_from(["fp16", "fp32", "int8"])),
    st.floats(0.01, 1),
)
def test_runtime_is_the_seeds_to_the_last_digit(gpu: Any, work: Any, efficiency: float) -> None:
    ours = rules.estimate_runtime(rules.GPUSpec("x", *gpu), rules.WorkloadProfile(*work), efficiency)
    seed = RUNTIME["estimate_runtime"](RUNTIME["GPUSpec"]("x", *gpu), RUNTIME["WorkloadProfile"](*work), efficiency)
    assert ours == seed


def test_the_seeds_gpus_and_workloads_are_here() -> None:
    for name, block_name in (("consumer", "gpu_consumer"), ("datacenter", "gpu_datacenter")):
        assert vars(rules.SEED_GPUS[name]) == vars(RUNTIME[block_name])
    for name, block_name in (("inference", "workload_inference"), ("training", "workload_training")):
        assert vars(rules.SEED_WORKLOADS[name]) == vars(RUNTIME[block_name])


@given(
    st.integers(1, 1024), st.sampled_from(["DATA", "MODEL", "PIPELINE"]), st.floats(0.1, 1e4), st.integers(1, 4096),
    st.floats(0, 0.45),
)  # fmt: skip
def test_scaling_is_the_seeds_as_far_as_it_goes(n: int, name: str, size: float, batch: int, overhead: float) -> None:
    memory, effective, efficiency = SCALING["calculate_multi_gpu_efficiency"](
        n, SCALING["ParallelismStrategy"][name], size, batch, overhead
    )
    ours = rules.calculate_multi_gpu_efficiency(n, ParallelismStrategy[name], size, batch, overhead)
    assert ours["memory_per_gpu_gb"] == round(memory, 2)
    assert ours["effective_batch_size"] == effective
    assert ours["scaling_efficiency"] == round(max(efficiency, 0.0), 3)


def test_the_seeds_own_enum_is_understood() -> None:
    theirs = SCALING["ParallelismStrategy"].TENSOR
    assert rules.calculate_multi_gpu_efficiency(4, theirs, 14.0, 8)["strategy"] == "tensor_parallelism"


@given(st.integers(1, 512), st.sampled_from(ParallelismStrategy), st.integers(1, 512), st.floats(0, 0.99))
def test_no_strategy_gains_more_than_its_gpus_or_less_than_nothing(
    n: int, strategy: ParallelismStrategy, batch: int, overhead: float
) -> None:
    found = rules.calculate_multi_gpu_efficiency(n, strategy, 14.0, batch, overhead)
    assert 0 <= found["scaling_efficiency"] <= 1
    assert 0 <= found["effective_speedup"] <= n
    assert found["memory_per_gpu_gb"] <= 14.0


def test_tensor_parallelism_on_one_gpu_loses_nothing_and_says_so() -> None:
    found = rules.calculate_multi_gpu_efficiency(1, ParallelismStrategy.TENSOR, 14.0, 8)
    assert (found["scaling_efficiency"], found["effective_speedup"]) == (1.0, 1.0)
    assert "cut off" in str(rules.calculate_multi_gpu_efficiency.__doc__)


def test_a_pipeline_that_runs_half_empty_is_told() -> None:
    found = rules.calculate_multi_gpu_efficiency(8, ParallelismStrategy.PIPELINE, 14.0, 8)
    assert "half empty" in found["recommendation"]
    full = rules.calculate_multi_gpu_efficiency(8, ParallelismStrategy.PIPELINE, 14.0, 64)
    assert "half empty" not in full["recommendation"]


def test_a_batch_below_the_number_of_gpus_leaves_some_without_work() -> None:
    found = rules.calculate_multi_gpu_efficiency(8, ParallelismStrategy.DATA, 14.0, 4)
    assert "without work" in found["recommendation"]


@pytest.mark.parametrize("strategy", ["sideways", None, 3])
def test_an_unknown_strategy_is_refused_with_the_known_ones(strategy: Any) -> None:
    with pytest.raises(UsageError, match="pipeline"):
        rules.calculate_multi_gpu_efficiency(8, strategy, 14.0, 32)


@pytest.mark.parametrize(
    "wrong",
    [(0, 2, 1, 1), (1, 2, 1, 1), (-7, 2, 1, 1), (7e9, 0, 1, 1), (7e9, 2, 0, 1), (7e9, 2, 1, -1), (math.inf, 2, 1, 1)],
)
def test_memory_refuses_what_the_formula_cannot_take(wrong: Any) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        rules.calculate_memory_requirements(*wrong)


@pytest.mark.parametrize("efficiency", [0.0, -0.1, 1.1, math.nan])
def test_runtime_refuses_an_efficiency_that_is_none(efficiency: float) -> None:
    with pytest.raises(UsageError, match="efficiency"):
        rules.estimate_runtime(rules.SEED_GPUS["consumer"], rules.SEED_WORKLOADS["inference"], efficiency)


def test_runtime_refuses_a_workload_of_nothing() -> None:
    with pytest.raises(UsageError, match="workload"):
        rules.estimate_runtime(rules.SEED_GPUS["consumer"], rules.WorkloadProfile(0, 0, "fp16"))


@given(st.floats(0.001, 1e5), st.sampled_from([1, 2, 4]), st.floats(1, 1000))
@settings(max_examples=50)
def test_training_takes_six_times_the_gpus_and_never_fewer_whole_ones(b: float, size: int, memory: float) -> None:
    inference, training = rules.gpus_for_inference(b, size, memory), rules.gpus_for_training(b, size, memory)
    assert training == 6 * inference
    assert 1 <= rules.whole_gpus(inference) <= rules.whole_gpus(training)


def test_the_six_of_training_are_the_parts_that_the_seed_lists() -> None:
    from gpufleet.compat.rules.gpus import TRAINING_MULTIPLIERS

    assert sum(TRAINING_MULTIPLIERS.values()) == rules.TRAINING_MULTIPLIER == 6
    assert "weights" not in TRAINING_MULTIPLIERS


@given(st.floats(1e-6, 1e6))
def test_every_model_has_exactly_one_size_class(billions: float) -> None:
    holding = [c for c in rules.SIZE_CATEGORIES if c.least_billions <= billions < c.below_billions]
    assert [rules.size_category(billions)] == holding


def test_the_environments_come_to_what_the_seed_prints_but_for_its_slip() -> None:
    slips = {e.name: round(e.usd_per_month, 2) for e in rules.ENVIRONMENTS
             if round(e.usd_per_month) != e.printed_usd_per_month}  # fmt: skip
    assert slips == {"Production Inference (Real-time)": 1624.32}


def test_the_training_times_are_those_printed() -> None:
    assert [round(rules.training_hours(100e6, run.tokens_per_s)) for run in rules.TRAINING_RUNS] == [
        run.hours for run in rules.TRAINING_RUNS
    ]


@given(st.floats(0.01, 1e6), st.floats(0, 1))
def test_what_is_saved_is_what_was_said_to_be(usd: float, share: float) -> None:
    assert rules.saving_ratio(usd, rules.cost_after(usd, share)) == pytest.approx(share, abs=1e-9)


def test_an_option_that_costs_the_same_saves_nothing() -> None:
    assert rules.saving_ratio(32.77, 32.77) == 0


@pytest.mark.parametrize(("start", "end", "hours"), [(22, 6, 8), (6, 22, 16), (0, 24, 0), (9, 9, 0), (20, 8, 12)])
def test_hours_off_go_past_midnight(start: float, end: float, hours: float) -> None:
    assert rules.hours_between(start, end) == hours


def test_a_row_of_the_right_size_table_is_found_by_any_spelling() -> None:
    assert {rules.right_size(name).model for name in ("Llama 7B (FP16)", "llama-7b", "LLAMA7B")} == {"Llama 7B (FP16)"}
    with pytest.raises(UsageError, match="Whisper Large-v3"):
        rules.right_size("whisper large v4")
