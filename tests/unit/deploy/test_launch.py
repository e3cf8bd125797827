"""What is typed to start a replica is what the answer assumes of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from gpufleet.api import fit, plan_batch, plan_serve
from gpufleet.api.batches import BatchRequest
from gpufleet.api.estimates import estimate
from gpufleet.catalog.models import load_model_config
from gpufleet.deploy.launch import DIALECTS
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.estimate import estimate_page
from gpufleet.report.fit import fit_page
from gpufleet.report.formats import page_as_markdown
from gpufleet.report.html import page_as_html
from gpufleet.report.text import page_as_text
from gpufleet.results.base import Launch
from gpufleet.results.plan import Deployment
from gpufleet.units import HOUR

FLAGS = {
    "vllm": {
        "tp": "--tensor-parallel-size", "pp": "--pipeline-parallel-size", "dp": "--data-parallel-size",
        "length": "--max-model-len", "sequences": "--max-num-seqs", "fraction": "--gpu-memory-utilization",
    },
    "sglang": {
        "stage": "--tp-size", "pp": "--pp-size", "dp": "--dp-size", "ep": "--ep-size", "length": "--context-length",
        "sequences": "--max-running-requests", "fraction": "--mem-fraction-static",
    },
    "tensorrt-llm": {
        "stage": "--tp_size", "pp": "--pp_size", "ep": "--ep_size", "length": "--max_seq_len",
        "sequences": "--max_batch_size", "fraction": "--kv_cache_free_gpu_memory_fraction",
    },
}  # fmt: skip


def said(launch: Launch, engine: str) -> dict[str, float]:
    """The figures that a command states, by what they are of."""
    words = shlex.split(launch.command)
    return {name: float(words[words.index(flag) + 1]) for name, flag in FLAGS[engine].items() if flag in words}


def parts_of(layout: str) -> dict[str, int]:
    names = {part.rstrip("0123456789"): int(part.lstrip("TPDE")) for part in layout.split("/")}
    return {"TP": 1, "DP": 1, "EP": 1, "PP": 1, **names}


def of(launch: Launch | None) -> Launch:
    assert launch is not None
    return launch


def holds_layout(d: Deployment) -> None:
    launch, parts = of(d.launch), parts_of(d.layout)
    figures = said(launch, d.engine)
    assert figures.get("pp", 1) == parts["PP"]
    if d.engine == "vllm":
        assert (figures["tp"], figures.get("dp", 1)) == (parts["TP"], parts["DP"])
        assert ("--enable-expert-parallel" in launch.arguments) == (parts["EP"] > 1)
        return
    assert figures["stage"] == parts["TP"] * parts["DP"]
    assert figures.get("ep", 1) == parts["EP"]
    attention_dp = yaml.safe_load(launch.options or "{}").get("enable_attention_dp", False)
    assert figures.get("dp", 1) == (parts["DP"] if d.engine == "sglang" else 1)
    assert attention_dp == (d.engine == "tensorrt-llm" and parts["DP"] > 1)


def holds_limits(d: Deployment, longest: float) -> None:
    figures = said(of(d.launch), d.engine)
    groups = 1 if d.engine == "sglang" else parts_of(d.layout)["DP"]
    assert figures["sequences"] == max(int(d.largest_batch) // groups, 1)
    assert figures["length"] == longest
    assert 0.5 < figures["fraction"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", FLAGS)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "llama-2-7b"])
def test_layout_and_limits_of_the_command_are_those_of_every_row(model: str, engine: str) -> None:
    plan = plan_serve(ServeRequest(model, 4.0, TokenCounts(1000.0), TokenCounts(200.0), engine=engine, rows=30))
    assert plan.deployments
    for d in plan.deployments:
        holds_layout(d)
        holds_limits(d, 1200)
        launch = of(d.launch)
        assert launch.replicas_per_machine == d.replicas / d.instance_count
        assert shlex.split(launch.command) == launch.arguments
        assert sum(launch.groups) == len(launch.arguments)


def test_the_longest_request_is_let_in_not_the_mean_one() -> None:
    prompts = TokenCounts(1000, 0.5, (900, 1500, 2000, 3000), 4000.0, tuple(125.0 * n for n in range(4, 12)))
    plan = plan_serve(ServeRequest("llama-3.1-8b", 4.0, prompts, TokenCounts(200.0)))
    assert said(of(plan.answer.launch), "vllm")["length"] == 4200


def test_the_memory_fraction_is_the_one_that_fit_had_to_raise() -> None:
    tight = fit("llama-3.1-8b", "L4:1", "36k")
    assert tight.memory_fraction is not None
    assert tight.memory_fraction > 0.9
    assert 0 <= said(of(tight.launch), "vllm")["fraction"] - tight.memory_fraction < 1e-4


def test_fit_caps_sequences_only_where_a_number_was_asked_for() -> None:
    assert "--max-num-seqs" not in of(fit("llama-3.1-8b", "H100:1").launch).arguments
    assert said(of(fit("llama-3.1-8b", "H100:1", batch=12).launch), "vllm")["sequences"] == 12


def test_what_does_not_fit_is_not_started() -> None:
    assert fit("llama-3.3-70b", "L4:1").launch is None


def test_an_engine_that_serves_no_requests_has_no_command() -> None:
    assert fit("llama-3.1-8b", "H100:1", engine="llama.cpp").launch is None


@pytest.mark.slow
def test_a_job_is_started_at_the_batch_that_does_most() -> None:
    plan = plan_batch(BatchRequest("llama-3.1-8b", 1e6, TokenCounts(1000.0), TokenCounts(200.0), deadline_s=24 * HOUR))
    figures = said(of(plan.answer.launch), "vllm")
    assert figures["sequences"] == int(plan.answer.batch)
    assert (figures["tp"], figures["length"]) == (parts_of(plan.answer.layout)["TP"], 1200)


def test_a_full_queue_is_capped_at_the_batch_that_serves_most() -> None:
    e = estimate("llama-3.1-8b", "H100:1", input_tokens=1000, output_tokens=200, full_queue=True, launch=True)
    assert said(of(e.launch), "vllm")["sequences"] == int(e.batch)


def test_an_estimate_names_its_command_unless_nobody_wants_it() -> None:
    words = {"input_tokens": 1000, "output_tokens": 200, "concurrency": 8}
    assert estimate("llama-3.1-8b", "H100:1", **words).launch is not None
    assert estimate("llama-3.1-8b", "H100:1", launch=False, **words).launch is None


GOLDEN = {
    "vllm": "vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4 --max-model-len 1200 "
    "--max-num-seqs {sequences} --max-num-batched-tokens 8192 --gpu-memory-utilization 0.92 --kv-cache-dtype fp8 "
    "--quantization fp8",
    "sglang": "python -m sglang.launch_server --model-path meta-llama/Llama-3.3-70B-Instruct --tp-size 4 "
    "--context-length 1200 --max-running-requests {sequences} --chunked-prefill-size 8192 "
    "--mem-fraction-static {fraction} --kv-cache-dtype fp8_e4m3 --quantization fp8",
    "tensorrt-llm": "trtllm-serve path/to/llama-3.3-70b-fp8 --tp_size 4 --max_batch_size {sequences} "
    "--max_num_tokens 8192 --max_seq_len 1200 --kv_cache_free_gpu_memory_fraction 0.9 "
    "--extra_llm_api_options extra-llm-api-options.yaml",
}


@pytest.mark.parametrize("engine", GOLDEN)
def test_the_whole_command_of_each_engine(engine: str) -> None:
    e = estimate(
        "llama-3.3-70b-instruct", "H100:4", input_tokens=1000, output_tokens=200, concurrency=8, precision="fp8",
        kv_precision="fp8", engine=engine, launch=True,
    )  # fmt: skip
    launch = of(e.launch)
    figures = said(launch, engine)
    shown = GOLDEN[engine].format(sequences=int(e.largest_batch), fraction=f"{figures['fraction']:g}")
    assert launch.command == shown
    if engine == "tensorrt-llm":
        cache = yaml.safe_load(launch.options or "")["kv_cache_config"]
        assert cache == {"dtype": "fp8", "free_gpu_memory_fraction": 0.9}
    else:
        assert launch.options is None


def test_cards_without_bf16_are_told_to_run_in_fp16() -> None:
    e = estimate("llama-3.1-8b", "T4:4", input_tokens=1000, output_tokens=200, concurrency=1, launch=True)
    assert e.launch is not None
    assert e.launch.arguments[-2:] == ["--dtype", "float16"]


def test_a_format_that_no_engine_makes_asks_for_a_checkpoint_that_has_it() -> None:
    launch = of(fit("llama-3.1-8b", "H100:1", precision="int4").launch)
    assert "meta-llama" not in launch.command
    assert "--quantization" not in launch.command
    assert "stored in int4" in launch.notes[0]


def test_a_checkpoint_in_its_own_low_precision_needs_no_flag() -> None:
    launch = of(fit("deepseek-v3", "H200:8").launch)
    assert "--quantization" not in launch.command
    assert launch.arguments[2] == "deepseek-ai/DeepSeek-V3"
    assert launch.notes == []


def test_the_folder_of_a_config_is_what_is_served_and_stays_one_word(tmp_path: Path) -> None:
    folder = tmp_path / "my $model; 'quoted' `x`"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(load_model_config("llama-3.1-8b")), encoding="utf-8")
    result = estimate(str(folder), "H100:1", input_tokens=1000, output_tokens=200, concurrency=8, launch=True)
    assert shlex.split(of(result.launch).command)[2] == str(folder)
    text, markdown, html = (
        page_as_text(estimate_page(result), 60), page_as_markdown(estimate_page(result)),
        page_as_html(estimate_page(result)),
    )  # fmt: skip
    typed = text[text.index("vllm serve") : text.index("Flags of")].replace("\\\n", "")
    assert shlex.split(typed) == of(result.launch).arguments
    fenced = markdown.partition("```sh\n")[2].partition("\n```")[0].replace("\\\n", "")
    assert shlex.split(fenced) == of(result.launch).arguments
    assert "&#x27;quoted&#x27;" in html


@pytest.mark.parametrize(
    ("model", "loaded"),
    [
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama-3.1-8b-base", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("acme/Llama-3.1-8B-Instruct", "acme/Llama-3.1-8B-Instruct"),
        ("-acme/Llama-3.1-8B-Instruct", "path/to/llama-3.1-8b"),
        ("deepseek-coder-33b", "deepseek-ai/deepseek-coder-33b-instruct"),
    ],
)
def test_what_is_started_answers_requests_and_is_no_other_model_than_was_asked(model: str, loaded: str) -> None:
    assert of(fit(model, "H100:4").launch).arguments[2] == loaded


@pytest.mark.parametrize("engine", sorted(DIALECTS))
def test_beside_an_arm_cpu_the_image_with_a_build_for_it_is_named(engine: str) -> None:
    said = {gpu: of(fit("qwen3-8b", f"{gpu}:1", engine=engine).launch).notes for gpu in ("GH200", "H200")}
    assert any("arm64" in note for note in said["GH200"])
    assert not any("arm64" in note for note in said["H200"])


@pytest.mark.parametrize(("model", "warns"), [("acme/Llama-3.1-8B", True), ("meta-llama/Llama-3.1-8B", False)])
def test_a_page_says_in_its_first_sentence_that_an_id_is_planned_by_its_name(model: str, warns: bool) -> None:
    first, _, _ = page_as_text(fit_page(fit(model, "H100:1")), 200).partition(":")
    assert (model in first and "is planned as" in first) == warns


def test_a_folder_whose_name_begins_with_a_dash_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "-rf").mkdir()
    (tmp_path / "-rf" / "config.json").write_text(json.dumps(load_model_config("qwen3-0.6b")), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert of(fit("./-rf", "L4:1").launch).arguments[2] == "./-rf"


def test_a_name_that_several_checkpoints_share_says_which_one_was_taken() -> None:
    launch = of(fit("mixtral", "H100:2").launch)
    assert launch.notes == ["mistralai/Mixtral-8x7B-Instruct-v0.1 stands for mixtral-8x7b: name your own"]


def test_replicas_on_one_machine_get_gpus_of_their_own() -> None:
    plan = plan_serve(ServeRequest("llama-3.3-70b", 60.0, 1000, 200, gpus=["H200"], clouds=["aws"]))
    launch = of(plan.answer.launch)
    assert launch.replicas_per_machine == 8 // plan.answer.gpus_per_replica
    size = plan.answer.gpus_per_replica
    assert launch.replicas_per_machine > 1
    first, second = (",".join(map(str, range(k * size, (k + 1) * size))) for k in (0, 1))
    assert launch.notes[-1].endswith(f"CUDA_VISIBLE_DEVICES={first} before the first, {second} before the next")


@pytest.mark.parametrize(
    ("engine", "gpus", "precision", "dtype"),
    [("vllm", "L4:1", None, "bfloat16"), ("vllm", "T4:1", None, "float16"), ("sglang", "L4:1", None, "bfloat16")],
)
def test_a_config_of_32_bits_is_planned_in_16_and_the_command_says_so(tmp_path, engine, gpus, precision, dtype):
    """Engines would choose between the two 16-bit formats by themselves, and not all of them alike."""
    config = {**load_model_config("qwen2.5-1.5b"), "torch_dtype": "float32"}
    (tmp_path / "m").mkdir()
    file = tmp_path / "m" / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    asked = {"input_tokens": 100, "output_tokens": 100, "concurrency": 1, "engine": engine, "launch": True}
    narrowed = estimate(str(file), gpus, precision=precision, **asked)
    plain = estimate("qwen2.5-1.5b", gpus, precision=precision, **asked)
    words = of(narrowed.launch).arguments
    assert words[words.index("--dtype") + 1] == dtype
    assert narrowed.tpot_s.value == plain.tpot_s.value
    assert any("stored in 32 bits" in note for note in narrowed.notes)
