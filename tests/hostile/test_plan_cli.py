"""`plan serve` and `estimate` under hostile input: one message, the right exit code, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from gpufleet.cli import main

PLAN = ("plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200")
ESTIMATE = ("estimate", "llama-3.1-8b", "--gpus", "H100:1", "--in", "1000", "--out", "200")


class Case(NamedTuple):
    """Words after `gpufleet`, what the message must contain, and the exit code."""

    words: tuple[str, ...]
    told: tuple[str, ...] = ()
    code: int = 2


def plan(*more: str) -> tuple[str, ...]:
    """A sound question with options changed: of two that are alike the last counts."""
    return (*PLAN, *more)


def estimate(*more: str) -> tuple[str, ...]:
    return (*ESTIMATE, *more)


def batch(*more: str) -> tuple[str, ...]:
    return ("plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "10", "--out", "10", "--deadline", "9h", *more)


def embed(*more: str) -> tuple[str, ...]:
    """A sound job of an encoder with options changed."""
    return ("plan", "batch", "bert-base", "--requests", "1M", "--in", "128", "--deadline", "9h", *more)


def embedded(*more: str) -> tuple[str, ...]:
    """A sound service of an encoder with options changed."""
    return ("plan", "serve", "bert-base", "--rate", "5/s", "--in", "128", *more)


OF_EMBEDDINGS = (
    (("--out", "5"), ("writes no answer",)),
    (("--audio", "5s"), ("takes no audio",)),
    (("--beams", "1.5"), ("not whole",)),
    (("--beams", "1e9"), ("beams",)),
    (("--in", "p50=100,p95=300"), ("differ", "one number")),
    (("--in", "0"), ("positive",)),
    (("--prefix-cache", "20%", "--kv-precision", "fp8"), ("is not a decoder", "--prefix-cache, --kv-precision")),
    (("--allow-lower-precision",), ("is not a decoder", "--allow-lower-precision")),
    (("--trace", "words.yaml"), ("is not a decoder", "--trace")),
    (("--engine", "sglang"), ("transformers",)),
    (("--precision", "fp99"), ("precision",)),
    (("--requests", "1e30"), ("requests",)),
    (("--deadline", "5min"), ("leaves no time",)),
    (("--workload", "zones.yaml"), ("'plan batch' does not read",)),
)
OF_EMBEDDED = (
    (("--slo", "ttft.p95<50ms"), ("is not a decoder", "ttft.p95", "latency.p95<50ms")),
    (("--slo", "latency.p95<50ms,tpot<5ms"), ("tpot.p95",)),
    (("--rate", "1e9/s"), ("rate is out of range",)),
    (("--flips",), ("is not a decoder", "--flips")),
    (("--pareto",), ("--pareto",)),
    (("--why-not", "L4"), ("--why-not",)),
    (("--token-price", "1/2"), ("--token-price",)),
    (("--grid", "100"), ("--grid",)),
    (("--fractions",), ("--fractions",)),
    (("--seed-config", "."), ("--seed-config",)),
    (("--workload", "of_classes.yaml"), ("is not a decoder", "classes")),
    (("--workload", "job.yaml"), ("'plan serve' does not read",)),
    (("--as-of", "tomorrow"), ("not a day",)),
)
ONE = "model: llama-3.1-8b\nrate: 5/s\n"
PLAIN = f"{ONE}in: 100\nout: 100\n"
WORKLOAD_TEXTS = {
    "class_key.yaml": (f"{ONE}classes: {{chat: {{shar: 100%}}}}\n", ("shar", "share")),
    "class_name.yaml": (f"{ONE}classes: {{'a b': {{share: 100%, in: 9, out: 9}}}}\n", ("a name of a class",)),
    "class_empty.yaml": (f"{ONE}classes: {{chat: }}\n", ("says nothing",)),
    "class_list.yaml": (f"{ONE}classes: [chat]\n", ("not a mapping",)),
    "no_classes.yaml": (f"{ONE}classes: {{}}\n", ("'classes' has no value",)),
    "many_classes.yaml": (f"{ONE}classes: {{{', '.join(f'c{i}: {{share: 1%}}' for i in range(9))}}}\n", ("at most 8",)),
    "shares.yaml": (f"{ONE}classes: {{a: {{share: 50%, in: 9, out: 9}}}}\n", ("do not add up", "100%")),
    "share_and_rate.yaml": (f"{ONE}classes: {{a: {{share: 50%, rate: 1/s, in: 9, out: 9}}}}\n", ("'a'", "share")),
    "no_share.yaml": (f"{ONE}classes: {{a: {{in: 9, out: 9}}}}\n", ("'share: 80%'",)),
    "unknown_total.yaml": ("model: x\nclasses: {a: {share: 100%, in: 9, out: 9}}\n", ("unknown rate",)),
    "in_beside.yaml": (f"{PLAIN}classes: {{a: {{share: 100%, in: 9, out: 9}}}}\n", ("in, out next to 'classes'",)),
    "class_out.yaml": (f"{ONE}classes: {{a: {{share: 100%, in: 9}}}}\n", ("class 'a': --out is missing",)),
    "class_slo.yaml": (f"{ONE}classes: {{a: {{share: 100%, in: 9, out: 9, slo: ttf<1s}}}}\n", ("ttft",)),
    "tokens.yaml": (f"{ONE}in: {{p59: 7}}\nout: 7\n", ("p50",)),
    "tokens_empty.yaml": (f"{ONE}in: {{}}\nout: 7\n", ("'in' has no value",)),
    "models_word.yaml": ("models: llama-3.1-8b\n", ("not a list of mappings",)),
    "models_key.yaml": ("models: [{modell: x}]\n", ("model",)),
    "models_budget.yaml": ("models: [{model: x, budget: 5/h}]\n", ("budget",)),
    "model_twice.yaml": ("model: x\nmodels: [{model: y}]\n", ("both a model and several models",)),
    "off_peak.yaml": (f"{PLAIN}off_peak: 1/s\n", ("the hours of the peak are missing",)),
    "off_peak_high.yaml": (f"{PLAIN}off_peak: 9/s\npeak_hours: 8\n", ("above the rate",)),
    "peak_hours.yaml": (f"{PLAIN}off_peak: 1/s\npeak_hours: 24\n", ("from 0 to 24",)),
    "zones.yaml": (f"{PLAIN}zones: 0.5\n", ("not whole",)),
    "zones_many.yaml": (f"{PLAIN}zones: 100\n", ("from 1 to 26",)),
    "of_classes.yaml": ("classes: {a: {share: 100%, in: 9, out: 9}}\n", ("MODEL",)),
    "audio.yaml": (f"{PLAIN}audio: 5s\n", ("--audio", "is a decoder")),
    "job.yaml": (f"{PLAIN}deadline: 5h\n", ("deadline",)),
    "prefix.yaml": (f"{PLAIN}prefix_cache: 20%\nprefix_kv: 30%\n", ("not shared",)),
}
WORKLOADS = [(name, told) for name, (_, told) in WORKLOAD_TEXTS.items()]


CASES = [
    Case(("plan", "serve"), ("MODEL",)),
    Case(("plan", "serve", "llama-3.1-8b"), ("--rate is missing", "50/s")),
    Case(("plan", "serve", "llama-3.1-8b", "--rate", "5/s"), ("--in is missing",)),
    Case(("plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "9"), ("--out is missing",)),
    Case(("plan", "serve", "lama-3.1-8b", *PLAN[3:]), ("llama-3.1-8b",)),
    Case(("plan", "serve", "truncated.json", *PLAN[3:]), ("not JSON", "truncated.json")),
    Case(("plan", "serve", "missing.json", *PLAN[3:]), ("missing.json",)),
    Case(("plan", "sreve"), ("serve",)),
    Case(plan("--rate", "50"), ("50/s",)),
    Case(plan("--rate", "nan/s")),
    Case(plan("--rate", "inf/s")),
    Case(plan("--rate", "-5/s")),
    Case(plan("--rate", "0/s")),
    Case(plan("--rate", "1e12/s"), ("out of range",)),
    Case(plan("--rate", "1e-300/s")),
    Case(plan("--in", "0")),
    Case(plan("--in", "1e300")),
    Case(plan("--out", "-3")),
    Case(plan("--out", "lots")),
    Case(plan("--out", "plan.json"), ("--out-file",)),
    Case(plan("--slo", "ttft<"), ("ttft.p95<500ms",)),
    Case(plan("--slo", "garbage"), ("ttft.p95<500ms",)),
    Case(plan("--slo", "")),
    Case(plan("--slo", "ttft<500"), ("500ms",)),
    Case(plan("--slo", "tfft<500ms"), ("ttft",)),
    Case(plan("--slo", "ttft.p97<500ms"), ("p95",)),
    Case(plan("--slo", "ttft<1ms,ttft<2ms"), ("twice",)),
    Case(plan("--headroom", "500%"), ("20%",)),
    Case(plan("--headroom", "-20%")),
    Case(plan("--headroom", "nan")),
    Case(plan("--min-replicas", "0")),
    Case(plan("--min-replicas", "1.5"), ("whole",)),
    Case(plan("--min-replicas", "1e9"), ("out of range",)),
    Case(plan("--rows", "0")),
    Case(plan("--today", ""), ("--today has no value",)),
    Case(plan("--today", ","), ("cannot read today's fleet",)),
    Case(plan("--today", "some machines"), ("unknown",)),
    Case(plan("--today", "0 H100:8"), ("out of range",)),
    Case(plan("--today", "3 H100:8@-5/h"), ("price",)),
    Case(plan("--today", "3 aws:p5.49xlarge"), ("p5.48xlarge",)),
    Case(plan("--today", "3 aws:p5.48xlarge@6.88/h"), ("the price of one GPU", "6.88/gpu/h")),
    Case(plan("--today", "H100:8", "--zones", "2"), ("cannot be combined with these yet", "zones")),
    Case(plan("--today", "H100:8", "--off-peak", "1/s", "--peak-hours", "9h"), ("quiet hours",)),
    Case(("plan", "serve", "--workload", "several.yaml", "--today", "H100:8"), ("several models",)),
    Case(embedded("--today", "H100:8"), ("is not a decoder", "--today")),
    Case(batch("--workload", "today.yaml"), ("today", "plan batch")),
    Case(("compare", "L4", "H100", "--workload", "today.yaml"), ("today", "compare")),
    Case(plan("--clouds", "awss"), ("aws",)),
    Case(plan("--clouds", ","), ("an empty name",)),
    Case(plan("--clouds", "aws", "--clouds", "gcpp"), ("gcp",)),
    Case(plan("--clouds", "aws,,gcp"), ("an empty name",)),
    Case(plan("--clouds", ""), ("--clouds has no value",)),
    Case(plan("--engine", ""), ("--engine has no value",)),
    Case(plan("--engine="), ("--engine has no value",)),
    Case(plan("--precision", " "), ("--precision has no value",)),
    Case(plan("--workload", "no_clouds.yaml"), ("'clouds' has no value",)),
    Case(("plan", "serve", "", *PLAN[3:]), ("an argument has no value",)),
    Case(estimate("--full-queue", "--engine-version", ""), ("--engine-version has no value",)),
    Case(("catalog", "gpus", "--catalog", ""), ("--catalog has no value",)),
    Case(("catalog", "gpus", "--gpu", "H100,"), ("an empty name",)),
    Case(("catalog", "gpus", "--gpu", "H1000", "--gpu", "L40S"), ("'H1000'",)),
    Case(plan("--gpus", "H100:4"), ("no count here", "'H100'")),
    Case(("fit", "llama-3.1-8b", "--gpus", "4xH100"), ("Write H100:4.",)),
    Case(("fit", "llama-3.1-8b", "--gpus", "####H100"), ("not a GPU name",)),
    Case(plan("--regions", "us-esat-1"), ("us-east-1",)),
    Case(plan("--gpus", "H1000"), ("H100",)),
    Case(plan("--pricing", "spott"), ("spot",)),
    Case(plan("--engine", "vlmm"), ("vllm",)),
    Case(plan("--precision", "fp88"), ("fp8",)),
    Case(plan("--kv-precision", "bf61"), ("bf16",)),
    Case(plan("--show", "everything"), ("rejected",)),
    Case(plan("--clods", "aws"), ("--clouds",)),
    Case(plan("--pricing", "commit_3y", "--clouds", "lambda"), ("no price of commit_3y is known",), 5),
    Case(plan("--out-file", "missing/folder/plan.json"), ("cannot write",)),
    Case(plan("--workload", "missing.yaml"), ("missing.yaml",)),
    Case(plan("--workload", "unknown_key.yaml"), ("modle", "model")),
    Case(plan("--workload", "words.yaml"), ("key: value",)),
    Case(("plan", "serve", "--workload", "no_rate.yaml"), ("--rate is missing",)),
    Case(("plan", "serve", "--workload", "bad_rate.yaml"), ("50/s",)),
    *(Case(("plan", "serve", "--workload", name), told) for name, told in WORKLOADS),
    Case(plan("--budget", "60"), ("20/h",)),
    Case(plan("--budget", "-1/h"), ("budget",)),
    Case(plan("--max-spot", "150%"), ("between 0 and 1",)),
    Case(plan("--in", "p95=100"), ("one percentile",)),
    Case(plan("--in", "p50=10,p95=1"), ("must not fall",)),
    Case(plan("--out", "p95=8k,mean=1"), ("a mean of at least",)),
    Case(plan("--in", "pp5=10"), ("p95",)),
    Case(plan("--trace", "missing.csv", "--in", "5"), ("missing.csv",)),
    Case(("plan", "batch"), ("MODEL",)),
    Case(("plan", "batch", "llama-3.1-8b"), ("--requests is missing",)),
    Case(("plan", "batch", "llama-3.1-8b", "--requests", "1M"), ("--deadline is missing", "24h")),
    Case(batch("--requests", "0"), ("positive",)),
    Case(batch("--requests", "1e30"), ("requests",)),
    Case(batch("--deadline", "24"), ("a number with unit",)),
    Case(batch("--deadline", "5min"), ("leaves no time", "--startup")),
    Case(batch("--startup", "1000d"), ("time to start",)),
    Case(batch("--max-machines", "0.5"), ("not whole",)),
    Case(batch("--budget", "free"), ("amount of USD",)),
    Case(batch("--prefix-cache", "100%"), ("below 100%",)),
    Case(batch("--trace", "words.yaml"), ("the trace",)),
    Case(batch("--workload", "no_rate.yaml", "--deadline", "1s"), ("leaves no time",)),
    Case(batch("--workload", "zones.yaml"), ("rate, zones", "'plan batch' does not read")),
    Case(plan("--workload", "job.yaml"), ("deadline", "'plan serve' does not read")),
    *(Case(embed(*words), told) for words, told in OF_EMBEDDINGS),
    *(Case(embedded(*words), told) for words, told in OF_EMBEDDED),
    Case(batch("--audio", "3s"), ("is a decoder", "--audio")),
    Case(plan("--beams", "3"), ("is a decoder", "--beams")),
    Case(plan("--workload", "audio.yaml"), ("is a decoder", "--audio")),
    Case(("plan", "serve", "bert-base", "--rate", "3/s", "--in", "513"), ("512",), 3),
    Case(embed("--precision", "fp8"), ("no kernels for fp8", "int8"), 3),
    Case(("plan", "serve", "whisper-tiny", "--rate", "3/s", "--in", "10"), ("takes no text",)),
    Case(("plan", "serve", "t5-small", "--rate", "3/s", "--in", "10"), ("writes an answer",)),
    Case(("plan", "serve", "wav2vec2-base", "--rate", "3/s"), ("--audio",)),
    Case(("estimate",), ("MODEL",)),
    Case(("estimate", "llama-3.1-8b"), ("--gpus",)),
    Case(estimate(), ("one load",)),
    Case(estimate("--rate", "2/s", "--batch", "4"), ("one load",)),
    Case(estimate("--rate", "2")),
    Case(estimate("--concurrency", "0")),
    Case(estimate("--concurrency", "nan")),
    Case(estimate("--batch", "1e12"), ("1,000,000",)),
    Case(estimate("--full-queue", "--gpus", "H100:0")),
    Case(estimate("--full-queue", "--gpus", "H1000:1"), ("H100",)),
    Case(estimate("--full-queue", "--tp", "3"), ("TP3",)),
    Case(estimate("--full-queue", "--tp", "0"), ("--tp",)),
    Case(estimate("--full-queue", "--ep", "7")),
    Case(estimate("--full-queue", "--pp", "-1"), ("--pp",)),
    Case(estimate("--full-queue", "--in", "0")),
    Case(estimate("--full-queue", "--instance", "g6e.12xlarg"), ("g6e.12xlarge",)),
    Case(estimate("--full-queue", "--engine", "vlmm"), ("vllm",)),
    Case(estimate("--full-queue", "--precision", "fp99"), ("fp8",)),
    Case(("estimate", "llama-3.3-70b", *ESTIMATE[2:], "--full-queue"), ("short by",), 3),
    Case(estimate("--rate", "5000/s"), ("one replica sustains",), 3),
]


@pytest.fixture
def hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with files that no reader should trust."""
    texts = {
        "truncated.json": json.dumps({"model_type": "llama", "hidden_size": 4096})[:-5],
        "unknown_key.yaml": "modle: llama-3.1-8b\n",
        "words.yaml": "just words\n",
        "no_clouds.yaml": "clouds: []\n",
        "no_rate.yaml": "model: llama-3.1-8b\nin: 10\nout: 10\n",
        "today.yaml": "today: 3 H100:8\n",
        "several.yaml": "rate: 1/s\nin: 10\nout: 10\nmodels:\n  - model: llama-3.1-8b\n",
        "bad_rate.yaml": "model: llama-3.1-8b\nrate: 50\nin: 10\nout: 10\n",
        **{name: text for name, (text, _) in WORKLOAD_TEXTS.items()},
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case.words))
def test_one_message_and_the_right_exit_code(
    case: Case, hostile_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hostile_folder.is_dir()
    code = main(case.words)
    said = capsys.readouterr()
    assert (code, said.out) == (case.code, "")
    assert said.err.startswith("gpufleet: error: ")
    assert said.err.count("\n") == 1
    assert "our bug" not in said.err
    for part in case.told:
        assert part in said.err


def test_nobody_is_asked_for_the_rate_that_the_file_spells_out(
    hostile_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("plan", "serve", "--workload", str(hostile_folder / "no_rate.yaml"), "--rate", "1/s")) == 0
    assert "1 request/s" in capsys.readouterr().out


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "gpufleet", *PLAN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


def test_an_answer_that_cannot_be_written_leaves_no_half_file(
    hostile_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(hostile_folder.iterdir())
    assert main(plan("--out-file", ".")) == 2
    assert "cannot write" in capsys.readouterr().err
    assert sorted(hostile_folder.iterdir()) == before


def test_a_list_may_be_typed_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    told = {}
    for words in (["--cloud", "aws,gcp"], ["--cloud", "aws", "--clouds", "gcp,aws"]):
        assert main(["catalog", "prices", "--gpu", "H100", *words, "--gpu", "L4", "-o", "json"]) == 0
        told[len(words)] = json.loads(capsys.readouterr().out)
    rows = told[2]["rows"]
    assert told[2] == told[4]
    assert {row["cloud"] for row in rows} == {"aws", "gcp"}
    assert {row["gpu"] for row in rows} == {"H100-SXM", "L4"}


def test_a_plan_takes_every_cloud_of_a_repeated_flag(capsys: pytest.CaptureFixture[str]) -> None:
    plans = []
    for clouds in (("--clouds", "aws,lambda"), ("--clouds", "aws", "--clouds", "lambda")):
        assert main([*PLAN, *clouds, "--gpus", "H100", "-o", "json"]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    assert plans[0] == plans[1]
    assert "aws, lambda" in {given["value"] for given in plans[0]["inputs"]}


def test_prices_of_several_instance_types_are_all_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "prices", "--instance", "p5.48xlarge", "--instance", "g6.xlarge", "-o", "json"]) == 0
    assert {row["instance"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"p5.48xlarge", "g6.xlarge"}
