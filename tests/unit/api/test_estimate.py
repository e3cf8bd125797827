"""One replica under one load, as users ask for it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gpufleet.api import estimate
from gpufleet.api.plans import plan_serve
from gpufleet.catalog.calibration import load_formulas
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.performance.elementwise import elementwise_s
from gpufleet.questions.fields import ServeRequest
from gpufleet.results.estimate import ServingEstimate


def ask(model: str = "llama-3.1-8b", gpus: str = "H100:1", **more) -> ServingEstimate:
    load = {"concurrency": 8} if not {"concurrency", "rate", "batch", "full_queue"} & set(more) else {}
    return estimate(model, gpus, **{"input_tokens": 1000, "output_tokens": 200, **load, **more})


@pytest.mark.parametrize("gpu", ["V100-SXM2-32GB", "T4"])
def test_a_bf16_checkpoint_runs_as_fp16_on_cards_without_bf16(gpu: str) -> None:
    found = ask("llama-3.2-3b", f"{gpu}:1", engine_version="0.19")
    assert found.weight_format == "fp16"
    assert found.kv_precision == "fp16"


def test_int4_over_bf16_runs_over_fp16_on_cards_without_bf16() -> None:
    assert ask("llama-3.1-8b", "T4:1", precision="int4").weight_format == "int4 over fp16"


@pytest.mark.parametrize(
    ("gpu", "precision", "words"),
    [
        ("V100-SXM2-32GB:1", "fp8", r"V100-SXM2-32GB \(Volta\) has no fp8"),
        ("V100-SXM2-32GB:1", "bf16", r"V100-SXM2-32GB \(Volta\) has no bf16"),
        ("T4:1", "bf16", r"T4 \(Turing\) has no bf16"),
        ("T4:1", "nvfp4", r"T4 \(Turing\) has no fp4 arithmetic: nvfp4"),
    ],
)
def test_a_format_that_does_not_run_says_why(gpu: str, precision: str, words: str) -> None:
    with pytest.raises(Infeasible, match=words) as found:
        ask("llama-3.2-3b", gpu, precision=precision, engine_version="0.19")
    assert found.value.exit_code == 3


@pytest.mark.parametrize(
    ("engine", "gpu", "last", "first"),
    [("vllm", "V100-SXM2-32GB:1", "0.19.1", "0.20"), ("sglang", "T4:1", "0.4.10", "0.5.0")],
)
def test_an_engine_runs_on_old_generations_up_to_the_version_that_dropped_them(
    engine: str, gpu: str, last: str, first: str
) -> None:
    """vLLM pull/39878: torch 2.11 with CUDA 13 has no sm_70; SGLang issues/6006: the end of sm75 with 0.5."""
    assert ask("llama-3.2-3b", gpu, engine=engine, engine_version=last).weight_format == "fp16"
    for version in (first, None):
        with pytest.raises(Infeasible, match=r"has no kernels for .* --engine-version names an older one"):
            ask("llama-3.2-3b", gpu, engine=engine, engine_version=version)


@pytest.mark.parametrize(("gpu", "reason"), [("V100", "vLLM 0.20 and later has no kernels for Volta"), ("T4", None)])
def test_a_plan_offers_no_card_that_todays_engine_does_not_run_on(gpu: str, reason: str | None) -> None:
    asked = ServeRequest("qwen2.5-0.5b", 0.1, 200, 50, gpus=[gpu])
    plan = plan_serve(asked)
    assert plan.is_feasible == (reason is None)
    assert any(r.reason.startswith(reason) for r in plan.rejections) if reason else plan.answer.gpu == "T4"


@pytest.mark.parametrize("gpu", ["A100:1", "A10G:1"])
def test_fp8_weights_run_on_ampere_in_16_bit_arithmetic_and_are_graded_lower(gpu: str) -> None:
    """Half the bytes of bf16 for one user, no faster arithmetic for a prompt."""
    wide, narrow = (ask(gpus=gpu, precision=name, batch=1, input_tokens=4000) for name in ("bf16", "fp8"))
    assert narrow.weight_format == "fp8"
    assert narrow.grade == "transferred"
    assert any("no fp8 arithmetic: vLLM widens fp8 weights to 16 bits" in note for note in narrow.notes)
    assert 0.5 < narrow.tpot_s.value / wide.tpot_s.value < 0.8
    assert narrow.ttft_s.value > 0.9 * wide.ttft_s.value


@pytest.mark.parametrize(
    ("model", "gpus", "more", "said"),
    [
        ("llama-3.1-8b", "H100:1", {"precision": "nvfp4"}, "no fp4 arithmetic: vLLM widens nvfp4 weights"),
        ("llama-3.1-8b", "H100:1", {"precision": "nvfp4", "engine": "sglang"}, "SGLang widens nvfp4 weights"),
        ("qwen3-30b-a3b", "A100:1", {"precision": "nvfp4"}, "vLLM widens nvfp4 weights"),
        ("deepseek-v3", "A100:16", {}, "no fp8 arithmetic: vLLM widens fp8_block weights"),
        ("llama-3.1-8b", "A100:1", {"kv_precision": "fp8"}, "widens the fp8 KV cache to 16 bits as it is read"),
    ],
)
def test_what_marlin_widens_runs_and_is_graded_lower(model: str, gpus: str, more: dict, said: str) -> None:
    """vLLM documentation, features/quantization: weights only in 8 or 4 bits where a card lacks their arithmetic."""
    found = ask(model, gpus, **more)
    assert found.grade == "transferred"
    assert any(said in note for note in found.notes)


def test_nvfp4_is_no_faster_than_fp8_for_a_prompt_where_it_is_widened() -> None:
    """Hopper multiplies fp8 at twice the rate of 16 bits, and fp4 not at all: vllm pull/38728 measured 62 % more."""
    fp4, fp8 = (ask(precision=name, batch=8, input_tokens=4000) for name in ("nvfp4", "fp8"))
    assert fp4.ttft_s.value > 1.3 * fp8.ttft_s.value


def test_an_fp8_cache_holds_more_on_ampere_and_is_no_faster() -> None:
    wide, narrow = (ask(gpus="A100:1", kv_precision=name, input_tokens=8000) for name in ("bf16", "fp8"))
    assert narrow.largest_batch > 1.8 * wide.largest_batch
    assert narrow.tpot_s.value == pytest.approx(wide.tpot_s.value, rel=0.02)
    assert narrow.tpot_s.high / narrow.tpot_s.value > wide.tpot_s.high / wide.tpot_s.value


def test_fp8_weights_are_multiplied_in_fp8_where_the_card_can() -> None:
    assert not any("widens" in note for note in ask(precision="fp8").notes)


def test_a_model_that_does_not_fit_says_by_how_much() -> None:
    with pytest.raises(Infeasible, match=r"does not fit 1x H100-SXM .TP1.; found 'short by [0-9.]+ GiB per GPU'"):
        ask("llama-3.3-70b")


def test_a_memory_fraction_that_leaves_too_little_for_graphs_says_how_much() -> None:
    """vllm issues/27782: graphs of 1.88 GiB and the start's context beside 0.9 of an RTX 4090."""
    beside = r"memory fraction 0\.9 leaves 2\.35 GiB beside the pool'; expected 2\.4\d GiB, which graphs"
    setting = {"gpus": "RTX-4090:4", "engine_version": "0.11.0"}
    with pytest.raises(Infeasible, match=beside):
        ask("qwen3-30b-a3b", memory_fraction=0.9, **setting)
    assert ask("qwen3-30b-a3b", memory_fraction=0.88, **setting).tpot_s.value > 0


