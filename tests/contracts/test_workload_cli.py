"""What `plan batch`, workload files with classes, and several models promise on the command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Planned, RunGpufleet

from gpufleet.cli import main
from gpufleet.table import SUCH_AS

Ask = Callable[..., tuple[int, str]]
BATCH = ("plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "1000", "--out", "200", "--deadline", "6h")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WIDEST = 80


@pytest.fixture
def ask(planned_once: Planned, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Exit code and standard output of a command line that must not complain."""

    def run(*words: str) -> tuple[int, str]:
        code = main(words)
        said = capsys.readouterr()
        assert said.err == ""
        return code, said.out

    return run


def as_json(ask: Ask, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ask(*words, "-o", "json")[1])
    return answer


def serve(example: str, *more: str) -> tuple[str, ...]:
    return ("plan", "serve", "--workload", str(EXAMPLES / example), *more)


QUESTIONS = {
    "batch": BATCH,
    "batch on spot": (*BATCH, "--pricing", "spot", "--clouds", "gcp", "--explain", "--show", "rejected"),
    "batch of a file": ("plan", "batch", "--workload", str(EXAMPLES / "nightly-summaries.yaml")),
    "classes": serve("chat-and-reports.yaml"),
    "office hours": serve("office-hours.yaml", "--explain"),
    "a trace": serve("bursts.yaml"),
    "three models": serve("three-models.yaml", "--explain"),
}


@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_the_answer_stands_in_the_first_sentence_and_nothing_exceeds_80_columns(
    ask: Ask, words: tuple[str, ...]
) -> None:
    code, text = ask(*words)
    assert code == 0
    assert "$" in text.split("\n\n")[0]
    assert max(map(len, text.splitlines())) <= WIDEST


@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_every_format_says_the_same(ask: Ask, words: tuple[str, ...]) -> None:
    answer = as_json(ask, *words)
    rows = list(csv.DictReader(io.StringIO(ask(*words, "-o", "csv")[1])))
    markdown = ask(*words, "-o", "md")[1]
    expected = answer.get("plans") or answer["deployments"]
    assert len(rows) == len(expected)
    assert answer["schema_version"]
    assert markdown.startswith("**")
    if "plans" in answer:
        assert [row["model"] for row in rows] == [plan["model"] for plan in expected]
    else:
        assert [row["instance"] for row in rows] == [d["instance"] for d in expected]


def test_a_batch_is_done_in_time_for_what_the_headline_says(ask: Ask) -> None:
    _, text = ask(*BATCH)
    plan = as_json(ask, *BATCH)
    best = plan["deployments"][0]
    sentence = " ".join(text.split("\n\n")[0].split())
    assert sentence.startswith("1,000,000 requests of llama-3.1-8b within 6.00 h: ")
    assert f"${best['usd']['value']:.2f}" in sentence
    assert best["finish_s"]["value"] <= plan["deadline_s"] == 6 * 3600


def test_a_plan_states_what_the_file_said_and_how_lengths_were_used(ask: Ask) -> None:
    plan = as_json(ask, *serve("chat-and-reports.yaml"))
    origins = {given["name"]: given["origin"] for given in plan["inputs"]}
    assert origins["class chat"] == origins["class reports"] == origins["spare machines"] == "file"
    assert set(plan["objectives"]) == {"chat.ttft.p95", "chat.tpot.p95", "reports.latency.p95"}
    assert plan["lengths_differ"]
    assert any("Prefix cache as stated" in note for note in plan["notes"])


def test_a_flag_replaces_the_value_of_a_file(ask: Ask) -> None:
    held = as_json(ask, *serve("office-hours.yaml", "--budget", "100000/mo", "--max-spot", "0%"))
    assert {d["price_kind"] for d in held["deployments"]} == {"on_demand"}
    assert {"given"} == {i["origin"] for i in held["inputs"] if i["name"] in ("budget", "most on spot")}


def test_a_trace_is_found_beside_its_file_and_its_bursts_are_told(ask: Ask) -> None:
    plan = as_json(ask, *serve("bursts.yaml"))
    assert any("its busiest stretch has 8.24/s, which is carried" in note for note in plan["notes"])
    assert plan["busiest_requests_per_s"] == pytest.approx(8.24, abs=0.005)
    given = {i["name"]: i["value"] for i in plan["inputs"]}
    assert given["input tokens"].startswith("mean ")


def test_over_the_budget_is_infeasible_and_says_what_the_cheapest_costs(ask: Ask) -> None:
    code, text = ask(*serve("office-hours.yaml", "--budget", "1/h"))
    assert code == 3
    assert "over the budget of $1.00/h ($730/mo) (cheapest: " in " ".join(text.split())
    code, text = ask(*serve("three-models.yaml", "--budget", "1/h"))
    assert code == 3
    assert "over the budget of $1.00/h" in " ".join(text.split())


@pytest.mark.parametrize("verb", ["plan serve", "plan batch", "plan train", "plan finetune", "mix", "regions"])
def test_a_workload_in_place_of_a_model_is_told_with_the_command_that_reads_it(
    verb: str, ask_gpufleet: RunGpufleet
) -> None:
    done = ask_gpufleet(*verb.split(), "my week.yaml")
    told = "a YAML file is no model; found 'my week.yaml'; expected a name, a config.json or its folder. "
    assert done.returncode == 2
    assert (
        f"{told}The file of a workload goes behind --workload: 'gpufleet {verb} --workload 'my week.yaml''."
        in done.stderr
    )


def test_a_workload_in_place_of_a_model_of_a_verb_that_reads_none_is_sent_to_one_that_does(
    ask_gpufleet: RunGpufleet,
) -> None:
    for words in (("fit", "w.yml"), ("estimate", "w.yml", "--gpus", "L4"), ("encode", "w.yml", "--gpus", "L4")):
        assert "'gpufleet plan serve --workload w.yml'" in ask_gpufleet(*words).stderr
    assert "'gpufleet compare A B --workload w.yml'" in ask_gpufleet("compare", "L4", "T4", "--model", "w.yml").stderr


@pytest.mark.parametrize("verb", ["plan serve", "plan batch", "plan train", "plan finetune", "mix", "regions"])
def test_a_missing_model_is_told_with_an_example_of_the_verb_itself(verb: str, ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*verb.split())
    assert done.returncode == 2
    assert f"MODEL is missing; expected a name or a config.json, as in '{SUCH_AS[verb]}'" in done.stderr


def test_a_file_of_another_question_is_told_by_the_verb_that_does_not_read_it(ask_gpufleet: RunGpufleet) -> None:
    for verb in ("mix", "regions"):
        done = ask_gpufleet(verb, "--workload", str(EXAMPLES / "lora-of-an-8b.yaml"))
        assert f"which '{verb}' does not read" in done.stderr


def test_flags_hold_for_every_model(ask: Ask) -> None:
    fleet = as_json(ask, *serve("three-models.yaml", "--headroom", "50%"))
    assert {plan["headroom_wanted_ratio"] for plan in fleet["plans"]} == {0.5}
    assert fleet["usd_per_hour"] <= fleet["usd_per_hour_apart"]


def test_no_machine_in_time_says_when_the_soonest_is_done(ask: Ask) -> None:
    code, text = ask(*BATCH, "--requests", "1B", "--max-machines", "1", "--show", "rejected")
    said = " ".join(text.split())
    assert code == 3
    assert "h with the headroom" in said
    assert "the cap of 1 machine" in said
