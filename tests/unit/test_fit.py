"""`gpufleet fit` as its users meet it."""

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from gpufleet.api.fits import fit
from gpufleet.cli import main
from gpufleet.errors import UsageError
from gpufleet.report.fit import fit_page
from gpufleet.report.text import page_as_text

Run = Callable[..., "CompletedProcess[str]"]


def test_llama_70b_fits_four_l40s_in_tensor_parallel() -> None:
    result = fit("meta-llama/Llama-3.3-70B-Instruct", "L40S:4", "8k")
    assert (result.verdict, result.layout, result.binding_limit) == ("fits", "TP4", "KV cache")
    assert result.users is not None
    assert result.users.low <= result.users.value <= result.users.high
    assert {(row.weights, row.kv) for row in result.by_precision} >= {("bf16", "bf16"), ("fp8", "fp8"), ("int4", "fp8")}


def test_smaller_formats_serve_more_users() -> None:
    users = {(r.weights, r.kv): r.users.value for r in fit("llama-3.3-70b", "L40S:4").by_precision if r.users}
    assert users["bf16", "bf16"] < users["fp8", "bf16"] < users["int4", "bf16"] < users["int4", "fp8"]


def test_shorter_steps_are_offered_where_the_check_before_the_start_decides() -> None:
    """vLLM counts a window with a whole step of a prompt: 5.2 GiB for 48k tokens of gemma-3-27b, 4.2 later."""
    result = fit("gemma-3-27b", "RTX-4090", "48k", precision="int4")
    assert not result.fits
    assert result.startup_kv_bytes is not None
    assert result.kv_bytes_per_user is not None
    assert result.startup_kv_bytes > 1.2 * result.kv_bytes_per_user
    assert any("--max-num-batched-tokens" in change.what for change in result.changes)


@pytest.mark.parametrize(
    ("model", "gpu", "context", "said", "codes"),
    [
        ("gemma-3-27b", "RTX-4090", "40960", {"precision": "int4"}, ["default_fraction"]),
        ("qwen2-7b", "RTX-3090", "131072", {"engine_version": "0.10.1"}, ["default_fraction", "native_sampler"]),
        ("llama-3.1-8b", "H100", "8k", {}, []),
    ],
)
def test_usual_settings_that_turn_the_verdict_are_named_and_make_it_tight(
    model: str, gpu: str, context: str, said: dict[str, str], codes: list[str]
) -> None:
    result = fit(model, gpu, context, **said)  # type: ignore[arg-type]
    assert [x.code for x in result.otherwise] == codes
    assert result.verdict == ("tight" if codes else "fits")
    assert all(x.short_by_bytes_per_gpu > 0 for x in result.otherwise)


def test_three_gpus_are_refused_by_heads_and_by_memory() -> None:
    result = fit("llama-3.3-70b", "L40S:3", "8k")
    reasons = {row.layout: row for row in result.rejected}
    assert reasons["TP3"].reason == "64 heads are not divisible by 3"
    assert reasons["TP1/PP3"].short_by_bytes_per_gpu == pytest.approx(result.short_by_bytes_per_gpu)
    assert not result.fits
    assert result.changes[0].gpus == "4x L40S"
    assert result.changes[0].price_usd_per_hour is not None


def test_every_change_offered_really_fits() -> None:
    changes = fit("llama-3.3-70b", "L40S:2", "8k").changes
    assert {change.what for change in changes} >= {"4x L40S", "fp8 weights"}
    assert all(change.verdict in ("fits", "tight") and change.users >= 1 for change in changes)
    priced = [c.price_usd_per_hour for c in changes if c.price_usd_per_hour is not None]
    assert priced == sorted(priced)


@pytest.mark.parametrize("asked", ["128k", "64k", "60000"])
def test_a_shorter_context_is_offered_where_the_context_is_what_is_too_much(asked: str) -> None:
    """The longest power of two that fits, however little more was asked for."""
    changes = {change.what for change in fit("llama-3.1-8b", "L4:1", asked).changes}
    assert "a context of 32,768 tokens" in changes


