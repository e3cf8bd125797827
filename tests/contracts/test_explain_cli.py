"""`gpufleet estimate --explain` and `--roofline` as they are typed."""

from __future__ import annotations

import csv
import json
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
QUESTION = ("estimate", "llama-3.3-70b", "--gpus", "H100:8", "--tp", "8", "--in", "1000", "--out", "1000")
LOADED = (*QUESTION, "--concurrency", "64")
SAID = (
    "Decode step on each of 8 GPUs", "bandwidth  H100-SXM bf16", "/ 3.35 TB/s + 2 µs) x", "what makes the TPOT",
    "prompts of other requests", "Prefill on each of 8 GPUs", "/ 989 Tflop/s", "To be faster", "fp8 weights",
)  # fmt: skip


def test_the_step_is_shown_in_microseconds_with_formula_bound_and_source(ask_gpufleet: Run) -> None:
    done = ask_gpufleet(*LOADED, "--explain")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    for said in SAID:
        assert said in done.stdout


def test_layers_of_stages_are_summed_not_each_gpus(ask_gpufleet: Run) -> None:
    done = ask_gpufleet(*QUESTION, "--tp", "4", "--pp", "2", "--concurrency", "64", "--explain")
    assert "Decode step on 2 stages of 4 GPUs, summed: 64 sequences" in done.stdout
    assert "Prefill on 2 stages of 4 GPUs, summed: 1 prompt" in done.stdout
    assert "\n  80 x " in done.stdout


def test_the_same_is_in_the_json_where_it_is_asked_for(ask_gpufleet: Run) -> None:
    bare, explained = (
        json.loads(ask_gpufleet(*LOADED, "-o", "json", *more).stdout)["explanation"] for more in ((), ("--explain",))
    )
    assert bare is None
    assert sum(o["share_ratio"] for o in explained["decode"]["operations"]) == pytest.approx(1.0)
    assert explained["decode"]["operations"][0]["bound"] == "bandwidth"


def test_a_csv_of_an_explained_estimate_has_a_row_for_every_operation(ask_gpufleet: Run) -> None:
    done = ask_gpufleet(*LOADED, "--explain", "-o", "csv")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    explained = json.loads(ask_gpufleet(*LOADED, "--explain", "-o", "json").stdout)["explanation"]
    for step in ("decode", "prefill"):
        found = [row for row in rows if row["step"] == step]
        assert [row["name"] for row in found] == [o["name"] for o in explained[step]["operations"]]
        assert sum(float(row["seconds"]) for row in found) == pytest.approx(explained[step]["kernels_s"])
    assert rows[0]["shape"] == "[64 x 8192] [8192 x 7168]"


def test_a_csv_of_an_estimate_holds_its_figures(ask_gpufleet: Run) -> None:
    rows = list(csv.DictReader(ask_gpufleet(*LOADED, "-o", "csv").stdout.splitlines()))
    assert [row["figure"] for row in rows][:2] == ["TTFT", "TPOT"]


def test_the_picture_is_written_beside_the_answer(ask_gpufleet: Run, tmp_path: Path) -> None:
    done = ask_gpufleet(*LOADED, "--roofline", "--picture", "roof.svg")
    assert done.returncode == 0
    assert done.stderr == "wrote roof.svg\n"
    assert "Roofline of one GPU" in done.stdout
    assert ElementTree.fromstring((tmp_path / "roof.svg").read_text(encoding="utf-8")).tag.endswith("svg")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--picture", "out.txt"), "expected a file name that ends in .svg"),
        (("--picture", "-"), "expected a file name that ends in .svg"),
        (("--picture", "nowhere/roof.svg"), "no such folder"),
        (("--picture", "a.svg", "--out-file", "a.svg", "-o", "json"), "another answer goes there"),
        (("--picture", ""), "--picture has no value"),
        (("--roofline", "out.svg"), "out.svg"),
        (("--picture", "x" * 300 + ".svg"), "cannot write"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_pictures_that_cannot_be_written_are_refused_before_the_work(
    ask_gpufleet: Run, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    done = ask_gpufleet(*LOADED, *more)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())