def test_a_load_that_one_replica_cannot_take_says_what_it_can() -> None:
    with pytest.raises(Infeasible, match=r"at most .* requests/s per replica"):
        ask(rate=10_000)


ALIKE = {"input_tokens": TokenCounts(4096.0), "output_tokens": TokenCounts(200.0)}
CROWDED = {"gpus": "H100:8", "tp": 4, "pp": 2, "precision": "fp8", "input_tokens": 4096, "output_tokens": 200}


def test_a_full_queue_decodes_as_many_as_prompts_leave_tokens_for() -> None:
    """Short answers after long prompts: of 846 sequences that fit, 158 decode at a time, and more clients only wait."""
    crowded = {**CROWDED, "input_tokens": 2048, "output_tokens": 20}
    best = ask("qwen3-235b-a22b", **crowded, full_queue=True)
    assert best.batch == pytest.approx(2 * 8192 * 20 / 2068)
    rates = [
        ask("qwen3-235b-a22b", **crowded, concurrency=round(share * best.largest_batch)).requests_per_s.value
        for share in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    assert rates == pytest.approx(sorted(rates))
    assert best.requests_per_s.value == pytest.approx(rates[-1])
    said = f"No more than {best.batch:,.0f} of the {best.largest_batch:,.0f} sequences"
    assert any(said in note for note in best.notes)


def test_a_full_queue_fills_the_engine_where_that_serves_most() -> None:
    full = ask(full_queue=True)
    assert full.batch == full.largest_batch
    assert not any("at a batch of" in note for note in full.notes)


def test_arrivals_are_held_against_the_best_batch_too() -> None:
    """A rate that only a smaller batch than the largest sustains is served, at a batch below the best."""
    best = ask("qwen3-235b-a22b", **CROWDED, full_queue=True)
    found = ask("qwen3-235b-a22b", **{**CROWDED, **ALIKE}, rate=0.9 * best.requests_per_s.value)
    assert found.load_ratio == pytest.approx(0.9, rel=0.01)
    assert found.batch <= best.batch


def test_a_rate_just_below_the_most_is_served_and_just_above_is_refused() -> None:
    most = 4.0 / ask(rate=4.0).load_ratio
    assert ask(rate=0.949 * most).load_ratio == pytest.approx(0.949)
    with pytest.raises(Infeasible, match="of what one replica sustains"):
        ask(rate=0.951 * most)


def test_what_arrivals_sustain_is_what_a_full_queue_does() -> None:
    """Where all requests are alike: the grid of batches misses the best one by little."""
    alike = {"input_tokens": TokenCounts(1000.0), "output_tokens": TokenCounts(200.0)}
    full = ask(full_queue=True).requests_per_s.value
    assert 4.0 / ask(rate=4.0, **alike).load_ratio == pytest.approx(full, rel=0.02)


def test_poisson_arrivals_fill_the_batch_by_littles_law() -> None:
    """Sequences in service = rate x time in service; the wait before the prefill is outside of it."""
    found = ask(rate=4.0)
    service_s = 200 * found.tpot_s.value
    assert found.batch == pytest.approx(4.0 * service_s, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "gpus"), [("deepseek-v3.2", "H200:8"), ("qwen3.5-27b", "H200:1"), ("gpt-oss-120b", "H100:1")]
)
def test_the_formula_of_a_term_is_that_of_its_kernels(model: str, gpus: str) -> None:
    """Norms, positions and quantisation stream memory: no matrix product, and the constants of `elementwise_s`."""
    found = ask(model, gpus, explain=True)
    kernels: dict[str, set[str]] = {}
    for operation in found.explanation.decode.operations:
        term = next(t.name for t in found.terms if operation.name.startswith(t.name))
        kernels.setdefault(term, set()).add(operation.kernel)
    of_streams = {t.formula for t in found.terms if kernels.get(t.name) == {"elementwise"}}
    of_products = {t.formula for t in found.terms if kernels.get(t.name) == {"gemm"}}
    assert of_streams == {"1.9 us + bytes / (0.88 bandwidth)"}
    assert of_products <= {"max(2 m n k / peak, bytes / bandwidth), over the measured product curve"}
    assert elementwise_s(load_formulas().streams, 1e12, 0.88e6) == pytest.approx(1.9e-6 + 1e-6)


