"""`gpufleet encode` as it is typed."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
BERT = ("encode", "bert-base", "--gpus", "T4", "--in", "128", "--batch", "32")
WHISPER = ("encode", "whisper-large-v3", "--gpus", "L4:2", "--audio", "30min", "--batch", "8")


def test_the_answer_says_rate_latency_memory_limit_and_grade(ask_gpufleet: Run) -> None:
    done = ask_gpufleet(*BERT)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    for said in (
        "sequences/s",
        "latency of a batch",
        "Binding limit: ",
        "Memory: fits",
        "109,482,240",
        "Grade transfer",
    ):
        assert said in done.stdout


def test_audio_is_told_in_seconds_per_second(ask_gpufleet: Run) -> None:
    done = ask_gpufleet(*WHISPER, "--explain")
    assert done.returncode == 0
    for said in ("s of audio/s", "real-time factor of one GPU", "latency of the recording", "attention to the encoder"):
        assert said in done.stdout
    assert "default: 4 tokens for a" in done.stdout


def test_every_format_tells_the_same_figures(ask_gpufleet: Run, tmp_path: Path) -> None:
    found = json.loads(ask_gpufleet(*BERT, "-o", "json").stdout)
    rows = list(csv.DictReader(ask_gpufleet(*BERT, "-o", "csv").stdout.splitlines()))
    assert found["schema_version"]
    assert float(rows[0]["value"]) == pytest.approx(found["latency_s"]["value"])
    assert found["batch"] / found["latency_s"]["value"] == pytest.approx(found["inputs_per_s"]["value"])
    assert ask_gpufleet(*BERT, "--out-file", "answer.md").returncode == 0
    assert "| latency of a batch |" in (tmp_path / "answer.md").read_text(encoding="utf-8")


def test_a_model_without_room_exits_3_and_says_so(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("encode", "t5-11b", "--gpus", "T4", "--in", "512", "--out", "20", "--batch", "1")
    assert done.returncode == 3
    assert "does not fit" in done.stdout


def test_an_encoder_asked_of_the_wrong_verb_names_the_right_one(ask_gpufleet: Run) -> None:
    for words in ("fit bert-base --gpus T4 --context 100", "estimate bert-base --gpus T4 --in 100 --out 10 --batch 1"):
        done = ask_gpufleet(*words.split())
        assert done.returncode == 2
        assert "gpufleet encode bert-base" in done.stderr


def test_the_catalog_says_of_every_model_what_it_is(ask_gpufleet: Run) -> None:
    rows = json.loads(ask_gpufleet("catalog", "models", "-o", "json").stdout)["rows"]
    kinds = {row["name"]: row["kind"] for row in rows}
    assert kinds["bert-base-uncased"] == "text encoder"
    assert kinds["whisper-large-v3"] == "speech encoder-decoder"
    assert kinds["t5-small"] == "encoder-decoder"
    assert kinds["clip-vit-large-patch14"] == "vision and text encoder"
    assert kinds["llama-3-8b"] == "decoder"
