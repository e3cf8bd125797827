"""Folders that files to run are written into: whole or not at all, over nobody's files, and compared without harm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

import gpufleet
from gpufleet import ServePlan
from gpufleet.cli import main

IMAGE = "registry.example/engine:1"


@lru_cache
def plan() -> ServePlan:
    """A service on machines of AWS."""
    asked = {"rate": "20/s", "input_tokens": 1000, "output_tokens": 200, "clouds": ["aws"], "gpus": ["L40S"]}
    return gpufleet.plan_serve("llama-3.1-8b", **asked)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try in a folder of its own, with a plan in it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("plan.json").write_text(plan().to_json(), encoding="utf-8")


def below(folder: str) -> dict[str, bytes]:
    """All files of a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, in one line."""
    said = capsys.readouterr()
    return " ".join((said.out + said.err).split())


def folder_in_the_way(out: Path) -> None:
    (out / "README.md").mkdir(parents=True)


def deep_folder_in_the_way(out: Path) -> None:
    (out / "manifests" / "service.yaml" / "x").mkdir(parents=True)


def file_in_the_way(out: Path) -> None:
    out.mkdir()
    (out / "manifests").write_text("mine", encoding="utf-8")


def link_that_leads_out(out: Path) -> None:
    out.mkdir()
    Path("elsewhere").mkdir()
    (out / "manifests").symlink_to("../elsewhere")


def pipe_in_the_way(out: Path) -> None:
    out.mkdir()
    os.mkfifo(out / "gpufleet.json")


@pytest.mark.parametrize(
    "prepare", [folder_in_the_way, deep_folder_in_the_way, file_in_the_way, link_that_leads_out, pipe_in_the_way]
)
@pytest.mark.parametrize("verb", ["deploy", "alerts"])
def test_what_stands_in_the_way_is_said_before_anything_is_written(
    verb: str, prepare: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(Path("out"))
    before = below(".")
    code = main([verb, "plan.json", "--out", "out", "--force"])
    if verb == "alerts" and prepare in (deep_folder_in_the_way, file_in_the_way, link_that_leads_out):
        assert code == 0, "its files stand elsewhere"
        return
    assert code == 2
    assert below(".") == before
    assert told(capsys).count("gpufleet: error: ") == 1


def test_a_link_in_the_folder_is_replaced_and_what_it_leads_to_is_left() -> None:
    Path("out").mkdir()
    Path("victim").write_text("mine", encoding="utf-8")
    Path("out/README.md").symlink_to("../victim")
    assert main(["deploy", "plan.json", "--out", "out", "--force"]) == 0
    assert Path("victim").read_text(encoding="utf-8") == "mine"
    assert not Path("out/README.md").is_symlink()


def test_files_of_somebody_else_are_named_because_commands_take_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/manifests/older").mkdir(parents=True)
    for name in ("out/manifests/older/deployment.yaml", "out/notes.txt", "out/.hidden"):
        Path(name).write_text("kind: Old\n", encoding="utf-8")
    Path("out/manifests/service.yaml").write_text("kind: Old\n", encoding="utf-8")
    said = ["deploy", "plan.json", "--out", "out"]
    assert main(said) == 2
    capsys.readouterr()
    assert main([*said, "--force", "-o", "json"]) == 0
    notes = " ".join(json.loads(capsys.readouterr().out)["notes"])
    assert "manifests/older/deployment.yaml" in notes
    assert "notes.txt" in notes
    assert "manifests/service.yaml" not in notes
    assert b"kind: Old" not in below("out")["manifests/service.yaml"]


def test_a_folder_with_hidden_files_alone_is_full_and_can_be_written_when_told_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("out/.git").mkdir(parents=True)
    assert main(["deploy", "plan.json", "--out", "out"]) == 2
    assert main(["deploy", "plan.json", "--out", "out", "--force"]) == 0
    assert Path("out/.git").is_dir()
    assert "Not of this plan" not in told(capsys)


def test_an_empty_folder_stays_the_one_that_it_is() -> None:
    """A shell that stands in it has not lost its place, and who may read it is as before."""
    Path("out").mkdir(mode=0o700)
    os.chdir("out")
    inode = Path(".").stat().st_ino
    assert main(["deploy", "../plan.json", "--out", "."]) == 0
    assert Path("../out").stat().st_ino == inode
    assert Path("../out").stat().st_mode & 0o777 == 0o700
    assert Path("README.md").is_file()


@pytest.mark.parametrize(
    "more", [("--out", "new"), ("-o", "json"), ("--out", "new", "--force")], ids=lambda words: " ".join(words)
)
@pytest.mark.parametrize("verb", ["deploy", "alerts"])
def test_a_patch_is_asked_for_alone(verb: str, more: tuple[str, ...]) -> None:
    Path("old").mkdir()
    assert main([verb, "plan.json", "--diff", "old", *more]) == 2
    assert not Path("new").exists()


def test_force_without_a_folder_means_nothing() -> None:
    assert main(["deploy", "plan.json", "--force"]) == 2


def test_a_patch_goes_where_it_is_told_to_and_shows_every_file_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "plan.json", "--image", IMAGE, "--out", "old"]) == 0
    for name in ("router.cfg", "stop.sh", "README.old.md"):
        Path("old", name).write_text("of before", encoding="utf-8")
    assert main(["deploy", "plan.json", "--image", IMAGE, "--diff", "old", "--out-file", "patch.txt"]) == 0
    patch = Path("patch.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in patch if line.startswith("--- ")] == [
        f"--- old/{name}" for name in ("README.old.md", "router.cfg", "stop.sh")
    ]
    assert patch.count("-of before") == patch.count("\\ No newline at end of file") == 3


def test_nothing_of_an_old_folder_moves_the_cursor_or_forges_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old").mkdir()
    Path("old/a\n+++ b.yaml").write_text("x: \x1b[31m\u202e\n", encoding="utf-8")
    assert main(["deploy", "plan.json", "--diff", "old"]) == 0
    shown = capsys.readouterr().out
    assert not {"\x1b", "\u202e"} & set(shown)
    assert "+++ b.yaml" not in shown.splitlines()


UNTOLD = [("-o", "svg"), *(("--out-file", name) for name in ("x.pdf", "none/x.json", "new", "plan.json"))]


@pytest.mark.parametrize("words", UNTOLD, ids=" ".join)
@pytest.mark.parametrize("verb", ["deploy", "alerts"])
def test_no_folder_is_left_by_an_answer_that_cannot_be_told(verb: str, words: tuple[str, ...]) -> None:
    before = below(".")
    assert main([verb, "plan.json", "--out", "new", *words]) == 2
    assert below(".") == before


OVER_IT = [
    *(("deploy",), ("alerts",), ("watch", "--prometheus", "http://127.0.0.1:1"), ("deploy", "--diff", ".")),
    ("autoscale", "--trace", "rates.csv", "--policy", "static"),
]


@pytest.mark.parametrize("words", OVER_IT, ids=" ".join)
def test_no_answer_goes_over_the_plan_that_it_is_of(words: tuple[str, ...]) -> None:
    before = below(".")
    assert main([words[0], "plan.json", *words[1:], "--out-file", "plan.json"]) == 2
    assert below(".") == before