@pytest.mark.parametrize(("gpus", "precision"), [("L4", "int4"), ("A100:1", "fp8"), ("H100", "int8_wo")])
def test_a_curve_of_weights_alone_in_fewer_bits_names_the_row_that_it_is_made_of(gpus: str, precision: str) -> None:
    explained = ask("llama-3.1-8b", gpus, precision=precision, explain=True).explanation.decode.operations
    products = [o.curve for o in explained if o.kernel == "gemm" and o.name.startswith("mlp")]
    assert products
    assert all("int" in curve for curve in products)


@pytest.mark.parametrize("rate", [4.0, 20.0])
def test_percentiles_of_arrivals_are_those_of_a_plan(rate: float) -> None:
    figures = [f"{metric}.p{q}" for metric in ("ttft", "tpot", "latency") for q in (50, 90, 95, 99)]
    slo = ",".join(f"{figure}<1h" for figure in figures)
    asked = ServeRequest("llama-3.1-8b", rate, 1000, 200, slo, gpus=("H100",), headroom=0.0, confidence=0.5)
    planned = plan_serve(asked).answer
    assert (planned.replicas, planned.layout) == (1, "TP1")
    found = {
        f"{metric}.p{100 * p.quantile:g}": getattr(p, f"{metric}_s").value
        for p in ask(rate=rate).percentiles
        for metric in ("ttft", "tpot", "latency")
    }
    assert found == pytest.approx({name: planned.latency[name].value for name in figures}, rel=1e-9)


def test_percentiles_rise_and_all_are_the_lone_request_where_nobody_else_comes() -> None:
    alike = {"input_tokens": TokenCounts(1000.0), "output_tokens": TokenCounts(200.0)}
    busy, quiet = ask(rate=20.0), ask(rate=1e-6, **alike)
    for name in ("ttft_s", "tpot_s", "latency_s"):
        rising = [getattr(p, name).value for p in busy.percentiles]
        assert rising == sorted(rising)
        assert rising[0] <= getattr(busy, name).value < rising[-1]
        alone = [getattr(p, name).value for p in quiet.percentiles]
        assert alone == pytest.approx([getattr(quiet, name).value] * 4, rel=2e-3)
    assert quiet.ttft_s.value == pytest.approx(ask(concurrency=1).ttft_s.value, rel=1e-3)
    assert ask().percentiles == []


