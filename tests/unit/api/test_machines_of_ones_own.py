"""Machines that somebody has, said in one line, and what stands between an answer and its machines."""

from __future__ import annotations

import json

import pytest

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.api.encoder_services import plan_encoder_serve
from gpufleet.api.fits_of_machines import fit_all
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.device_notes import device_notes, load_device_notes
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.spoken_machines import parse_spoken, with_owned
from gpufleet.cli import main
from gpufleet.errors import UnknownName, UsageError


def owned_plan(owned: str, **more: object):
    return plan_serve(ServeRequest("qwen3-32b", 1.0, 1000, 200, owned=[owned], **more))


def test_machines_are_read_as_people_say_them() -> None:
    assert parse_spoken("2 x 8 RTX-4090")[:3] == (2, 8, "RTX-4090")
    assert parse_spoken("2x8x RTX-4090")[:3] == (2, 8, "RTX-4090")
    assert parse_spoken("8 RTX-4090")[:3] == (1, 8, "RTX-4090")
    assert parse_spoken("L40S")[:3] == (1, 1, "L40S")
    assert parse_spoken("4 x A100-80GB at $0.12/kWh") == (1, 4, "A100-80GB", 0.12)


@pytest.mark.parametrize("text", ["", "8x4090", "0 x 8 L40S", "2 x 0 L40S", "2 x 99999 L40S", "x", "at 0.1/kWh", "8 x"])
def test_what_names_no_machines_is_refused_with_an_example(text: str) -> None:
    with pytest.raises((UsageError, UnknownName)):
        with_owned(load_catalog(), (text,))


def test_own_machines_cost_the_electricity_of_their_boards() -> None:
    plan = owned_plan("2 x 8 RTX-4090 at 0.20/kWh")
    d, watts = plan.answer, load_catalog().accelerators["RTX-4090"].board_power_watts
    assert (d.cloud, d.gpu, d.price_kind) == ("own", "RTX-4090", "owned")
    assert d.price_per_instance_usd_per_hour == pytest.approx(8 * watts / 1000 * 0.20)
    assert any("hosts, cooling and purchase are left out" in note for note in plan.notes)
    assert not any("/kWh (say" in note for note in plan.notes)


def test_an_unsaid_price_of_electricity_is_a_judgement_that_the_page_names() -> None:
    plan, usual = owned_plan("8 RTX-4090"), load_habits().electricity_usd_per_kwh
    assert usual.low < usual.value < usual.high
    assert any(f"at ${usual.value:.2f}/kWh" in note for note in plan.notes)


def test_no_more_machines_are_used_than_there_are() -> None:
    crowded = owned_plan("1 x 8 RTX-4090", gpus=["RTX-4090"], clouds=["own"])
    assert crowded.answer.instance_count == 1
    busy = plan_serve(ServeRequest("qwen3-32b", 200.0, 1000, 200, owned=["1 x 8 RTX-4090"], clouds=["own"]))
    assert not busy.deployments


def test_encoders_run_on_them_too() -> None:
    plan = plan_encoder_serve("bge-base-en-v1.5", rate="100/s", input_tokens=128, owned="2 x RTX-4090", clouds="own")
    assert plan.answer.cloud == "own"


@pytest.mark.slow
def test_what_my_machines_can_serve_is_what_fits_one_of_them() -> None:
    small, large = fit_all("1 x 1 RTX-4090"), fit_all("2 x 8 RTX-4090")
    users = {row.model: row.users for row in large.rows}
    assert {row.model for row in small.rows} < set(users)
    assert all(row.users <= users[row.model] for row in small.rows)
    assert "llama-3.3-70b" in users
    assert "kimi-k2" not in users
    assert all(row.users == row.users_per_machine * 2 for row in large.rows)


@pytest.mark.slow
def test_the_command_lists_models_and_one_machine_stands_for_its_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--owned", "2 x 8 RTX-4090", "--all-models", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["num_models"] >= len(told["rows"]) > 100
    assert main(["fit", "llama-3.1-8b", "--owned", "2 x 8 RTX-4090"]) == 0
    assert "8x RTX-4090" in capsys.readouterr().out
    for wrong in (["fit"], ["fit", "--all-models"], ["fit", "x", "--owned", "L40S", "--all-models"],
                  ["fit", "llama-3.1-8b", "--gpus", "L4", "--owned", "L4"]):  # fmt: skip
        assert main(wrong) == 2
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_more_gpus_than_are_easily_had_carry_a_note_with_its_alternative() -> None:
    asked = {"input_tokens": 1000, "output_tokens": 300, "slo": "tpot.p95<40ms"}
    many = plan_serve("llama-3.3-70b", rate="300/s", **asked)
    [note] = [note for note in many.notes if "seldom had without a reservation" in note]
    assert f"{many.answer.instance_count * many.answer.gpus_per_instance:,.0f}x {many.answer.gpu}" in note
    for plan in (
        plan_serve("llama-3.3-70b", rate="2/s", **asked),
        plan_serve("llama-3.3-70b", rate="300/s", easily_had=100_000, **asked),
    ):
        assert not any("seldom had" in note for note in plan.notes)


def test_arm_hosts_and_dropped_cards_are_said() -> None:
    devices = load_catalog().accelerators
    assert "arm64" in device_notes(devices["GH200-96GB"])[0]
    assert "CUDA 13 dropped Volta" in device_notes(devices["V100-SXM2-16GB"])[0]
    assert device_notes(devices["H100-SXM"]) == []
    assert {name for row in load_device_notes() for name in row.get("accelerators", ())} <= set(devices)


def test_a_measured_row_at_the_same_price_is_pointed_to() -> None:
    plan = plan_serve(ServeRequest("llama-3.1-8b", 1.0, 1000, 200, gpus=["GH200", "H100"], rows=40))
    said = [note for note in plan.notes if "costs the same and its GPU was measured" in note]
    same = [
        d for d in plan.deployments[1:] if d.grade == "measured" and d.usd_per_hour <= plan.answer.usd_per_hour * 1.01
    ]
    assert bool(said) == (plan.answer.grade != "measured" and bool(same))
