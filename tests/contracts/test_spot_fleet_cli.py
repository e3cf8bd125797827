"""`gpufleet spot --fleet`: which rows of today's fleet could move, what that saves, and why others stay."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import gpufleet
from gpufleet.api.spot_fleet import fleet_on_spot
from gpufleet.errors import GpufleetError
from gpufleet.inputs.spot_fleet_file import read_spot_fleet
from gpufleet.results.spot_fleet import SpotFleet

Run = Callable[..., "subprocess.CompletedProcess[str]"]
FLEET = """
fleet:
  - {name: chat, machines: 3 aws:g5.xlarge@1.01/h, runs: service, restart: 10min}
  - {name: alone, machines: 1 aws:g5.xlarge, runs: service}
  - {name: tuned, machines: 1 aws:g5.xlarge@1.01/h, runs: training, work: 20h, deadline: 30h, restart: 12min}
  - {name: unsaved, machines: 2 aws:g5.xlarge, runs: training, checkpoints: off}
  - {name: cheap, machines: 2 aws:g5.xlarge@0.10/gpu/h, runs: batch, work: 20h, deadline: 30h}
  - {name: unsold, machines: 2 aws:p4d.24xlarge, runs: service}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> SpotFleet:
    """One answer in Python."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    return fleet_on_spot(fleet=str(path), draws=20)


def test_machines_move_where_that_saves_and_others_stay_with_a_reason(fleet: SpotFleet) -> None:
    rows = {row.name: row for row in fleet.rows}
    assert [name for name, row in rows.items() if row.saved_usd_per_hour > 0] == ["chat"]
    assert [name for name, row in rows.items() if row.saved_usd_per_run > 0] == ["tuned"], "20 h of work is one run"
    assert rows["alone"].why_not.startswith("one machine that serves")
    assert rows["unsaved"].why_not.startswith("without checkpoints")
    assert rows["unsold"].why_not.startswith("no price of both spot and on demand is known")
    assert rows["cheap"].why_not.startswith("spot with what stands in for it costs more")
    assert rows["chat"].short_ratio == pytest.approx(0.01, abs=0.015)
    assert rows["tuned"].late_ratio == pytest.approx(0.0, abs=0.051)
    assert rows["alone"].price is not None
    assert rows["alone"].price.source, "a price that nobody typed is that of a list, with its source"
    known = [row.usd_per_hour for row in fleet.rows if row.usd_per_hour is not None and row.usd_per_run is None]
    assert fleet.usd_per_hour == pytest.approx(sum(known))
    assert SpotFleet.model_validate_json(fleet.model_dump_json()) == fleet


def test_a_job_of_the_fleet_saves_what_the_same_job_does_alone(fleet: SpotFleet) -> None:
    """Of the price that is paid, where on demand alone is counted at its cheapest."""
    row = next(row for row in fleet.rows if row.name == "tuned")
    plan = gpufleet.plan_spot(machine="aws:g5.xlarge", work_s="20h", deadline_s="30h", restart_s="12min", draws=20)
    hours = plan.alone.usd / plan.alone.price.usd_per_hour
    assert row.saved_ratio is not None
    assert row.saved_ratio.value == pytest.approx(1 - plan.answer.usd.value / (hours * 1.01))


def test_the_page_has_eighty_columns_and_what_the_former_documents_state(tmp_path: Path, run_gpufleet: Run) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("\n".join(FLEET.splitlines()[:4]), encoding="utf-8")
    done = run_gpufleet("spot", "--fleet", str(path), "--draws", "20")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    page = " ".join(done.stdout.split())
    for said in (
        "Move 3 machines of 1 of 2 rows to spot",
        "50%-90%",
        "elsewhere 60-70%",
        "short ",
        "stays: one machine",
    ):
        assert said in page


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read the fleet"),
        (
            "fleet: [{name: a, machines: 2 aws:g5.xlarge, runs: batch}, "
            "{name: a, machines: 1 aws:g6.xlarge, runs: batch}]",
            "two rows of one name",
        ),
        ("fleet: []", "cannot read the fleet"),
        ("fleet: [a]", "row 1 is no list of words"),
        ("rows: []", "cannot read the fleet"),
        ("fleet: [{machines: 2 aws:g5.xlarge}]", "does not say runs"),
        ("fleet: [{runs: service}]", "does not say machines"),
        ("fleet: [{machines: 2 aws:g5.xlarge, runs: a shop}]", "cannot be read"),
        ("fleet: [{machines: 0 aws:g5.xlarge, runs: service}]", "out of range"),
        ("fleet: [{machines: 2 aws:g5.xlarge + 1 aws:g6.xlarge, runs: service}]", "several types"),
        ("fleet: [{machines: 2 aws:g5.xlarge, runs: service, color: red}]", "unknown word"),
        ("fleet: [{machines: 2 aws:g5.xlarge, runs: service, target: {a: b}}]", "words below a word"),
    ],
)
def test_a_broken_fleet_has_one_message(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GpufleetError, match=said):
        read_spot_fleet(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("machines: 2 aws:p99.large, runs: service", "unknown instance"),
        ("machines: 2 aws:g5.xlarge, runs: service, target: 200%", "2 aws:g5.xlarge: target"),
        ("machines: 2 aws:g5.xlarge, runs: training, work: long", "work"),
        ("machines: 2 aws:g5.xlarge, runs: service, deadline: 3h", "asked about as a job"),
    ],
)
def test_a_row_that_means_nothing_has_one_message(row: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"fleet: [{{{row}}}]", encoding="utf-8")
    with pytest.raises(GpufleetError, match=said):
        fleet_on_spot(fleet=str(path), draws=20)


@pytest.mark.parametrize("words", [("plan.json",), ("--rules", "rules.json")])
def test_a_fleet_is_asked_about_alone(words: tuple[str, ...], tmp_path: Path, run_gpufleet: Run) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    done = run_gpufleet("spot", *words, "--fleet", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