@pytest.mark.parametrize("load", [{}, {"concurrency": 1, "rate": 1}, {"batch": 1, "full_queue": True}])
def test_exactly_one_load_is_stated(load: dict) -> None:
    with pytest.raises(UsageError, match="state one load"):
        estimate("llama-3.1-8b", "H100:1", input_tokens=10, output_tokens=10, **load)


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0}, {"concurrency": -1}, {"concurrency": math.nan}, {"concurrency": 1e9}, {"rate": math.inf},
        {"input_tokens": 0}, {"output_tokens": math.nan}, {"input_tokens": 1e12}, {"pp": 0}, {"attention_dp": -1},
        {"ep": 3}, {"tp": 2}, {"tp": 100_000},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_is_refused(wrong: dict) -> None:
    with pytest.raises(UsageError):
        ask(**wrong)


@pytest.mark.parametrize("load", [{"concurrency": 2.5}, {"concurrency": 0.5}, {"batch": 1.5}], ids=str)
def test_clients_and_sequences_come_whole(load: dict) -> None:
    (amount,) = load.values()
    with pytest.raises(UsageError, match=rf"are whole; found '{amount}'; expected a number such as 2 or 3"):
        ask(**load)


def test_a_layout_against_a_rule_of_the_model_is_infeasible() -> None:
    with pytest.raises(Infeasible, match="32 heads are not divisible by 3"):
        ask(gpus="H100:3", tp=3)


@pytest.mark.parametrize(
    ("more", "nearest"),
    [
        ({"engine": "vlm"}, "vllm"),
        ({"gpus": "H10:1"}, "H100"),
        ({"model": "llama-3.1-8bb"}, "llama-3.1-8b"),
        ({"precision": "fp88"}, "fp8"),
        ({"kv_precision": "bf17"}, "bf16"),
        ({"instance": "p5.48xlarg"}, "p5.48xlarge"),
    ],
)
def test_unknown_names_offer_the_nearest(more: dict, nearest: str) -> None:
    with pytest.raises(UnknownName, match=nearest):
        ask(**more)


def test_tensor_parallelism_over_all_gpus_is_assumed_and_can_be_stated() -> None:
    assert ask(gpus="H100:4").layout == "TP4"
    assert ask(gpus="H100:4", tp=2, pp=2).layout == "TP2/PP2"
    assert ask("qwen3-30b-a3b", "H100:4", tp=1, attention_dp=4, ep=4).layout == "TP1/DP4/EP4"


@pytest.mark.slow
def test_the_width_of_the_named_instance_counts() -> None:
    """The L40S of g6e.12xlarge have 8 lanes of generation 4: 16 GB/s, half of a full slot."""
    slot, lanes = (ask(gpus="L40S:4", instance=name, batch=64) for name in (None, "g6e.12xlarge"))
    assert lanes.ttft_s.value > 1.2 * slot.ttft_s.value


def test_the_parts_of_a_step_are_listed_largest_first_and_lie_below_the_time_per_token() -> None:
    found = ask(batch=8)
    seconds = [term.value for term in found.terms]
    assert seconds == sorted(seconds, reverse=True)
    assert 0.6 * found.tpot_s.value < sum(seconds) < 1.4 * found.tpot_s.value
    assert found.binding_limit == found.terms[0].name


def test_clients_without_room_are_told_so() -> None:
    found = ask("llama-3.3-70b", "H100:2", input_tokens=16000, concurrency=500)
    assert found.binding_limit == "KV room"
    assert found.batch == found.largest_batch < 500


def test_an_old_engine_takes_longer_than_a_new_one_for_a_lone_token() -> None:
    old, new = (ask(concurrency=1, engine_version=version) for version in ("0.4.2", "0.12.0"))
    assert old.tpot_s.value > new.tpot_s.value


@pytest.mark.parametrize("model", ["gpt-oss-20b", "deepseek-v2-lite", "gemma-3-12b-text", "mixtral-8x7b", "phi-4-14b"])
def test_every_family_of_decoder_has_an_estimate(model: str) -> None:
    found = ask(model, "H200:2")
    assert 1e-3 < found.tpot_s.value < 0.2
    assert found.ttft_s.low <= found.ttft_s.value <= found.ttft_s.high


def test_what_was_understood_is_said_with_its_origin() -> None:
    origins = {i.name: (i.value, i.origin) for i in ask(precision="fp8").inputs}
    assert origins["weights"] == ("fp8", "given")
    assert origins["KV cache"][1] == "default"
    assert origins["gpus"][0] == "H100-SXM:1"


