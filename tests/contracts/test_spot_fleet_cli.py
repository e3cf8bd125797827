"""`gpufleet spot --fleet`: which rows of today's fleet could move, what that saves, and why others stay."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import cases

import gpufleet
from gpufleet.ask.spot.fleet import fleet_on_spot
from gpufleet.ask.spot.fleet_file import read_spot_fleet
from gpufleet.ask.spot.fleet_shape import SpotFleet
from gpufleet.ask.spot.job_shape import WORTH_RATIO
from gpufleet.errors import GpufleetError
from gpufleet.results.plan import ServePlan

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


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of which nothing but its machines is asked here."""
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="20/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<2s", gpus="L40S", clouds="aws"
    )
    path = tmp_path_factory.mktemp("planned") / "plan.json"
    path.write_text(plan.model_dump_json(), encoding="utf-8")
    return path


@settings(max_examples=cases(3, 30))
@given(
    machines=st.integers(1, 4),
    spot_usd=st.sampled_from([0.2, 0.5, 0.8, 0.95, 0.999, 1.3]),
    target=st.sampled_from([0.9, 0.95, 0.99, 0.999]),
    zones=st.integers(1, 6),
    restart=st.sampled_from(["1min", "3min", "12min"]),
)
def test_a_row_of_the_fleet_and_the_plan_of_that_service_agree(
    plan_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
    machines: int,
    spot_usd: float,
    target: float,
    zones: int,
    restart: str,
) -> None:
    """Whether it may run on spot, why it may not, what that saves and how long it is short."""
    folder, plan = tmp_path_factory.mktemp("agree"), ServePlan.model_validate_json(plan_file.read_bytes())
    answer = plan.answer.model_copy(
        update={
            "instance_count": machines,
            "replicas": machines,
            "usd_per_hour": machines * plan.answer.price_per_instance_usd_per_hour,
        }
    )
    file, fleet = folder / "plan.json", folder / "fleet.yaml"
    file.write_text(
        plan.model_copy(update={"deployments": [answer], "objectives": {}}).model_dump_json(), encoding="utf-8"
    )
    said = {"spot_price": spot_usd, "on_demand_price": 1.0, "zones": zones, "target": target}
    words = f"spot_price: {spot_usd}/h, on_demand_price: 1.0/h, zones: {zones}, target: {target}, restart: {restart}"
    fleet.write_text(
        f"fleet: [{{machines: {machines} aws:g6e.xlarge@1.0/h, runs: service, {words}}}]", encoding="utf-8"
    )
    planned = gpufleet.plan_spot_service(file, restart_s=restart, draws=20, **said)
    [row] = fleet_on_spot(fleet=str(fleet), draws=20).rows
    moves = not planned.why_not and planned.saved_ratio > WORTH_RATIO
    assert (not row.why_not) == moves == (planned.answer.policy.floor < machines and planned.saved_ratio > WORTH_RATIO)
    assert (row.saved_usd_per_hour > 0) == moves
    if machines == 1:
        assert planned.why_not == row.why_not
        assert planned.answer.usd_per_hour.value == pytest.approx(1.0)
        return
    assert row.saved_ratio is not None
    assert row.saved_ratio.value == pytest.approx(planned.saved_ratio)
    assert row.short_ratio == pytest.approx(1 - planned.answer.attained.value)


def test_the_page_has_eighty_columns_and_what_the_former_documents_state(tmp_path: Path, ask_gpufleet: Run) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("\n".join(FLEET.splitlines()[:4]), encoding="utf-8")
    done = ask_gpufleet("spot", "--fleet", str(path), "--draws", "20")
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
        ("machines: 2 aws:g5.xlarge, runs: service, deadline: 3h", "found '--deadline'"),
    ],
)
def test_a_row_that_means_nothing_has_one_message(row: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"fleet: [{{{row}}}]", encoding="utf-8")
    with pytest.raises(GpufleetError, match=said):
        fleet_on_spot(fleet=str(path), draws=20)


@pytest.mark.parametrize("words", [("plan.json",), ("--rules", "rules.json")])
def test_a_fleet_is_asked_about_alone(words: tuple[str, ...], tmp_path: Path, ask_gpufleet: Run) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    done = ask_gpufleet("spot", *words, "--fleet", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