def test_a_number_of_users_can_be_asked_for() -> None:
    assert fit("llama-3.3-70b", "L40S:4", batch=8).fits
    crowded = fit("llama-3.3-70b", "L40S:4", batch=64)
    assert not crowded.fits
    assert crowded.binding_limit == "KV cache"


def test_a_context_beyond_the_model_is_answered_with_a_warning() -> None:
    result = fit("llama-3.3-70b", "H100:8", "256k")
    assert any("above the 131,072" in note for note in result.notes)


def test_an_engine_that_does_not_run_there_names_those_that_do() -> None:
    result = fit("llama-3.1-8b", "MI300X", engine="trtllm")
    assert (result.verdict, result.binding_limit) == ("does not fit", "engine")
    assert any("vLLM" in note for note in result.notes)


def test_no_answer_reads_a_byte_less_than_its_weights() -> None:
    result = fit("llama-3.3-70b", "H100:2")
    assert result.tpot_floor_s is not None
    assert result.tpot_floor_s.grade == "roofline"
    assert 0.02 < result.tpot_floor_s.value < 0.0215


def test_the_answer_is_complete_as_json_and_the_exit_code_says_whether_it_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fit", "llama-3.3-70b", "--gpus", "L40S:4", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["schema_version"]) == ("fits", "1")
    assert {term["name"] for term in answer["terms"]} >= {"attention weights", "KV pool", "activations"}
    assert main(["fit", "llama-3.3-70b", "--gpus", "L40S:2"]) == 3
    assert "short by" in capsys.readouterr().out


@pytest.mark.slow
def test_explain_shows_formula_numbers_and_source(ask_gpufleet: Run) -> None:
    said = ask_gpufleet("fit", "deepseek-v3", "--gpus", "H200:8", "--explain").stdout
    assert "moe_tp" in said
    assert "arXiv:1909.08053" in said


@pytest.mark.parametrize("output", ["table", "csv", "md"])
def test_every_form_of_output_works_when_it_does_not_fit(capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert main(["fit", "llama-3.1-405b", "--gpus", "T4:3", "-o", output]) == 3
    page, remarks = capsys.readouterr()
    assert page
    assert not remarks


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "L40S:-3"], "such as 'L40S:4'"),
        (["--gpus", "L40S:0"], "such as 'L40S:4'"),
        (["--gpus", "foo:2"], "unknown GPU 'foo'"),
        (["--gpus", "L40:4:2"], "takes no count here; found 'L40:4'"),
        (["--gpus", "L40S:4", "--context", "nan"], "cannot read a number of tokens"),
        (["--gpus", "L40S:4", "--context", "0"], "must be positive"),
        (["--gpus", "L40S:4", "--context", "1e300"], "out of range"),
        (["--gpus", "L40S:4", "--batch", "0"], "cannot read --batch; found '0'; expected"),
        (["--gpus", "L40S:4", "--engine", "vlm"], "Did you mean vllm?"),
        (["--gpus", "L40S:4", "--kv-precision", "fp9"], "Did you mean fp8"),
        ([], "--gpus is missing"),
    ],
)
def test_a_hostile_question_gets_one_message(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["fit", "llama-3.3-70b", *words]) == 2
    page, message = capsys.readouterr()
    assert page == ""
    assert said in message
    assert message.count("\n") == 1


def test_ranks_of_a_stage_share_a_machine() -> None:
    result = fit("llama-3.3-70b", "H100:16")
    assert result.layout == "TP8/PP2"
    assert any(row.reason == "TP16 spans machines of 8 GPUs" for row in result.rejected)


def test_what_only_todays_engine_holds_is_said_and_an_older_one_can_be_asked_for() -> None:
    """vllm-project/vllm issue 27508: on one H100 the whole context is refused at 0.95 of the memory in October 2025."""
    today = fit("gpt-oss-120b", "H100:1", "128k")
    assert today.fits
    assert "It does not fit vLLM before 0.17, which reserved more memory." in today.notes
    assert not fit("gpt-oss-120b", "H100:1", "128k", engine_version="0.11.0").fits
    assert not any("before" in note for note in fit("llama-3.1-8b", "H100:1", "8k").notes)