def test_a_machine_with_other_gpus_is_refused() -> None:
    with pytest.raises(UsageError, match=r"does not hold 1x H100-SXM; found '4x L40S'"):
        estimate("llama-3.1-8b", "H100:1", input_tokens=100, output_tokens=10, batch=1, instance="g6e.12xlarge")


@pytest.mark.parametrize(
    "version",
    [
        *("", "foo", "latest", "0.11-x-", "-1", "0..6", "1e9e", "or 0.6.4", "mainframe", "99999999"),
        *("0", "v0", "0.0.0", "0.0.1", "99", "2024.5", "٣", "0.٣", "０.６"),
    ],
)
def test_what_is_no_engine_version_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="not a version of vLLM"):
        estimate("llama-3.1-8b", "H100:1", input_tokens=100, output_tokens=10, batch=1, engine_version=version)


@pytest.mark.parametrize(
    ("words", "release"),
    [("0.6.4 or so", "0.6.4"), ("0.7.3 (V0)", "0.7.3"), ("llm-d-dev 0.0.4 (vLLM 0.8.x build)", "0.8.5")],
)
def test_words_about_a_build_are_answered_as_the_release_in_them_and_say_so(words: str, release: str) -> None:
    told, plain = ask(engine_version=words), ask(engine_version=release)
    assert told.tpot_s == plain.tpot_s
    assert any(f"{words!r} is read as release {release[:3]}" in note for note in told.notes)
    assert not any("is read as release" in note for note in plain.notes)


@pytest.mark.parametrize(("engine", "says_so"), [("vllm", True), ("sglang", False)])
def test_clients_of_one_length_say_whether_they_drift_apart(engine: str, says_so: bool) -> None:
    """Clients of SGLang stay in step; those of vLLM do in a replay, and have the fixed words to ask for it."""
    words = {"gpus": "H100", "concurrency": 16, "engine": engine}
    alike = estimate("llama-3.1-8b", input_tokens=TokenCounts(1000.0), output_tokens=TokenCounts(200.0), **words)
    usual = estimate("llama-3.1-8b", input_tokens=1000, output_tokens=200, **words)
    assert alike.ttft_s.value > usual.ttft_s.value
    assert any("drift apart" in note for note in alike.notes) == says_so
    assert not any("drift apart" in note for note in usual.notes)


@pytest.mark.parametrize(("version", "says_so"), [("0.4.1", True), ("0.5.1.post1", False), ("0.5.9", False)])
def test_a_version_older_than_what_was_measured_of_its_era_says_so(version: str, says_so: bool) -> None:
    """DeepSeek-V3 wrote 30 tokens/s under SGLang 0.4.1 (sglang pull 2643), a third of what is estimated of it."""
    found = estimate("llama-3.1-8b", "H100", input_tokens=100, output_tokens=100, concurrency=1, engine="sglang",
                     engine_version=version)  # fmt: skip
    assert any("is older than 0.5.1.post1" in note for note in found.notes) == says_so


def test_a_version_newer_than_any_known_is_answered_as_the_newest_and_says_so() -> None:
    newest, unheard_of = (ask(engine_version=version) for version in ("0.19.1", "1.0"))
    assert unheard_of.tpot_s == newest.tpot_s
    assert "vLLM 1.0 is newer than 0.19, the newest that is known: taken to behave like it" in unheard_of.notes
    assert not any("newer than" in note for note in newest.notes)


@pytest.mark.parametrize(
    "version", ["0.5.1.post1", "1.2.0rc6.post2", "v0.9", "nightly-5b8c30d62b754b57", "gpt-oss-dev", "0.7a"]
)
def test_versions_as_engines_write_them_are_read(version: str) -> None:
    assert ask(engine_version=version).tpot_s.value > 0


def test_a_refused_version_says_which_are_known() -> None:
    with pytest.raises(UsageError, match=r"such as 0\.19, the newest that is known; eras: V0, before 0\.8; V1, 0"):
        ask(engine_version="foo")


def test_a_refusal_names_the_question_that_says_what_would_fit() -> None:
    with pytest.raises(Infeasible, match=r"gpufleet fit llama-3.1-8b --gpus H100-SXM:1 --context 1000010"):
        estimate("llama-3.1-8b", "H100:1", input_tokens=1_000_000, output_tokens=10, batch=1)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_a_load_that_is_carried_has_a_first_token(rate: float) -> None:
    """Queue and capacity share one prompt service: below full load nothing is unlimited."""
    question = {"input_tokens": TokenCounts(8000.0), "output_tokens": TokenCounts(2.0)}
    full = estimate("llama-3.3-70b", "H100:4", full_queue=True, **question).requests_per_s.value
    found = estimate("llama-3.3-70b", "H100:4", rate=0.95 * rate * full, **question)
    assert math.isfinite(found.ttft_s.value)


