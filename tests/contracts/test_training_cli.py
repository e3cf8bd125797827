"""Training on the command line: help, formats, exit codes, workload files, and what is hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.cli import main
from gpufleet.domain.training import Stack
from gpufleet.results.training import TrainingFit, TrainingPlan

pytestmark = pytest.mark.usefixtures("planned_once")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Ask = Callable[..., tuple[int, str, str]]
TUNE = ("plan", "finetune", "llama-3.1-8b", "--tokens", "50M")
TRAIN = ("plan", "train", "llama-3.2-1b", "--tokens", "1B", "--gpus", "H100:8")
FIT = ("fit", "llama-3.1-8b", "--gpus", "RTX-4090", "--method", "lora")
TOO_LARGE = ("fit", "llama-3.3-70b", "--gpus", "L4", "--method", "lora")
ANSWERS = {"finetune": TUNE, "train": TRAIN, "fit": FIT}
WORKLOAD = """\
model: llama-3.1-8b
method: lora
tokens: 50M
seq: 4096
batch: 32
deadline: 24h
gpus: ["H100:8", "A100-80GB:8"]
rank: 32
modules: [q, v]
layout: {micro-batch: 2}
offload: [optimizer]
pricing: [on_demand]
"""


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The command line in this process: exit code, answer, conversation."""

    def asked(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return asked


@pytest.mark.parametrize("verb", [("plan", "train"), ("plan", "finetune"), ("fit",)])
def test_help_names_the_words_of_training(ask: Ask, verb: tuple[str, ...]) -> None:
    code, out, _ = ask(*verb, "--help")
    assert code == 0
    assert "Training:" in out
    assert "--seq" in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("words", [TUNE, TRAIN])
def test_a_plan_is_read_back_from_json(ask: Ask, words: tuple[str, ...]) -> None:
    code, out, _ = ask(*words, "-o", "json")
    plan = TrainingPlan.model_validate_json(out)
    assert code == 0
    assert json.loads(plan.model_dump_json()) == json.loads(out)


@pytest.mark.parametrize("words", [FIT, TOO_LARGE])
def test_a_fit_is_read_back_from_json(ask: Ask, words: tuple[str, ...]) -> None:
    out = ask(*words, "-o", "json")[1]
    assert json.loads(TrainingFit.model_validate_json(out).model_dump_json()) == json.loads(out)


@pytest.mark.parametrize("output", ["table", "json", "csv", "md", "html"])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_format_is_written(ask: Ask, name: str, output: str) -> None:
    code, out, err = ask(*ANSWERS[name], "-o", output)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) > 2


@pytest.mark.parametrize("further", [(), ("--explain",), ("--show", "limits"), ("--show", "all", "--explain")])
@pytest.mark.parametrize("words", [TUNE, TRAIN])
def test_pages_keep_to_80_columns(ask: Ask, words: tuple[str, ...], further: tuple[str, ...]) -> None:
    code, out, _ = ask(*words, *further)
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("words", [(*FIT, "--explain"), TOO_LARGE])
def test_fits_keep_to_80_columns(ask: Ask, words: tuple[str, ...]) -> None:
    assert all(len(line) <= 80 for line in ask(*words)[1].splitlines())


def test_what_does_not_fit_ends_with_3_and_says_what_to_type(ask: Ask) -> None:
    code, out, _ = ask(*TOO_LARGE)
    assert code == 3
    assert "does not fit" in out
    assert "--gpus L4:8" in out


