"""One row per word: what is read is what the field holds, and options, keys and limits follow from the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields
from datetime import date
from typing import Any

import pytest
from typer.testing import CliRunner

from gpufleet.api.demands import checked_headroom, within_limits
from gpufleet.api.input_rows import slack_rows, stated_rows
from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.options import verb
from gpufleet.cli.plan_words import SaidWords, with_words
from gpufleet.domain.images import Images
from gpufleet.domain.workload import Workload
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import CLASS_KEYS, KEYS, MODEL_KEYS, WorkloadFile
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import Purse
from gpufleet.questions.fields import (
    BATCH,
    MODEL,
    SERVE,
    BatchRequest,
    EncoderServeRequest,
    ServeRequest,
    ServiceRequest,
    words_of,
)
from gpufleet.questions.words import RENTED, SHARE, WHOLE, Word, optional, said_by
from gpufleet.records import dataclass
from gpufleet.units import Bounds

EVERY_WORD = [
    pytest.param(q, row, id=f"{q.__name__}-{row.name}") for q in (*SERVE, *BATCH) for row in words_of(q).values()
]
SUCH_AS = {
    "SHARE": "30%", "N": "3", "N/TIME": "5/s", "TIME": "10h", "USD/TIME": "20/h", "USD": "500", "NAME,...": "aws",
    "KIND,...": "spot", "": "yes", "on|off": "on", "NxWxH": "1x64x64", "TOKENS": "8k", "NxrR": "r16",
    "SIZE": "20GiB",
}  # fmt: skip
READ_ALONE = [p for p in EVERY_WORD if p.values[1].field and not p.values[1].has_parts]
TYPES = {"float": float, "int": int, "str": str, "bool": bool, "Sequence[str]": Sequence, "Images": Images}


@pytest.mark.parametrize(("question", "row"), READ_ALONE)
def test_what_is_read_of_a_word_is_what_its_field_holds(question: type, row: Word[Any]) -> None:
    [held] = [f for f in fields(question) if f.name == row.field]
    kinds = tuple(TYPES[part] for part in str(held.type).split(" | ") if part in TYPES)
    assert isinstance(row.value_of(SUCH_AS.get(row.kind.metavar, "some words")), kinds)


@pytest.mark.parametrize(("question", "row"), [p for p in EVERY_WORD if p.values[1].bounds and p.values[1].what])
def test_a_number_out_of_range_is_refused_by_the_name_of_its_word(question: type, row: Word[Any]) -> None:
    with pytest.raises(UsageError) as refused:
        row.refuse_outside(row.bounds.most * 2 + 1)
    said = str(refused.value)
    assert row.name in said or row.name.replace("_", " ") in said


def test_a_limit_that_a_word_fills_is_one_of_the_solver() -> None:
    filled = {row.fills for row in words_of(*SERVE).values() if row.fills}
    assert filled <= {f.name for f in (*fields(Demand), *fields(Purse))}
    asked = ServeRequest(
        "m", 1.0, 10, 10, min_replicas=3, zones=2, spare_machines=1, max_spot=0.5, budget_usd_per_hour=9.0
    )
    demand = within_limits(Demand(Workload(10, 10, 1.0)), asked)
    assert (demand.min_replicas, demand.zones, demand.spare_machines) == (3, 2, 1)
    assert within_limits(Purse(), asked) == Purse(9.0, 0.5)
    assert within_limits(Purse(), ServeRequest("m", 1.0, 10, 10)) == Purse()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"min_replicas": 0}, "the number of replicas is out of range; found 0; expected from 1 to 10,000"),
        ({"spare_machines": -1}, "the number of spare machines is out of range"),
        ({"zones": 27}, "expected from 1 to 26"),
        ({"max_spot": 1.5}, "the spot share is out of range; found 1.5; expected from 0 to 1"),
        ({"headroom": float("nan")}, "the headroom is out of range; found nan; expected from 0 to 10 (1 = 100 %)"),
        ({"budget_usd_per_hour": 0.0}, "the budget is out of range"),
    ],
)
def test_a_value_out_of_the_range_of_its_word_is_refused(said: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_headroom(EncoderServeRequest("m", 1.0, **said))
    assert told in str(caught.value)


def test_an_unlimited_budget_is_none() -> None:
    assert checked_headroom(ServeRequest("m", 1.0, 10, 10, budget_usd_per_hour=float("inf"))) == 0.2


def test_what_was_said_is_recorded_and_nothing_else() -> None:
    said = ServeRequest("m", 1.0, 10, 10, zones=1, spare_machines=0, max_spot=0.25, confidence=0.9)
    assert slack_rows(said) == [
        ("confidence", "confidence", "0.9", True),
        ("spare machines", "spare_machines", "0", True),
        ("most on spot", "max_spot", "25% of the machines", True),
    ]
    assert stated_rows(BatchRequest("m", 1.0, 10, 10, 9.0), *BATCH[0].__mro__[:2]) == []


@dataclass(frozen=True, kw_only=True)
class MadeUpRequest(ServiceRequest):
    """A question with words that nobody else knows."""

    model: str = field(kw_only=False, metadata=said_by(MODEL))
    most_noise: float | None = optional(SHARE, "So much noise.", RENTED, name="max_noise", label="most noise")
    class_: int | None = optional(
        WHOLE, "A word of Python.", RENTED, name="class", what="the class", bounds=Bounds(1, 3, "")
    )


def test_a_new_word_is_an_option_a_value_and_an_input_by_its_row_alone() -> None:
    heard: list[Typed] = []
    app = verb()

    @app.command()
    @asking(MadeUpRequest, model=str)
    def made_up(asked: Typed) -> int:
        heard.append(asked)
        return 0

    done = CliRunner().invoke(app, ["--model", "m", "--max-noise", "30%", "--class", "2", "--clouds", "aws,gcp"])
    assert done.exit_code == 0, done.output
    [asked] = heard
    assert asked.words.words == {"model": "m", "max_noise": "30%", "class": "2", "clouds": ("aws", "gcp"), "rows": "10"}
    layers = SaidWords.of(
        asked.words,
        WorkloadFile({"zones": "2", "off_peak": "1/s", "max_noise": "1%"}),
        WorkloadFile({"engine": "vllm"}),
    )
    request = with_words(MadeUpRequest("m"), layers, MarketFlags(as_of="2026-08-31"))
    assert (request.most_noise, request.class_, request.clouds, request.zones) == (0.3, 2, ("aws", "gcp"), 2)
    assert (request.from_file, request.from_config, request.today) == (
        {"zones", "off_peak_rate"},
        {"engine"},
        date(2026, 8, 31),
    )
    assert stated_rows(request, MadeUpRequest) == [("most noise", "most_noise", "0.3", True)]


OF_TRAINING = {"tokens", "seq", "batch", "optimizer", "layout", "offload", "measured", "stack"} | {
    "method",
    "rank",
    "modules",
}


def test_keys_of_files_are_words_of_questions() -> None:
    """What only a command line says is no key; what holds for a whole fleet is no key of one of its models."""
    typed_only = {"rows", "workload", "kv_precision", "allow_lower_precision", "fractions", "max_machines", "disagg"}
    typed_only |= {"calibration"}
    assert typed_only == set(words_of(*SERVE, *BATCH)) - set(KEYS)
    of_the_whole = {"budget", "currency", "today", "models", "requests", "deadline", "startup", "every"}
    assert of_the_whole | OF_TRAINING == set(KEYS) - set(MODEL_KEYS)
    assert set(CLASS_KEYS) == {"rate", "share", "in", "out", "slo", "prefix_cache", "prefix_kv", "trace"}


@pytest.mark.parametrize(("questions", "heard"), [(SERVE, {"headroom", "clouds"}), (BATCH, {"clouds"})])
def test_a_preference_is_heard_by_questions_whose_word_takes_one(questions: Any, heard: set[str]) -> None:
    """The headroom of a service is capacity, that of a job is time."""
    told: list[Typed] = []
    app = verb()

    @app.command()
    @asking(*questions, model=str)
    def question(asked: Typed) -> int:
        told.append(asked)
        return 0

    preferred = {"headroom": "50%", "clouds": ["aws"]}
    done = CliRunner().invoke(app, ["--model", "m", "--engine", "vllm"], default_map=preferred)
    assert done.exit_code == 0, done.output
    assert set(told[0].preferred.words) == heard
    assert told[0].words.words == {"model": "m", "engine": "vllm", "rows": "10"}