@pytest.mark.parametrize(
    ("name", "gpus", "grade", "reason"),
    [
        ("nemotron-3-nano-30b-a3b", "H100:2", "roofline", "timed by formula"),
        ("deepseek-v4-flash", "H200:8", "transferred", "curves of full attention"),
    ],
)
def test_models_with_kernels_that_nobody_measured_bear_a_lower_grade_and_a_reason(name, gpus, grade, reason) -> None:
    found = ask(name, gpus)
    assert found.grade == grade
    assert any(reason in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gpus", "kernel", "curve"),
    [
        ("qwen3.5-35b-a3b", "H100:2", "state update", "H100-SXM bf16"),
        ("deepseek-v3.2", "H200:8", "choice", "H200-SXM bf16"),
        ("deepseek-v3.2", "H200:8", "sparse prefill", "H200-SXM bf16 vllm"),
    ],
)
def test_an_explanation_names_whose_measurements_rarer_layers_take(name, gpus, kernel, curve) -> None:
    found = ask(name, gpus, explain=True).explanation
    operation = next(o for o in (*found.decode.operations, *found.prefill.operations) if o.kernel == kernel)
    assert operation.curve == curve


def test_an_unknown_decoder_is_answered_with_a_lower_grade_and_a_warning(tmp_path) -> None:
    shape = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    shape |= {"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "newcomer", "architectures": ["NewcomerForCausalLM"], **shape}))
    found, known = ask(str(config)), ask("llama-3-8b")
    assert found.grade == "transferred"
    assert any("newcomer" in note for note in found.notes)
    assert found.tpot_s.value == pytest.approx(known.tpot_s.value)
    assert found.tpot_s.high > known.tpot_s.high


def test_a_model_that_reads_images_says_what_one_adds() -> None:
    (note,) = (note for note in ask("qwen3-vl-8b", "H100:1").notes if "image" in note)
    assert "1,024 tokens" in note
    assert not any("image" in note for note in ask("qwen3-8b", "H100:1").notes)


def test_a_short_queue_delivers_no_more_than_one_that_never_empties() -> None:
    endless, short = (ask(full_queue=True, requests=n).requests_per_s.value for n in (None, 10.0))
    assert short < endless


def test_requests_of_one_batch_are_the_batch() -> None:
    with pytest.raises(UsageError, match="full-queue"):
        ask(batch=8, requests=10)


def test_an_engine_started_for_more_sequences_keeps_more_memory_for_them() -> None:
    long = {"input_tokens": 8000, "output_tokens": 8000, "engine": "tensorrt-llm"}
    few, many = (ask(concurrency=1, max_batch=n, **long).largest_batch for n in (64, 8192))
    assert many < few < 64


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_an_engine_told_to_keep_to_less_memory_holds_fewer_sequences(engine: str) -> None:
    long = {"input_tokens": 8000, "output_tokens": 8000, "engine": engine, "concurrency": 1}
    free = ask(**long).largest_batch
    small, large = (ask(memory_fraction=share, **long).largest_batch for share in (0.6, 0.95))
    assert small < free <= large


def test_the_command_that_starts_a_replica_states_the_share_of_memory_that_was_asked_for() -> None:
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        launch = ask(concurrency=1, memory_fraction=0.6, engine=engine, launch=True).launch
        assert launch is not None
        assert "0.6" in str(launch)


@pytest.mark.parametrize("share", [0.0, 1.2])
def test_a_share_of_memory_is_of_the_whole(share: float) -> None:
    with pytest.raises(UsageError, match="not a share of memory"):
        ask(concurrency=1, memory_fraction=share)


def test_a_question_asked_again_finds_its_replica_ready(monkeypatch) -> None:
    """What does not depend on lengths and load is gathered once: the second answer must build nothing anew."""
    ask(input_tokens=1000, engine="sglang")
    monkeypatch.setattr("gpufleet.optimize.estimate.StepModel.build", None)
    assert ask(input_tokens=1001, engine="sglang").tpot_s.value > 0


@pytest.mark.parametrize(
    ("model", "version", "is_judged"),
    [("llama-2-70b", "0.6.1", True), ("llama-2-70b", "0.8", False), ("llama-2-7b", "0.6.1", False)],
)
def test_attention_without_a_kernel_for_its_groups_says_that_it_rests_on_a_judgement(
    model: str, version: str, is_judged: bool
) -> None:
    """TensorRT-LLM shares keys and values of groups of eight from 0.7 on; llama-2-7b has no groups."""
    found = ask(model, "A100-80GB:4", engine="tensorrt-llm", engine_version=version, batch=8)
    assert any("30 GB/s for each multiprocessor" in note for note in found.notes) is is_judged


def test_the_time_of_a_vision_tower_says_that_it_is_a_judgement() -> None:
    [note] = [note for note in ask("qwen3.5-35b-a3b").notes if "An image" in note]
    assert "a judgement: 40% of the peak" in note


def test_a_layout_on_fewer_gpus_says_how_many_to_ask_for() -> None:
    with pytest.raises(UsageError, match="the layout does not use the GPUs") as refused:
        estimate("llama-3.1-8b", "H100:4", input_tokens=1000, output_tokens=200, concurrency=4, tp=2)
    assert "--gpus NAME:2" in str(refused.value)


@pytest.mark.parametrize("engine", ["llama.cpp", "transformers"])
def test_gpus_that_take_turns_hold_more_and_are_no_faster(engine: str) -> None:
    """An engine that splits by layer sends a token through one GPU after the other, and a batch too."""
    one, four = (ask(gpus=f"L4:{n}", engine=engine, batch=8) for n in (1, 4))
    assert (one.layout, four.layout) == ("TP1", "TP1/PP4")
    assert one.tpot_s.value == pytest.approx(four.tpot_s.value, rel=0.02)
    assert any("they take turns: 4 GPUs hold more, no faster" in note for note in four.notes)


def test_tensor_parallelism_of_an_engine_that_splits_by_layer_must_be_asked_for() -> None:
    asked = ask(gpus="L4:4", engine="llama.cpp", batch=1, tp=4)
    assert asked.layout == "TP4"
    assert "llama.cpp splits by layer unless told otherwise: its TP4 was hardly measured." in asked.notes


def test_stages_that_are_stated_must_use_the_gpus_of_an_engine_that_splits_by_layer() -> None:
    with pytest.raises(UsageError, match="TP1/PP2 is 2 of 4"):
        ask(gpus="L4:4", engine="llama.cpp", batch=1, pp=2)


@pytest.mark.parametrize(
    ("engine", "asked", "instead"), [("gpt-fast", "int8", "int8_wo"), ("llama.cpp", "fp8", "int4")]
)
def test_a_format_that_the_engine_lacks_is_refused_with_those_that_it_runs(
    engine: str, asked: str, instead: str
) -> None:
    question = {"input_tokens": 100, "output_tokens": 10, "batch": 1, "engine": engine}
    with pytest.raises(Infeasible, match=f"does not run {asked} weights.* on L4 runs --precision .*{instead}"):
        estimate("llama-3.1-8b", "L4:1", precision=asked, **question)
    assert estimate("llama-3.1-8b", "L4:1", precision=instead, **question).weight_format == instead


@pytest.mark.parametrize(
    ("engine", "model", "family"),
    [
        ("sglang", "mpt-7b", "mpt"),
        ("sglang", "falcon-7b", "falcon"),
        ("gpt-fast", "nemotron-3-nano-30b-a3b", "nemotron_h"),
        ("fastertransformer", "qwen3-next-80b-a3b", "qwen3_next"),
        ("llama.cpp", "opt-6.7b", "opt"),
    ],
)
def test_an_engine_without_the_architecture_is_refused_and_those_with_it_are_named(
    engine: str, model: str, family: str
) -> None:
    with pytest.raises(Infeasible, match=f"does not implement the architecture of {family} models") as refused:
        ask(model, "A100:8", engine=engine, batch=1)
    assert refused.value.exit_code == 3
    assert f"found '{model}'" in str(refused.value)
    assert "vLLM" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("engine", "model"),
    [("sglang", "gpt-j-6b"), ("fastertransformer", "gpt-j-6b"), ("gpt-fast", "mixtral-8x7b"), ("vllm", "mpt-7b")],
)
def test_an_engine_with_the_architecture_answers(engine: str, model: str) -> None:
    """GPT-J came to SGLang with sgl-project/sglang pull/7839."""
    assert ask(model, "A100:4", engine=engine, batch=1, tp=4).tpot_s.value > 0


