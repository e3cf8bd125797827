"""A command line answered in this process: nothing of this machine is read, and nothing is written."""

from __future__ import annotations

import builtins
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog.models import load_model_config
from gpufleet.cli.answered import answered
from gpufleet.files import PACKAGE

WORKLOAD = b"model: llama-3.1-8b\nrate: 1/s\nin: 500\nout: 100\n"
CONFIG = (
    b'{"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,'
    b' "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 2048}'
)


def test_an_answer_is_what_the_command_line_prints_and_its_result() -> None:
    got = answered(["fit", "llama-3.1-8b", "--gpus", "H100:1", "-o", "json"])
    assert (got.code, got.error) == (0, None)
    assert json.loads(got.text)["verdict"] == got.result.verdict == "fits"  # type: ignore[attr-defined]


def test_files_are_those_that_came_with_the_question() -> None:
    got = answered(["plan", "serve", "--workload", "w.yaml", "-o", "json"], {"w.yaml": WORKLOAD})
    assert json.loads(got.text)["model"] == "llama-3.1-8b"
    folder = answered(["fit", "mine", "--gpus", "L4:1"], {"mine/config.json": CONFIG})
    assert (folder.code, folder.text.split()[0]) == (0, "mine")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../etc/passwd", f"{PACKAGE}/../../../../../../etc/passwd", "~/w.yaml"]
)
def test_no_file_of_this_machine_is_named_by_a_question(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w.yaml").write_bytes(WORKLOAD)
    monkeypatch.setenv("HOME", str(tmp_path))
    got = answered(["plan", "serve", "--workload", name])
    assert got.code == 2
    assert got.error is not None
    assert "no such file" in got.error.problem


def test_further_files_are_handed_over_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["estimate", "llama-3.1-8b", "--gpus", "L4:1", "--in", "100", "--out", "10", "--batch", "1"]
    got = answered([*words, "--picture", "roof.svg", "--out-file", "answer.json"])
    assert set(got.files) == {"roof.svg"}
    assert got.files["roof.svg"].startswith("<svg")
    assert json.loads(got.text)["model"] == "llama-3.1-8b"
    assert not os.listdir(tmp_path)


def test_nothing_is_opened_outside_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really_open: Any = builtins.open

    def watched(file: Any, *how: Any, **further: Any) -> Any:
        opened.append(str(file))
        return really_open(file, *how, **further)

    monkeypatch.setattr(builtins, "open", watched)
    answered(["fit", "mine/config.json", "--gpus", "L4:1"], {"mine/config.json": CONFIG})
    answered(["fit", "/etc/hostname", "--gpus", "L4:1"])
    answered(["plan", "serve", "--workload", "w.yaml"], {"w.yaml": WORKLOAD})
    assert [name for name in opened if not name.startswith(PACKAGE)] == []


def test_what_is_wrong_is_told_with_its_parts() -> None:
    got = answered(["fit", "llama-3.1-8", "--gpus", "H100:1"])
    assert got.code == 2
    assert got.error is not None
    assert "Did you mean" in (got.error.hint or "")
    assert (got.text, got.result) == ("", None)


def test_preferences_hold_where_they_are_said_to_be_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('engine = "sglang"\n')
    monkeypatch.setenv("GPUFLEET_CONFIG", str(mine))
    words = ["plan", "serve", "llama-3.1-8b", "--rate=1/s", "--in=500", "--out=100", "--gpus=L4", "-o", "json"]
    got = answered(words, own=[str(mine)])
    inputs = {row["name"]: row["value"] for row in json.loads(got.text)["inputs"]}
    assert (got.code, inputs["engine"].split()[0]) == (0, "sglang")
    assert answered(["fit", f"{mine}.json", "--gpus=L4:1"], own=[str(mine)]).code == 2


def test_what_would_change_an_old_plan_is_asked_of_its_file() -> None:
    words = ["plan", "serve", "llama-3.1-8b", "--rate=5/s", "--in=500", "--out=100", "--gpus=L4,L40S", "-o", "json"]
    plan = answered(words)
    again = answered(["explain", "p.json", "--flips", "-o", "json"], {"p.json": plan.text.encode()})
    assert again.code == 0
    assert json.loads(again.text)["input_hash"] == json.loads(plan.text)["input_hash"]
    assert {flip["quantity"] for flip in json.loads(again.text)["flips"]} > {"price"}
    beside = answered(["explain", "p.json", "--flips", "--check"], {"p.json": plan.text.encode()})
    assert (beside.code, beside.error and beside.error.found) == (2, "--check")


def test_a_config_that_came_alone_stands_in_no_folder() -> None:
    config = json.dumps(load_model_config("qwen2.5-0.5b")).encode()
    got = answered(["fit", "config.json", "--gpus=L4", "-o", "json"], {"config.json": config})
    launch = json.loads(got.text)["launch"]
    assert launch["arguments"][2] == "path/to/config.json"
    assert "Put the hub id" in launch["notes"][0]
