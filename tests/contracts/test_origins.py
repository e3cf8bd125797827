"""One rule for every verb: what somebody says is given, with its default too; what nobody says is not."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Any

import pytest

import gpufleet
from gpufleet.api import simulations
from gpufleet.api.mixes import plan_mix
from gpufleet.api.schedule import inputs_of as inputs_of_schedule
from gpufleet.api.spoken import spoken
from gpufleet.ask.spot import words as spot
from gpufleet.compat.rules_today import questions as rules
from gpufleet.compat.rules_today.memory import memory_answer
from gpufleet.inputs.jobs_file import read_jobs_file
from gpufleet.questions import autoscale, catalog, estimate, fields, mix, regions, schedule, simulation, training
from gpufleet.questions.words import Request, filled, words_of
from gpufleet.results.base import Input

MODULES = (autoscale, catalog, estimate, fields, mix, regions, rules, schedule, simulation, spot, training)
KNOWN = {k for m in MODULES for k in vars(m).values() if isinstance(k, type) and issubclass(k, Request)}
KINDS = sorted((k for k in KNOWN if not k.__subclasses__()), key=lambda kind: kind.__name__)
USUAL = [
    pytest.param(kind, row.field, row.default, id=f"{kind.__name__}.{row.field}")
    for kind in KINDS
    for row in words_of(kind).values()
    if row.field and row.default is not None and row.default is not False
]
JOBS = Path(__file__).resolve().parents[2] / "examples" / "jobs" / "lab-week.yaml"
SERVICE = gpufleet.ServeRequest("llama-3.1-8b", 5.0, 1000, 200, clouds=["aws"])


def made(kind: type[Request], /, **said: Any) -> Request:
    """A question with nothing said but what it cannot do without."""
    needed = {f.name: None for f in dataclasses.fields(kind) if f.default is f.default_factory is MISSING}
    return kind(**{**needed, **said})  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "field", "default"), USUAL)
def test_a_word_said_with_its_default_is_given(kind: type[Request], field: str, default: object) -> None:
    unsaid = made(kind)
    assert unsaid.origin(field) == "default"
    for said in (made(kind, **{field: default}), filled(unsaid, **{field: default})):
        assert said.origin(field) == "given"
        assert said == unsaid
        assert replace(said).origin(field) == "given"


def origins(inputs: list[Input]) -> dict[str, str]:
    return {row.name: row.origin for row in inputs}


def of_spot(**said: Any) -> list[Input]:
    job = {"work_s": "20h", "deadline_s": "30h", "spot_price": 0.97, "on_demand_price": 3.06}
    return gpufleet.plan_spot(**{**job, "draws": 20, **said}).inputs


def of_estimate(**said: Any) -> list[Input]:
    return gpufleet.estimate("llama-3.1-8b", "H100:1", input_tokens=1000, output_tokens=200, batch=4, **said).inputs


def of_fit(**said: Any) -> list[Input]:
    return gpufleet.fit("llama-3.1-8b", "H100:1", **said).inputs


def of_mix(**said: Any) -> list[Input]:
    return plan_mix(SERVICE, time_limit_s=0.0, **said).inputs


def of_simulation(**said: Any) -> list[Input]:
    return simulations.inputs_of(spoken(simulation.SimulationRequest, "llama-3.1-8b", said))


def of_schedule(**said: Any) -> list[Input]:
    asked = spoken(schedule.ScheduleRequest, str(JOBS), said)
    return inputs_of_schedule(asked, read_jobs_file(JOBS), 900.0)


def of_rule(**said: Any) -> list[Input]:
    return memory_answer(filled(rules.MemoryQuestion(), **said)).inputs


@pytest.mark.parametrize(
    ("asked", "name", "word", "default"),
    [
        (of_spot, "zones", "zones", 3),
        (of_spot, "machines", "machines", 1),
        (of_spot, "seed", "seed", 0),
        (of_estimate, "engine", "engine", "vllm"),
        (of_fit, "engine", "engine", "vllm"),
        (of_fit, "kv_precision", "kv_precision", "bf16"),
        (of_fit, "context_tokens", "context", "8k"),
        (of_mix, "routed by", "route_by", "prompt"),
        (of_mix, "shares of", "share_of", "cost"),
        (of_simulation, "routing", "route", "least_requests"),
        (of_schedule, "seed", "seed", 0),
        (of_rule, "batch", "batch", 4),
    ],
)  # fmt: skip
def test_an_answer_says_what_was_given(asked: Any, name: str, word: str, default: object) -> None:
    assert origins(asked())[name] == "default"
    assert origins(asked(**{word: default}))[name] == "given"


def test_a_trace_says_how_many_zones_there_are() -> None:
    zone = Path(__file__).resolve().parents[1] / "corpus" / "files" / "zone.json"
    [zones] = [row for row in of_spot(work_s="2h", deadline_s="6h", trace=str(zone)) if row.name == "zones"]
    assert (zones.value, zones.origin) == ("1", "file")