def test_prompts_that_share_steps_with_decoding_come_sooner_and_slow_what_runs() -> None:
    """SGLang's --enable-mixed-chunk: clients fall out of step, so that each meets the others' prompts as it decodes."""
    alike = {"input_tokens": 4000, "output_tokens": 100, "concurrency": 40, "length_spread": 0.0}
    asked = {**alike, "engine": "sglang", "launch": True}
    apart = estimate("llama-3.1-8b", "H200:1", **asked)
    mixed = estimate("llama-3.1-8b", "H200:1", **asked, mixes_prompts=True)
    assert mixed.ttft_s.value < 0.5 * apart.ttft_s.value
    assert mixed.tpot_s.value > 1.2 * apart.tpot_s.value
    assert ["--enable-mixed-chunk" in str(found.launch) for found in (apart, mixed)] == [False, True]


@pytest.mark.parametrize(("batch", "measured_s"), [(10, 0.0130), (50, 0.0195), (100, 0.0290)])
def test_two_cards_without_peer_access_are_as_slow_as_was_measured(batch: int, measured_s: float) -> None:
    """qwen2-7b on two A100 PCIe of a machine without peer-to-peer access, vLLM 0.10.1; tolerance 25 %.

    Its exchanges start in 78 us, those of three other machines in 5 to 55.
    """
    said = {"input_tokens": 1024, "output_tokens": 1024, "batch": batch, "engine_version": "0.10.1"}
    off, on = (estimate("qwen2-7b", "A100-PCIe-80GB:2", **said, peer_to_peer=access) for access in (False, True))
    assert off.tpot_s.low < measured_s < off.tpot_s.high
    assert off.tpot_s.value == pytest.approx(measured_s, rel=0.25)
    assert on.tpot_s.value < 0.75 * measured_s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "said", "recorded"),
    [
        ("RTX-4090:2", None, ("off", "default")),  # drivers of consumer cards refuse it
        ("RTX-4090:2", True, ("on", "given")),
        ("L40S:2", None, ("on", "default")),
        ("L40S:2", False, ("off", "given")),
        ("H100:2", None, None),  # NVLink
        ("L40S:1", None, None),
    ],
)
def test_peer_access_is_a_fact_of_the_card_that_can_be_overruled(
    gpus: str, said: bool | None, recorded: tuple[str, str] | None
) -> None:
    load = {"input_tokens": 512, "output_tokens": 64, "batch": 4, "peer_to_peer": said}
    result = estimate("llama-3.1-8b", gpus, precision="fp8", **load)
    found = [(row.value, row.origin) for row in result.inputs if row.name == "peer_to_peer"]
    assert found == ([recorded] if recorded else [])
    assert any("--peer-to-peer" in note for note in result.notes) is (recorded is not None and said is None)


