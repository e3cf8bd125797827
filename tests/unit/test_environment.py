"""Environments that make sets up: in tested versions, in the lowest ones, and without a network."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tools import environment
from tools.floors import EXTRAS, floor, floors, requirements

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PINNED = [
    Requirement(line)
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
NO_NAME = (
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(\"Failed to establish a new "
    "connection: [Errno -3] Temporary failure in name resolution\")': /simple/hatchling/\n"
    "ERROR: Could not find a version that satisfies the requirement hatchling>=1.27 (from versions: none)\n"
)
NO_WHEEL = "ERROR: No matching distribution found for numpy==2.4.6\n"
Answers = Callable[..., list[list[str]]]


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """An installer that complains of these things, one after the other; what it was asked is returned."""

    def answering(*complaints: str) -> list[list[str]]:
        asked: list[list[str]] = []

        def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            complaint = complaints[len(asked)]
            asked.append(command)
            return subprocess.CompletedProcess(command, 1 if complaint else 0, "", complaint)

        monkeypatch.setattr(environment.subprocess, "run", run)
        return asked

    return answering


def test_the_tested_versions_are_installed(installer: Answers) -> None:
    asked = installer("")
    environment.install("there", "--editable", ".[dev]")
    assert asked[0][-4:] == ["--constraint", "constraints.txt", "--editable", ".[dev]"]


def test_where_a_tested_version_has_no_wheel_the_newest_are_installed(
    installer: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = installer(NO_WHEEL, "")
    environment.install("there", ".")
    assert "--constraint" not in asked[1]
    assert capsys.readouterr().err.endswith(
        "Not every version of constraints.txt installs on this Python: the newest instead.\n"
    )


def test_without_a_network_one_sentence_says_so(installer: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    asked = installer(NO_NAME)
    with pytest.raises(SystemExit) as stop:
        environment.install("there", ".")
    assert str(stop.value.code).startswith("No package index answers, so there cannot be set up: ")
    assert "\n" not in str(stop.value.code)
    assert "WARNING" not in capsys.readouterr().err
    assert len(asked) == 1


def test_what_else_goes_wrong_is_told_as_it_is(installer: Answers) -> None:
    installer(NO_WHEEL, NO_WHEEL)
    with pytest.raises(SystemExit) as stop:
        environment.install("there", ".")
    assert stop.value.code == NO_WHEEL


def test_the_lowest_versions_are_installed_or_nothing_is(installer: Answers) -> None:
    asked = installer(NO_WHEEL)
    with pytest.raises(SystemExit):
        environment.install_under("lowest.txt", "there", ".")
    assert asked[0][-3:] == ["--constraint", "lowest.txt", "."]


def test_every_requirement_names_its_lowest_version() -> None:
    assert len({floor(needed) for needed in requirements(*EXTRAS)}) > 5
    assert all(line.count("==") == 1 for line in floors(requirements(*EXTRAS)))


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_once_within_its_bounds_on_every_python(python: str) -> None:
    here = {"python_version": python}
    pinned = {p.name: p for p in PINNED if p.marker is None or p.marker.evaluate(here)}
    assert len(pinned) == len([p for p in PINNED if p.marker is None or p.marker.evaluate(here)])
    for needed in requirements(*EXTRAS, "dev", "docs"):
        if needed.marker is None or needed.marker.evaluate(here):
            (version,) = (part.version for part in pinned[needed.name.lower()].specifier)
            assert needed.specifier.contains(version), needed
