"""Rules of training beside our model: GPUs that hold it, what they take and how fast they are."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.compat import rules
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow
from gpufleet.compat.rules_today.gpus import gpus_answer
from gpufleet.compat.rules_today.memory import memory_answer
from gpufleet.compat.rules_today.page import figure_text, rule_page
from gpufleet.compat.rules_today.questions import (
    MEMORY_OF_TRAINING,
    RUNTIME_OF_TRAINING,
    GpusQuestion,
    MemoryQuestion,
    RuntimeQuestion,
)
from gpufleet.compat.rules_today.runtime import runtime_answer
from gpufleet.compat.rules_today.trained import formats_on
from gpufleet.domain.training import Method
from gpufleet.errors import UsageError
from gpufleet.report.text import page_as_text
from gpufleet.results.base import Figure
from gpufleet.units import DAY, HOUR


def row(answer: RuleAnswer, name: str, table: int = 0) -> RuleRow:
    return next(r for r in answer.tables[table].rows if r.name.startswith(name))


def test_memory_of_training_sums_to_a_total_with_a_range() -> None:
    answer = memory_answer(MEMORY_OF_TRAINING)
    parts = [r.ours.value for r in answer.tables[0].rows if r.ours and r.name != "total"]
    total = row(answer, "total").ours
    assert total is not None
    assert total.value == pytest.approx(sum(parts))
    assert total.low is not None
    assert total.high is not None
    assert total.low < total.value < total.high
    assert total.grade == "transferred"


def test_the_seeds_parts_of_training_stay_word_for_word() -> None:
    answer = memory_answer(MEMORY_OF_TRAINING)
    seed = rules.calculate_memory_requirements(7_000_000_000, 4, 2, 2048, training=True)
    assert [r.seed for r in answer.tables[0].rows if r.seed is not None] == list(seed.values())


def test_mixed_precision_keeps_six_bytes_of_state_a_byte_of_weight() -> None:
    answer = memory_answer(MemoryQuestion(precision="bf16", training=True))
    weights, states = row(answer, "model weights").ours, row(answer, "optimizer states").ours
    assert weights is not None
    assert states is not None
    assert states.value == 6 * weights.value


def test_gpus_that_hold_all_weights_and_adapters_are_named() -> None:
    fewest = memory_answer(MemoryQuestion(training=True, precision="bf16", gpu="H100")).tables[1]
    assert fewest.title == "fewest H100-SXM"
    assert [r.name for r in fewest.rows] == ["all weights", "LoRA", "QLoRA"]
    full, lora, qlora = (r.ours.value for r in fewest.rows if r.ours)
    assert full >= lora >= qlora >= 1
    assert all("GiB of 79.6 GiB each" in r.ours_text for r in fewest.rows)


def test_a_model_that_reads_less_is_trained_on_less_and_says_so() -> None:
    notes = memory_answer(MemoryQuestion(parameters=124e6, precision="fp32", training=True)).notes
    assert "gpt2 reads 1,024 tokens at most: our figures are for such sequences." in notes
    assert not any("at most" in note for note in memory_answer(MEMORY_OF_TRAINING).notes)


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "precision"), [("A100-80GB", "int8"), ("A100-80GB", "fp8"), ("T4", "bf16")])
def test_what_a_gpu_does_not_train_in_is_told_with_what_it_is_trained_in_instead(gpu: str, precision: str) -> None:
    memory = memory_answer(MemoryQuestion(precision=precision, training=True, gpu=gpu)).notes
    runtime = runtime_answer(RuntimeQuestion(precision=precision, training=True, gpus=(gpu,))).notes
    gpus = gpus_answer(GpusQuestion(precision=precision, gpu=gpu)).notes
    for notes in (memory, runtime, gpus):
        assert any(f"does not train in {precision}: our figures are for " in note for note in notes)


def test_gpus_on_which_nothing_trains_say_so() -> None:
    name = next(g.name for g in load_catalog().accelerators.values() if g.vendor not in ("nvidia", "amd"))
    answer = memory_answer(MemoryQuestion(training=True, precision="bf16", gpu=name))
    assert all("no training stack runs on" in r.ours_text for r in answer.tables[1].rows)


def test_time_of_training_has_tokens_per_second_range_and_grade() -> None:
    answer = runtime_answer(RuntimeQuestion(gpus=("A100-80GB",), training=True, tokens=1e9))
    time, rate = row(answer, "time, all weights"), row(answer, "rate, all weights")
    assert time.ours is not None
    assert rate.ours is not None
    assert time.ours.value * rate.ours.value == pytest.approx(1e9)
    assert rate.ours.low is not None
    assert time.ours.high == pytest.approx(1e9 / rate.ours.low)
    assert time.ours.grade == rate.ours.grade == rate.ours_text == "measured"
    assert " h on 2x A100-SXM4-80GB as " in time.ours_text
    assert time.seed == pytest.approx(1e9 / float(rate.seed or 0))


def test_a_time_is_never_below_what_the_peak_of_its_gpus_allows() -> None:
    answer = runtime_answer(RuntimeQuestion(gpus=("H100",), training=True))
    least = row(answer, "least on one GPU").ours
    full = row(answer, "time, all weights")
    assert least is not None
    assert full.ours is not None
    assert full.ours.value > least.value / int(full.ours_text.removeprefix("on ").partition("x")[0])


def test_gpus_to_train_stand_beside_six_times_the_weights() -> None:
    answer = gpus_answer(GpusQuestion())
    full = row(answer, "training, whole GPUs")
    assert full.seed == rules.whole_gpus(rules.gpus_for_training(70, 2, 80)) == 11
    assert full.ours is not None
    assert full.ours.value == 16
    assert [r.name for r in answer.tables[0].rows if r.name.startswith("in ")] == []


def test_gpus_in_time_are_no_fewer_than_those_that_hold_it() -> None:
    answer = gpus_answer(GpusQuestion(parameters=13e9, gpu="A100-80GB", train_on=10e9, within_s=3 * DAY))
    held, timely = row(answer, "training, whole GPUs").ours, row(answer, "in 72.0 h, all weights").ours
    assert held is not None
    assert timely is not None
    assert timely.value >= held.value
    assert [i.name for i in answer.inputs if i.origin == "given"] == ["GPU memory", "train on", "within"]


@pytest.mark.slow
def test_no_number_of_gpus_is_in_time_for_everything() -> None:
    answer = gpus_answer(GpusQuestion(train_on=1e15, within_s=HOUR))
    assert row(answer, "in 1.00 h, all weights").ours_text == "no number of these GPUs is in time"


@pytest.mark.parametrize("question", [GpusQuestion(train_on=1e9), GpusQuestion(within_s=DAY)])
def test_tokens_and_time_go_together(question: GpusQuestion) -> None:
    with pytest.raises(UsageError, match="is missing"):
        gpus_answer(question)


def test_the_command_reads_tokens_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--parameters", "7B", "--train-on", "1B", "--within", "1week", "-o", "json"]
    assert main(["rules", "gpus", *words]) == 0
    names = [r["name"] for r in json.loads(capsys.readouterr().out)["tables"][0]["rows"]]
    assert "in 168 h, LoRA" in names


@pytest.mark.parametrize(
    ("gpu", "precision", "method", "formats"),
    [
        ("A100-SXM4-80GB", "fp16", Method.FULL, "fp16-mixed"),
        ("A100-SXM4-80GB", "int8", Method.FULL, "bf16-mixed"),
        ("A100-SXM4-80GB", "fp8", Method.FULL, "bf16-mixed"),
        ("H100-SXM", "fp8", Method.FULL, "fp8-mixed"),
        ("T4", "bf16", Method.FULL, "fp16-mixed"),
        ("T4", "fp32", Method.FULL, "fp32"),
        ("T4", "fp32", Method.LORA, "fp16"),
        ("H100-SXM", "fp32", Method.QLORA, "bf16"),
    ],
)
def test_a_precision_of_the_seeds_is_trained_in_what_the_gpu_computes(
    gpu: str, precision: str, method: Method, formats: str
) -> None:
    assert formats_on(load_catalog().accelerators[gpu], precision, method) == formats


def test_whole_gpus_are_shown_without_decimals() -> None:
    assert figure_text(Figure(value=8, unit="GPUs", low=8, high=16)) == "8 (8-16) GPUs"
    assert figure_text(Figure(value=1, unit="GPUs", low=1, high=1)) == "1 GPU"


@pytest.mark.parametrize(
    "answered",
    [
        lambda: memory_answer(MEMORY_OF_TRAINING),
        lambda: runtime_answer(RUNTIME_OF_TRAINING),
        lambda: gpus_answer(GpusQuestion(train_on=1e9, within_s=DAY)),
    ],
    ids=["memory", "runtime", "gpus"],
)
def test_a_page_of_training_fits_eighty_columns_and_plans_nothing_for_later(answered: Callable[[], RuleAnswer]) -> None:
    text = page_as_text(rule_page(answered()), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "not modelled" not in text


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [7e9, 13e9, 70e9, 405e9])
def test_pre_training_takes_more_gpus_than_adapters_and_than_inference(parameters: float) -> None:
    answer = gpus_answer(GpusQuestion(parameters=parameters, gpu="A100-80GB"))
    names = ("training, whole GPUs", "training, LoRA", "inference, whole GPUs")
    full, lora, inference = (found.value for name in names if (found := row(answer, name).ours))
    assert full > lora
    assert full > inference