@pytest.mark.slow
def test_a_stage_on_several_machines_exchanges_over_their_network() -> None:
    """No box holds 16 of these: one of 16 cards on PCIe does not exist, and the network is no faster than a slot."""
    links = {gpus: ask("llama-3.1-70b", gpus, tp=16) for gpus in ("H100:16", "L4:16")}
    said = {gpus: next(row.value for row in found.inputs if row.name == "link") for gpus, found in links.items()}
    assert said == {
        "H100:16": "2 machines of 8 GPUs, their network at 64 GB/s",
        "L4:16": "2 machines of 8 GPUs, their network at 12.5 GB/s",
    }
    experts = ask("deepseek-v3", "H100:16", attention_dp=16, ep=16)
    assert any(row.value.endswith("50 GB/s") for row in experts.inputs if row.name == "link")


def test_more_gpus_than_a_machine_has_are_a_stage_on_each_of_several() -> None:
    found = ask("llama-3.1-70b", "H100:16")
    assert (found.ranks.tp, found.ranks.pp) == (8, 2)
    assert any("several machines of 8" in note for note in found.notes)
    assert ask("llama-3.1-70b", "A100-40GB:16", tp=16).ranks.pp == 1  # a2-megagpu-16g holds 16


@pytest.mark.parametrize(("sold", "whole"), [("H800", "H100"), ("A800", "A100")])
def test_a_card_for_china_computes_like_the_whole_one_and_is_slower_over_its_link(sold: str, whole: str) -> None:
    """NVLink at 400 GB/s both ways, all else of the silicon alike."""
    alone, pair = ([ask(gpus=f"{name}:{n}", batch=64) for name in (sold, whole)] for n in (1, 4))
    assert alone[0].tpot_s.value == pytest.approx(alone[1].tpot_s.value, rel=0.01)
    assert pair[0].ttft_s.value > 1.02 * pair[1].ttft_s.value


def test_a_machine_refuses_peer_access_whatever_its_gpus_could() -> None:
    """g6 machines of AWS have no P2P over PCIe (llm-d-incubation/llm-d-infra pull/181); other machines with L4 may."""
    load: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 100, "batch": 8, "instance": "g6.12xlarge"}
    plain, on, off = (estimate("qwen2.5-14b", "L4:4", **load, peer_to_peer=access) for access in (None, True, False))
    assert plain.tpot_s.value == off.tpot_s.value > on.tpot_s.value
    found = [(row.value, row.origin) for row in plain.inputs if row.name == "peer_to_peer"]
    assert found == [("off", "default")]
    elsewhere = estimate("qwen2.5-14b", "L4:4", **{**load, "instance": None})
    assert [row.value for row in elsewhere.inputs if row.name == "peer_to_peer"] == ["on"]
