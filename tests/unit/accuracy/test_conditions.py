"""What the row, the client and the engine say about a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.accuracy.benchmark_clients import (
    ClientConditions,
    conditions_of,
    launch_options,
    queued_requests,
)
from gpufleet.accuracy.conditions import (
    EngineLabel,
    engine_of,
    engine_of_row,
    layout_of,
    memory_version_of,
)
from gpufleet.catalog.benchmark_scripts import LaunchOptions, StartLimits, load_benchmark_scripts
from gpufleet.catalog.engine_eras import remembering, with_memory_era
from gpufleet.catalog.engines import find_engine
from gpufleet.domain.versions import version_key
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow


@pytest.mark.parametrize(
    ("label", "name", "version"),
    [
        ("vLLM", "vllm", None),
        ("vLLM 0.11.0", "vllm", "0.11.0"),
        ("vLLM (main, 2024-12-14)", "vllm", None),
        ("TensorRT-LLM", "tensorrt-llm", None),
        ("HF transformers", "hf-transformers", None),
        ("trtllm", "trtllm", None),
    ],
)
def test_an_engine_label_holds_name_and_version(label: str, name: str, version: str | None) -> None:
    assert engine_of(label) == EngineLabel(name, version)


def test_polling_and_gathering_are_conditions_of_the_client_and_not_of_the_engine() -> None:
    def asked(engine: str, **cells: str) -> ClientConditions:
        return conditions_of(MeasurementRow(2, {"client": "inferencex", "gpu_id": "B200", **cells}), engine)

    assert asked("sglang", concurrency="64").poll_interval_steps == 30
    assert asked("sglang", concurrency="8").poll_interval_steps == 10
    assert asked("sglang", concurrency="64", gpu_id="H200").poll_interval_steps == 1
    assert asked("sglang", concurrency="64", client="internal").poll_interval_steps == 1
    assert (asked("trtllm").gather_steps, asked("vllm").gather_steps) == (60, 0)


def test_a_client_that_nobody_describes_sends_ten_prompts_for_each_slot() -> None:
    assert conditions_of(MeasurementRow(2, {"client": "internal"}), "vllm") == ClientConditions(waves=10)


def test_what_a_row_states_itself_comes_first() -> None:
    row = MeasurementRow(2, {"client": "inferencex", "waves": "4", "poll_interval_steps": "5", "gather_steps": "7"})
    assert conditions_of(row, "sglang") == ClientConditions(4, 5, 7)
    waits = MeasurementRow(2, {"client": "inferencex", "batch_wait_steps": "30"})
    assert conditions_of(waits, "trtllm").batch_wait == (30, 1)


@pytest.mark.parametrize(
    ("tp", "isl", "wait"), [("4", "1024", (20, 0.9)), ("8", "1024", (0, 0)), ("4", "8192", (0, 0))]
)
def test_llama_under_tensorrt_llm_waits_for_full_steps_at_1k_on_few_gpus(
    tp: str, isl: str, wait: tuple[float, float]
) -> None:
    """benchmarks/70b_fp8_b200_trt_slurm.sh of InferenceX."""
    said = {"model_id": "llama-3.3-70b", "precision": "fp8", "gpu_id": "B200", "tp": tp, "isl": isl, "osl": "1024"}
    row = inferencex_row(**said)
    launched = launch_options(row, "trtllm", int(tp))
    assert conditions_of(row, "trtllm", launched).batch_wait == wait
    assert launched.limits.max_step_tokens == 16384


def test_gpus_without_tp_are_split_as_the_engine_splits() -> None:
    row = MeasurementRow(2, {"gpu_id": "A10G", "num_gpus": "4"})
    assert (layout_of(row, "llama.cpp").tp, layout_of(row, "llama.cpp").pp) == (1, 4)
    assert (layout_of(row, "vllm").tp, layout_of(row, "vllm").pp) == (4, 1)


def test_llama_cpp_split_rows_before_2024() -> None:
    row = MeasurementRow(2, {"gpu_id": "A10G", "num_gpus": "4", "source": "mlc-ai/llm-perf-bench README.md@d401356f84"})
    assert (layout_of(row, "llama.cpp").tp, layout_of(row, "llama.cpp").pp) == (4, 1)


def test_a_layout_uses_all_the_gpus_that_the_row_states() -> None:
    row = MeasurementRow(2, {"gpu_id": "B200", "num_gpus": "8", "tp": "1", "attention_dp": "8", "ep": "8"})
    assert layout_of(row, "sglang").num_gpus == 8
    with pytest.raises(UsageError, match="does not use the GPUs"):
        layout_of(MeasurementRow(2, {"gpu_id": "B200", "num_gpus": "8", "tp": "2"}), "vllm")


def test_a_row_without_gpu_says_so() -> None:
    with pytest.raises(UsageError, match="GPU not stated"):
        layout_of(MeasurementRow(2, {"tp": "2"}), "vllm")


def row_of(**cells: str) -> MeasurementRow:
    return MeasurementRow(2, cells)


@pytest.mark.parametrize(
    ("engine", "source", "version"),
    [
        ("vLLM 0.11.0", "", "0.11.0"),
        ("vLLM (main, 2023-11)", "", "0.2.4"),
        ("vLLM (main, 2023-12-15)", "", "0.2.5"),
        ("vLLM (main, 2024-01)", "", "0.5.2"),
        ("vLLM (2026-04-30)", "", "0.20"),
        ("vLLM (2024-08-19)", "", "0.6.3"),
        ("vLLM (2024-12-02)", "github.com/vllm-project/vllm issues/10517", "0.7.0"),
        ("vLLM (V0, 2025-04-02)", "", "0.7.3"),
        ("vLLM (V0, 2024-04-29)", "", "0.5.2"),
        ("vLLM (main V1, 2025-04-24)", "", "0.8.4"),
        ("vLLM (2025-07-22)", "", "0.10.2"),
        ("vLLM (2025-12-01)", "", "0.16.0"),
        ("vLLM (2026-09-01)", "", None),
        ("vLLM", "github.com/vllm-project/vllm issues/6746", "0.6.3"),
        ("vLLM", "github.com/vllm-project/vllm pull/2031", "0.2.5"),
        ("vLLM (PR, 2023-12)", "github.com/vllm-project/vllm pull/2031", "0.2.5"),
        ("vLLM (main before PR, 2023-12)", "github.com/vllm-project/vllm pull/2031", "0.2.4"),
        ("vLLM (main, 2024-12-14)", "github.com/vllm-project/vllm pull/10511", "0.7.0"),
        ("vLLM", "github.com/vllm-project/vllm issues/50000", None),
        ("vLLM", "github.com/somebody/else issues/17", None),
        ("vLLM", "", None),
        ("SGLang (2024-01-01)", "", None),
    ],
)
def test_memory_follows_the_version_stated_else_the_date_else_the_number_of_the_issue(
    engine: str, source: str, version: str | None
) -> None:
    row = row_of(engine=engine, source=source)
    assert memory_version_of(row, engine_of_row(row)) == version


def test_eras_of_memory_follow_each_other_in_version_date_and_number() -> None:
    eras = find_engine("vllm").memory_eras
    assert [e.until_date for e in eras] == sorted(e.until_date for e in eras)
    assert [e.until_issue for e in eras] == sorted(e.until_issue for e in eras)
    assert all(version_key(e.newest) < version_key(e.until) for e in eras)
    vllm = replace(find_engine("vllm"), earlier=(), earlier_fusions=())
    assert [vars(remembering(vllm, e.newest)) for e in eras] == [vars(with_memory_era(vllm, e)) for e in eras]


def test_a_sum_over_gpus_names_them_where_the_column_says_one() -> None:
    summed = row_of(engine="AutoAWQ", gpu_id="RTX-4090", num_gpus="1", notes="peak memory; sum over 2 GPUs")
    assert layout_of(summed, "autoawq").num_gpus == 2
    assert layout_of(row_of(gpu_id="RTX-4090", num_gpus="1"), "autoawq").num_gpus == 1


BENCH = "github.com/NVIDIA/TensorRT-LLM docs/source/performance/perf-overview.md (version 0.14.0 table)"


def bench_row(**cells: str) -> MeasurementRow:
    return MeasurementRow(1, {"source": BENCH, "model_id": "llama-3-70b", "isl": "128", "osl": "4096", **cells})


def test_a_published_queue_is_as_long_as_its_source_says() -> None:
    """TensorRT-LLM 0.14, docs/source/performance/perf-overview.md, "Preparing a Dataset"."""
    assert queued_requests(bench_row()) == 1500
    assert queued_requests(bench_row(osl="128")) == 30000
    assert queued_requests(bench_row(requests="64")) == 64
    assert queued_requests(bench_row(source="elsewhere")) is None


def limits_of(row: MeasurementRow, tp: int) -> StartLimits:
    return launch_options(row, "trtllm", tp).limits


def test_an_engine_keeps_the_limits_that_its_benchmark_built_it_for() -> None:
    """tensorrt_llm/bench/build/benchmark_config.yml: two GPUs have a row of their own for 4,096 tokens."""
    assert limits_of(bench_row(), 2) == StartLimits(256, 1024)
    assert limits_of(bench_row(isl="2048", osl="2048"), 2) == StartLimits(2048, 1024)
    assert limits_of(bench_row(), 8) == StartLimits(8192, 16384)
    assert limits_of(bench_row(source="elsewhere"), 8) == StartLimits()


def inferencex_row(**cells: str) -> MeasurementRow:
    return MeasurementRow(1, {"client": "inferencex", "model_id": "deepseek-v3", "isl": "1024", "osl": "1024", **cells})


def test_a_server_runs_as_the_script_of_its_benchmark_started_it() -> None:
    """InferenceX, benchmarks/single_node/dsr1_fp8_b200.sh and dsr1_fp8_h200.sh: options differ by GPUs and lengths."""
    b200, h200 = inferencex_row(gpu_id="B200", precision="fp8"), inferencex_row(gpu_id="H200-SXM", precision="fp8")
    assert launch_options(b200, "sglang", 8) == LaunchOptions(StartLimits(None, 32768, 0.82), "fp8")
    assert launch_options(b200, "sglang", 4) == LaunchOptions(StartLimits(None, 8192, 0.95), "fp8", 10)
    assert launch_options(h200, "sglang", 8) == LaunchOptions(StartLimits(512, 32768, 0.82))
    longer = inferencex_row(gpu_id="H200-SXM", precision="fp8", osl="8192")
    assert launch_options(longer, "sglang", 8) == LaunchOptions(StartLimits(256, 32768, 0.82))
    assert launch_options(b200, "vllm", 8) == LaunchOptions()


@pytest.mark.parametrize(
    ("version", "gpu", "mixes"),
    [("0.5.6.post2", "H200-SXM", True), ("0.5.1.post1", "H200-SXM", False), ("0.5.8.post1", "H100-SXM", False)],
)
def test_scripts_let_prompts_and_decoding_share_steps_from_a_version_on(version: str, gpu: str, mixes: bool) -> None:
    """aiconfigurator, src/aiconfigurator/generator: cli_args.0.5.6.post2.j2 passes --enable-mixed-chunk; the file of
    0.5.1.post1 asks for a word that its rules never set.
    """
    row = MeasurementRow(1, {"client": "internal", "gpu_id": gpu, "engine_version": version, "isl": "4000"})
    assert launch_options(row, "sglang", 1).limits.mixes_prompts is mixes


def test_tokens_of_a_step_follow_the_prompts_where_a_script_says_so() -> None:
    """aiconfigurator, rule_plugin/trtllm.rule: 512 sequences, and they, a prompt and 1,500 more in blocks of 32."""
    steps = {
        isl: limits_of(MeasurementRow(1, {"client": "internal", "isl": str(isl), "osl": "128"}), 2).max_step_tokens
        for isl in (1024, 2048, 4096)
    }
    assert steps == {isl: -(-(512 + isl + 1500) // 32) * 32 for isl in steps}


MINIMAX = {"client": "inferencex", "model_id": "minimax-m2.5", "gpu_id": "B200", "precision": "fp8", "osl": "1024"}


def minimax_launched(**cells: str) -> LaunchOptions:
    return launch_options(MeasurementRow(1, {**MINIMAX, "isl": "8192", **cells}), "vllm", 2)


def test_a_script_that_changed_with_the_engine_holds_from_that_version_on() -> None:
    """InferenceX pull/947 upgrades B200 to vLLM 0.19: fp8 KV, 0.90 of the memory, steps of two prompts."""
    old = LaunchOptions(StartLimits(memory_fraction=0.95), whole_experts=True)
    assert minimax_launched(engine_version="0.17.0") == minimax_launched() == old
    assert minimax_launched(engine_version="0.19.0") == LaunchOptions(StartLimits(None, 16384, 0.9), "fp8")
    assert minimax_launched(engine_version="0.19.0", isl="1024").limits.max_step_tokens == 2048
    assert minimax_launched(engine_version="0.19.0", isl="2048") == LaunchOptions(StartLimits(None, None, 0.9), "fp8")
    assert minimax_launched(engine_version="nightly-5b8c30d") == minimax_launched(engine_version="0.19.0")


def test_a_script_that_polls_otherwise_than_its_client_counts_before_it() -> None:
    """InferenceX, benchmarks/single_node/dsr1_fp8_b200.sh: four GPUs look for requests every 10 steps at any load."""
    crowded = inferencex_row(gpu_id="B200", precision="fp8", concurrency="32")
    intervals = [conditions_of(crowded, "sglang", launch_options(crowded, "sglang", tp)) for tp in (4, 8)]
    assert [found.poll_interval_steps for found in intervals] == [10, 30]
    stated = inferencex_row(gpu_id="B200", precision="fp8", poll_interval_steps="5")
    assert conditions_of(stated, "sglang", launch_options(stated, "sglang", 4)).poll_interval_steps == 5


def test_no_two_scripts_claim_the_same_runs() -> None:
    claims = [(k.published_in, *k.conditions.items(), k.since_version) for k in load_benchmark_scripts().launches]
    assert len(set(claims)) == len(claims)


def test_a_label_of_ep_1_is_read_as_its_script_started_the_server() -> None:
    """InferenceX, benchmarks/single_node/minimaxm2.5_fp8_h200.sh of March 2026: experts spread from EP_SIZE 1 on."""
    minimax = {"client": "inferencex", "model_id": "minimax-m2.5", "ep": "1", "isl": "1024", "osl": "1024"}
    eight, four = (MeasurementRow(1, {**minimax, "gpu_id": "H200-SXM", "tp": tp}) for tp in ("8", "4"))
    assert [layout_of(row, "vllm").ep for row in (eight, four)] == [8, 1]
    assert layout_of(MeasurementRow(1, {**eight.cells, "client": "somebody"}), "vllm").ep == 1


def test_sglang_on_b200_spread_whole_experts_before_its_runs_were_labelled_so() -> None:
    """InferenceX pull/242: until pull/204 the fp4 runs had --enable-ep-moe, which is EP of all GPUs."""
    run = inferencex_row(gpu_id="B200", precision="nvfp4", tp="4", num_gpus="4", ep="1")
    assert layout_of(run, "sglang").ep == 4


@pytest.mark.parametrize(
    ("tp", "attention_dp", "of_a_group"), [("8", "8", 1), ("8", "4", 2), ("1", "8", 1), ("8", "1", 8)]
)
def test_attention_dp_over_the_gpus_of_tp_splits_them(tp: str, attention_dp: str, of_a_group: int) -> None:
    stated = row_of(engine="SGLang", gpu_id="B200", num_gpus="8", tp=tp, attention_dp=attention_dp, ep="8")
    layout = layout_of(stated, "sglang")
    assert (layout.tp, layout.attention_dp, layout.ep, layout.num_gpus) == (of_a_group, int(attention_dp), 8, 8)


def test_prompts_of_a_client_are_those_that_a_row_says_were_sent() -> None:
    """bench_serving of SGLang's cookbook: 2,048 prompts from 1,024 clients; where it says nothing, ten of each."""
    said = MeasurementRow(2, {"client": "sglang-bench", "concurrency": "1024", "requests": "2048"})
    assert conditions_of(said, "sglang").waves == 2
    assert conditions_of(MeasurementRow(2, {"concurrency": "64", "requests": "40"}), "sglang").waves == 1
    assert conditions_of(MeasurementRow(2, {"concurrency": "64"}), "sglang").waves == 10