HOSTILE = {
    "rank 0": ((*FIT, "--rank", "0"), 2, "rank is out of range"),
    "rank 0 of a plan": ((*TUNE, "--rank", "0"), 2, "rank"),
    "a rank wider than the model": ((*TUNE, "--rank", "5000"), 2, "from 1 to 4,096"),
    "experts of a dense model": ((*TUNE, "--layout", "ep=8"), 2, "no experts to deal out"),
    "no machines": ((*TUNE, "--max-machines", "0"), 2, "number of machines is out of range"),
    "a run of all GPUs as of one": ((*TUNE, "--measured", "H100:8@98000"), 2, "not as fast as any such run"),
    "runs that disagree": ((*TUNE, "--measured", "H100:8@9800;H100:8@2500"), 2, "disagree"),
    "beyond the model": ((*FIT, "--seq", "200k"), 2, "longer than llama-3.1-8b reads"),
    "a plan beyond the model": ((*TUNE, "--seq", "200k"), 2, "longer than llama-3.1-8b reads"),
    "tokens of no unit": (("plan", "finetune", "llama-3.1-8b", "--tokens", "2X"), 2, "2X"),
    "micro-batch over the batch": (
        (*TUNE, "--batch", "8", "--layout", "micro-batch=16"), 2, "micro-batch is larger than the global batch"
    ),
    "a second": ((*TUNE, "--deadline", "1s"), 2, "deadline is out of range"),
    "an encoder": (("plan", "train", "bert-base", "--tokens", "1B"), 2, "not a decoder"),
    "an encoder to fit": (("fit", "bert-base", "--gpus", "L4", "--method", "full"), 2, "not a decoder"),
    "no such stack": ((*TUNE, "--stack", "tee"), 2, "te"),
    "two stacks": ((*FIT, "--stack", "te", "--eager"), 2, "two stacks"),
    "no layout divides": (
        ("fit", "llama-3.1-8b", "--gpus", "H100:8", "--method", "full", "--layout", "tp=3"), 3, "no layout of 8x"
    ),
    "no bf16": (("fit", "llama-3.1-8b", "--gpus", "T4", "--method", "lora"), 2, "Try --precision fp16."),
    "words of serving": ((*FIT, "--context", "8k", "--kv-precision", "fp8"), 2, "--context, --kv-precision of serving"),
    "a batch of users": ((*FIT, "--batch", "4"), 2, "--batch of serving"),
    "words of training": (("fit", "llama-3.1-8b", "--gpus", "L4", "--rank", "4"), 2, "--rank of training without"),
    "no model": (("fit", "--gpus", "L4", "--method", "lora"), 2, "MODEL is missing"),
    "no GPU": (("fit", "llama-3.1-8b", "--method", "lora"), 2, "--gpus is missing"),
    "all models": (("fit", "--owned", "2 x 8 L4", "--all-models", "--method", "lora"), 2, "--all-models of serving"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_makes_no_sense_is_one_sentence(ask: Ask, name: str) -> None:
    words, expected, told = HOSTILE[name]
    code, out, err = ask(*words)
    assert (code, out) == (expected, "")
    assert told in err
    assert len(err.splitlines()) == 1
    assert "our bug" not in err


def test_a_plan_on_a_number_of_gpus_that_no_layout_divides_is_infeasible(ask: Ask) -> None:
    code, out, _ = ask(*TUNE, "--gpus", "H100:8", "--layout", "tp=3")
    assert code == 3
    assert "no machine on offer" in out


def test_preferences_of_serving_are_not_heard(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFLEET_ENGINE", "sglang")
    assert ask(*FIT)[0] == 0


def test_a_workload_file_asks_for_fine_tuning(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "tune.yaml"
    file.write_text(WORKLOAD, encoding="utf-8")
    code, out, _ = ask("plan", "finetune", "--workload", str(file), "-o", "json")
    plan = TrainingPlan.model_validate_json(out)
    assert code == 0
    assert (plan.method, plan.tokens, plan.global_batch, plan.deadline_s) == ("lora", 50e6, 32, 86_400)
    assert {d.gpu for d in plan.deployments} <= {"H100-SXM", "A100-SXM4-80GB"}
    assert all(d.layout.micro_batch == 2 for d in plan.deployments)
    assert "rank 32" in next(i.value for i in plan.inputs if i.name == "trained")
    assert {i.origin for i in plan.inputs if i.name in ("model", "tokens", "sequence", "deadline")} <= {"file", "given"}


def test_the_example_is_planned_as_it_stands(ask: Ask) -> None:
    code, out, _ = ask("plan", "finetune", "--workload", str(EXAMPLES / "lora-of-an-8b.yaml"), "-o", "json")
    plan = TrainingPlan.model_validate_json(out)
    assert code == 0
    assert plan.answer.usd.value < 20
    assert all(d.layout.micro_batch == 1 for d in plan.deployments)


def test_a_flag_goes_before_the_file(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "tune.yaml"
    file.write_text(WORKLOAD, encoding="utf-8")
    out = ask("plan", "finetune", "--workload", str(file), "--method", "qlora", "--tokens", "10M", "-o", "json")[1]
    plan = TrainingPlan.model_validate_json(out)
    assert (plan.method, plan.tokens) == ("qlora", 10e6)


def test_a_workload_file_asks_for_training(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    kept = [line for line in WORKLOAD.splitlines() if line.partition(":")[0] not in ("method", "rank", "modules")]
    file.write_text("\n".join(kept).replace("{micro-batch: 2}", "micro-batch=2"), encoding="utf-8")
    code, out, _ = ask("plan", "train", "--workload", str(file), "-o", "json")
    assert code == 0
    assert TrainingPlan.model_validate_json(out).method == "full"


@pytest.mark.parametrize("verb", [("plan", "train"), ("plan", "serve"), ("plan", "batch")])
def test_words_of_another_verb_are_refused_in_a_file(ask: Ask, tmp_path: Path, verb: tuple[str, ...]) -> None:
    file = tmp_path / "tune.yaml"
    file.write_text(WORKLOAD, encoding="utf-8")
    code, _, err = ask(*verb, "--workload", str(file))
    assert code == 2
    assert "does not read" in err
    assert "rank" in err


@pytest.mark.parametrize(
    ("words", "meaning", "origin"),
    [
        (TRAIN, Stack.TE, "default"),
        ((*TRAIN, "--stack", "pytorch-sdpa"), Stack.PYTORCH_SDPA, "given"),
        ((*TRAIN, "--eager"), Stack.EAGER, "given"),
        (TUNE, Stack.PYTORCH_SDPA, "default"),
    ],
)
def test_the_stack_is_an_input_with_its_origin(ask: Ask, words: tuple[str, ...], meaning: Stack, origin: str) -> None:
    plan = TrainingPlan.model_validate_json(ask(*words, "-o", "json")[1])
    assert [(i.value, i.origin) for i in plan.inputs if i.name == "stack"] == [(meaning.meaning, origin)]
