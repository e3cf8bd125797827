"""Flags of the verbs that plan: grouped in their help, the same words as a workload file, the same tables for all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY, RunGpufleet

from gpufleet.cli.grouped_help import OF_ANSWERS, REST
from gpufleet.inputs.workload import KEYS
from gpufleet.questions import fields
from gpufleet.questions.training import FinetuneRequest, TrainRequest, words_of_training

CHAT = ("--rate", "5/s", "--in", "1000", "--out", "200", "--gpus", "L4,H100")
SERVE = ("plan", "serve", "llama-3.1-8b", *CHAT)
BATCH = ("plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "1000", "--out", "200", "--gpus", "L40S,H100",
         "--deadline", "24h")  # fmt: skip
COMPARE = ("compare", "L4", "H100", "--model", "llama-3.1-8b", *CHAT[:6])
ONLY_IN_FILES = {"model", "prefix_kv", "reason", "classes", "models"}
FLAG_OF_JOBS = {"requests", "deadline", "startup", "every", "audio", "beams"}
FLAG_OF_TRAINING = {"tokens", "seq", "batch", "optimizer", "layout", "offload", "measured", "stack"}
FLAG_OF_TUNING = {"method", "rank", "modules"}


@pytest.mark.parametrize(
    "verb", [("plan", "serve"), ("plan", "batch"), ("plan", "train"), ("plan", "finetune"), ("compare",)]
)
def test_every_option_stands_under_a_heading_within_eighty_columns(
    verb: tuple[str, ...], ask_gpufleet: RunGpufleet
) -> None:
    page = ask_gpufleet(*verb, "--help", COLUMNS="80").stdout
    headings = re.findall(r"^(\w[^\n]*):$", page, re.MULTILINE)
    assert REST not in headings, "an option has no heading: see cli/grouped_help.py"
    assert len(headings) >= 5
    assert max(map(len, page.splitlines())) <= 80


def test_no_flag_stands_under_two_headings() -> None:
    flags = [flag for of_heading in OF_ANSWERS.values() for flag in of_heading]
    words = {row.flag for row in fields.words_of(*fields.SERVE, *fields.BATCH).values() if row.is_typed}
    assert len(flags) == len(set(flags) - words)


def test_what_a_workload_file_says_can_be_typed(ask_gpufleet: RunGpufleet) -> None:
    """Every key but those that hold several things has a flag of its name in `plan serve`."""
    page = ask_gpufleet("plan", "serve", "--help").stdout
    keys = set(KEYS) - ONLY_IN_FILES - FLAG_OF_JOBS - FLAG_OF_TRAINING - FLAG_OF_TUNING
    assert untyped(keys, page) == set()


@pytest.mark.parametrize(
    ("verb", "kind", "own"),
    [
        ("train", TrainRequest, FLAG_OF_TRAINING),
        ("finetune", FinetuneRequest, FLAG_OF_TRAINING | FLAG_OF_TUNING),
    ],
)
def test_what_a_file_says_of_training_can_be_typed(
    verb: str, kind: type[TrainRequest] | type[FinetuneRequest], own: set[str], ask_gpufleet: RunGpufleet
) -> None:
    page = ask_gpufleet("plan", verb, "--help").stdout
    keys = {name for name, row in words_of_training(kind).items() if row.is_in_files} - ONLY_IN_FILES
    assert own <= keys
    assert untyped(keys, page) == set()


def untyped(keys: set[str], page: str) -> set[str]:
    """Keys that are no flag of a page."""
    return {key for key in keys if f"--{key.replace('_', '-')} " not in page.replace(",", " ")}


TYPED = {
    "prefix_cache": "30%", "spare_machines": "1", "zones": "2", "off_peak": "1/s", "peak_hours": "10h",
    "headroom": "30%", "budget": "500/h", "today": "2 L4:1@0.7/h", "peer_to_peer": "off",
}  # fmt: skip


@pytest.mark.parametrize("key", TYPED)
def test_a_flag_and_the_key_of_its_name_ask_the_same(key: str, ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    pair = {"off_peak": "peak_hours", "peak_hours": "off_peak"}.get(key)
    said = {key: TYPED[key], **({pair: TYPED[pair]} if pair else {})}
    (tmp_path / "asked.yaml").write_text("".join(f"{name}: {value}\n" for name, value in said.items()))
    flags = [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", value)]
    typed = ask_gpufleet(*SERVE, *flags, "-o", "json")
    written = ask_gpufleet(*SERVE, "--workload", "asked.yaml", "-o", "json")
    plain = ask_gpufleet(*SERVE, "-o", "json")
    assert typed.returncode == written.returncode == 0, typed.stderr + written.stderr
    hashes = [json.loads(done.stdout)["input_hash"] for done in (typed, written, plain)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(("flag", "text"), [("--deadline", "48"), ("--every", "2x"), ("--startup", "60m")])
def test_a_time_that_cannot_be_read_is_answered_with_its_units(flag: str, text: str, ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*BATCH, flag, text)
    assert done.returncode == 2
    assert "ms, s, min, h, day, week" in done.stderr


def test_a_week_is_a_week_for_the_deadline_and_for_the_period(ask_gpufleet: RunGpufleet) -> None:
    asked = [*BATCH[:-2], "--rows", "1", "-o", "json"]
    told = [json.loads(ask_gpufleet(*asked, "--deadline", week).stdout) for week in ("1week", "week", "7d", "168h")]
    assert [plan["deadline_s"] for plan in told] == [604_800.0] * 4
    again = json.loads(ask_gpufleet(*asked, "--deadline", "1d", "--every", "1week").stdout)
    assert again["period_s"] == 604_800.0


SPEECH = (
    "plan",
    "batch",
    "whisper-small",
    "--requests",
    "10k",
    "--audio",
    "30min",
    "--gpus",
    "L4",
    "--deadline",
    "24h",
)


@pytest.mark.parametrize("verb", [BATCH, SPEECH], ids=["decoder", "encoder"])
def test_a_job_is_planned_for_its_high_end_by_flag_and_by_file(
    verb: tuple[str, ...], ask_gpufleet: RunGpufleet, tmp_path: Path
) -> None:
    (tmp_path / "asked.yaml").write_text("confidence: 0.9\n")
    ways: tuple[tuple[str, ...], ...] = (("--confidence", "90%"), ("--workload", "asked.yaml"), ())
    typed, written, plain = (ask_gpufleet(*verb, *way, "--rows", "1", "-o", "json") for way in ways)
    told = [json.loads(done.stdout) for done in (typed, written, plain)]
    assert [plan["confidence"] for plan in told] == [0.9, 0.9, 0.8]
    assert told[0]["deployments"] == told[1]["deployments"]
    page = ask_gpufleet(*verb, "--confidence", "0.9", "--rows", "1").stdout
    assert "In time at 90% confidence." in " ".join(page.split())


@pytest.mark.parametrize("verb", [SERVE, BATCH, COMPARE], ids=["serve", "batch", "compare"])
def test_prices_may_be_too_old_for_every_verb_that_plans(verb: tuple[str, ...], ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*verb, "--clouds", "aws,gcp", "--max-age", "1d", "--as-of", "2026-11-21")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "older than 1 days" in done.stderr
    assert ask_gpufleet(*verb, "--clouds", "azure", "--pricing", "on_demand", "--as-of", "2026-06-01").returncode == 5
    assert ask_gpufleet(*verb, "--as-of", "yesterday").returncode == 2


@pytest.mark.parametrize("verb", [SERVE, BATCH, COMPARE], ids=["serve", "batch", "compare"])
def test_ones_own_tables_count_for_every_verb_that_plans(verb: tuple[str, ...], ask_gpufleet: RunGpufleet) -> None:
    own, plain = (
        ask_gpufleet(*verb, "--clouds", "gcp", "--pricing", "on_demand", *words, "-o", "json")
        for words in (("--catalog", str(REPOSITORY / "examples" / "own-tables")), ())
    )
    assert own.returncode == plain.returncode == 0, own.stderr
    assert own.stdout != plain.stdout
    assert ask_gpufleet(*verb, "--catalog", "nowhere").returncode == 2


def test_a_batch_job_may_take_a_slice_of_a_gpu(ask_gpufleet: RunGpufleet) -> None:
    small = ("plan", "batch", "qwen2.5-0.5b", "--requests", "10k", "--in", "200", "--out", "50", "--deadline", "24h")
    done = ask_gpufleet(*small, "--gpus", "L4", "--clouds", "aws", "--fractions", "-o", "json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert any("(1/" in row["gpu"] for row in plan["deployments"])
    assert any("slice of a GPU" in note for note in plan["notes"])


def test_a_plan_on_ones_own_tables_is_explained_on_them(ask_gpufleet: RunGpufleet) -> None:
    """With its quota, and not by the shipped tables alone."""
    own = ("--catalog", str(REPOSITORY / "examples" / "tables" / "quota"))
    asked = ("plan", "serve", "llama-3.3-70b", "--rate", "40/s", "--in", "1000", "--out", "300", "--cloud", "azure")
    ask_gpufleet(*asked, "--slo", "tpot.p95<50ms", *own, "--out-file", "plan.json")
    assert "is reproduced" in ask_gpufleet("explain", "plan.json", *own).stdout
    assert "is reproduced" not in ask_gpufleet("explain", "plan.json").stdout


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--headroom", "lots"), ("--max-spot", "2"), ("--budget", "much"), ("--off-peak", "3"), ("--spare-machines", "x")],
)
def test_what_cannot_be_read_is_told_with_its_option_or_its_key(
    ask_gpufleet: RunGpufleet, tmp_path: Path, flag: str, said: str
) -> None:
    typed = ask_gpufleet(*SERVE, flag, said)
    assert typed.returncode == 2
    assert typed.stderr.startswith(f"gpufleet: error: {flag}: cannot read ")
    key = flag.removeprefix("--").replace("-", "_")
    file = tmp_path / "service.yaml"
    file.write_text(f"model: llama-3.1-8b\nrate: 5/s\nin: 1000\nout: 200\n{key}: {said}\n", encoding="utf-8")
    written = ask_gpufleet("plan", "serve", "--workload", str(file))
    assert written.returncode == 2
    assert written.stderr.startswith(f"gpufleet: error: '{key}': cannot read ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("serve", "llama-3.1-8b", "--rate", "fast"), "--rate: cannot read "),
        (("serve", "llama-3.1-8b", "--rate", "5/s", "--in", "many"), "--in: cannot read "),
        (("serve", "llama-3.1-8b", "--rate", "5/s", "--in", "100", "--out", "few"), "--out: cannot read "),
        (("serve", "bge-base-en-v1.5", "--rate", "5/s", "--in", "many"), "--in: cannot read "),
        (("batch", "llama-3.1-8b", "--requests", "2x"), "--requests: cannot read "),
        (("batch", "llama-3.1-8b", "--requests", "2", "--deadline", "15m"), "--deadline: cannot read "),
    ],
)
def test_a_word_that_must_be_said_is_told_with_its_option(
    ask_gpufleet: RunGpufleet, words: tuple[str, ...], told: str
) -> None:
    done = ask_gpufleet("plan", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"gpufleet: error: {told}")