def test_a_memory_fraction_that_was_lowered_for_graphs_is_said() -> None:
    """vllm issues/27782: vLLM 0.11 fails there at its default of 0.9, which today's version, counting graphs, keeps."""
    old, new = (fit("qwen3-30b-a3b", "RTX-4090:4", "8k", engine_version=version) for version in ("0.11.0", None))
    assert any("lowered from 0.90 to 0.89" in note and "2.4 GiB beside the KV pool" in note for note in old.notes)
    assert not any("lowered" in note for note in new.notes)


def test_the_405b_that_was_refused_does_not_fit() -> None:
    """vllm-project/vllm issue 6746: no 131,072 tokens on 8 H100; the checkpoint had every KV head twice."""
    asked = {"gpus": "H100:8", "context": "128k", "engine_version": "0.5.3"}
    assert not fit("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", **asked).fits


def test_a_version_newer_than_any_known_is_said_to_be() -> None:
    assert any("vLLM 1.0 is newer than 0.19" in n for n in fit("llama-3.1-8b", "H100:1", engine_version="1.0").notes)


def test_a_version_without_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match="not a version of vLLM"):
        fit("llama-3.1-8b", "H100:1", "8k", engine_version="newest")


@pytest.mark.parametrize(
    ("model", "gpus"), [("llama-3.1-8b", "B200:1"), ("gpt-oss-120b", "H100:1"), ("glm-5", "MI300X:8")]
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_the_engine_may_use_multiplies(model: str, gpus: str, engine: str) -> None:
    result = fit(model, gpus, engine=engine)
    assert result.memory_fraction is not None
    of = result.device_bytes - result.driver_bytes
    assert result.usable_bytes == pytest.approx(result.memory_fraction * of)
    page = " ".join(page_as_text(fit_page(result), 80).split())
    assert ("the driver keeps" in page) == (result.driver_bytes > 0)


def test_weights_as_published_and_as_loaded_are_told_apart_where_they_differ() -> None:
    loaded, plain = fit("gpt-oss-120b", "H100:1"), fit("llama-3.1-8b", "H100:1")
    words = " ".join(page_as_text(fit_page(loaded), 80).split())
    assert "weights: 60.8 GiB in the checkpoint, 64.7 GiB loaded" in words
    assert loaded.checkpoint_bytes_per_gpu == loaded.by_precision[0].weights_bytes_per_gpu
    assert loaded.parts[0].size.value > loaded.checkpoint_bytes_per_gpu
    assert "in the checkpoint," not in page_as_text(fit_page(plain), 80)


def test_a_room_that_rests_on_a_batch_says_so() -> None:
    default, few = fit("gpt-oss-120b", "H100:1"), fit("gpt-oss-120b", "H100:1", batch=4)
    assert default.users is not None
    assert few.users is not None
    assert few.users.value > default.users.value
    assert any("started for 4 sequences at a time" in note and "default of 1,024" in note for note in few.notes)
    assert any("engine's default limits" in note for note in default.notes)


def test_an_engine_that_splits_by_layer_is_offered_no_tensor_parallelism() -> None:
    found = fit("llama-3.3-70b", "L4:8", engine="llama.cpp")
    assert (found.verdict, found.layout) == ("fits", "TP1/PP8")
    assert not found.rejected


def test_a_model_that_the_engine_does_not_implement_does_not_fit() -> None:
    found = fit("mpt-7b", "H100:1", "2k", engine="sglang")
    assert (found.verdict, found.binding_limit) == ("does not fit", "engine")
    assert any(
        note.startswith("Engines that implement mpt models: AutoAWQ, llama.cpp, TensorRT-LLM") for note in found.notes
    )


def test_a_cache_that_the_engine_does_not_run_is_refused_and_not_offered() -> None:
    asked = fit("llama-3.1-8b", "RTX-3090:1", engine_version="0.11", kv_precision="fp8")
    assert asked.verdict == "does not fit"
    assert asked.launch is None
    assert asked.changes[0].what == "bf16 KV cache"
    unasked = fit("llama-3.1-8b", "RTX-3090:1", engine_version="0.11")
    assert {option.kv for option in unasked.by_precision} == {"bf16"}
