"""Several models for one load: each row is the model's own plan, more choice is never dearer, one message each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import gpufleet
from gpufleet import ModelComparison, ServeRequest
from gpufleet.ask.side_by_side.find import sureness
from gpufleet.ask.side_by_side.shape import ModelRow
from gpufleet.cli import main
from gpufleet.errors import UnknownName, UsageError
from gpufleet.results.levers import CertaintyPrice, CheapestThen
from gpufleet.results.plan import Deployment

Ask = Callable[..., tuple[int, str, str]]
MODELS = ["llama-3.3-70b", "qwen2.5-7b", "llama-3.1-8b"]
WORDS = {"rate": "4/s", "input_tokens": 500, "output_tokens": 100, "gpus": "L4,L40S", "clouds": "gcp,aws"}
LOAD = ("--rate", "4/s", "--in", "500", "--out", "100", "--gpus", "L4,L40S", "--clouds", "gcp,aws")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(scope="module")
def found() -> ModelComparison:
    return gpufleet.compare_models(MODELS, slo="ttft.p95<900ms", **WORDS)


def test_each_row_is_the_plan_of_its_model_alone(found: ModelComparison) -> None:
    for row in found.rows:
        plan = gpufleet.plan_serve(row.asked, slo="ttft.p95<900ms", **WORDS)
        own = json.loads(plan.to_json())
        assert json.loads(row.model_dump_json())["deployment"] == (own["deployments"] or [None])[0]
        assert (row.plan_hash, row.verdict, row.grade) == (own["input_hash"], own["verdict"], own["grade"])
        assert (row.num_parameters, row.certainty) == (plan.num_parameters, plan.certainty)
        assert [r.model_dump() for r in row.relaxations] == ([] if plan.deployments else own["relaxations"])


def test_the_cheapest_is_first_and_what_is_not_served_stays_with_its_reason(found: ModelComparison) -> None:
    costs = [row.usd_per_hour for row in found.rows]
    assert costs[:2] == sorted(costs[:2])
    assert (costs[2], found.rows[2].asked, found.rows[2].verdict) == (None, "llama-3.3-70b", "infeasible")
    assert found.rows[2].rejections
    assert found.rows[2].relaxations
    assert found.cheapest == found.rows[0]
    assert (found.is_feasible, found.exit_code, found.verdict) == (False, 3, "infeasible")


def test_more_choice_is_never_dearer() -> None:
    least = [gpufleet.compare_models(MODELS[:count], **WORDS).rows[0].usd_per_hour for count in (2, 3)]
    assert least[1] <= least[0]


def test_at_the_price_that_the_dearer_needs_it_costs_as_little(found: ModelComparison) -> None:
    first, other = gpufleet.compare_models(["llama-3.1-8b", "qwen3-14b"], **WORDS).rows
    assert other.deployment is not None
    at_that_price = other.wins_below_usd_per_hour * other.deployment.instance_count
    assert at_that_price == pytest.approx(first.usd_per_hour)
    assert first.wins_below_usd_per_hour is None
    assert other.dearer_ratio == pytest.approx(other.usd_per_hour / first.usd_per_hour - 1)


def row(found: ModelComparison, usd: float | None, *certain: float | None, gpu: str = "L4") -> ModelRow:
    """A row that costs so much, and as much at 50, 80 and 90 % confidence."""
    d = found.rows[0].deployment
    assert isinstance(d, Deployment)
    then = found.rows[0].certainty[0].winner
    assert isinstance(then, CheapestThen)
    told = [
        CertaintyPrice(confidence=at, winner=None if c is None else then.model_copy(update={"usd_per_hour": c}))
        for at, c in zip((0.5, 0.8, 0.9), certain, strict=False)
    ]
    known = [c for c in certain if c is not None]
    most = None if None in certain else max(known, default=usd)
    update = {
        "deployment": None if usd is None else d.model_copy(update={"gpu": gpu}), "usd_per_hour": usd,
        "certainty": told, "least_usd_per_hour": min(known, default=usd), "most_usd_per_hour": most,
    }  # fmt: skip
    return found.rows[0].model_copy(update=update)


def test_whether_the_cheaper_one_is_sure(found: ModelComparison) -> None:
    cheap = row(found, 1.0, 1.0, 1.0, 2.0)
    assert sureness([cheap, row(found, 3.0, 2.0, 3.0, 4.0, gpu="T4")]) == "sure"
    assert sureness([cheap, row(found, 1.5, 1.5, 1.5, 2.0, gpu="T4")]) == "open"
    assert sureness([cheap, row(found, 1.5, 1.5, 1.5, 2.0)]) == "shared"
    assert sureness([cheap, row(found, 1.5, 0.9, 1.5, 2.0)]) == "open"
    assert sureness([row(found, 1.0, 1.0, 1.0, None), row(found, 1.5, 1.5, 1.5, 2.0)]) == "open"
    assert sureness([cheap, row(found, 1.0, 1.0, 1.0, 1.0)]) == "equal"
    assert sureness([row(found, 1.0), row(found, 1.5)]) == "unasked"
    assert sureness([cheap, row(found, None)]) == "alone"
    assert sureness([row(found, None), row(found, None)]) == ""


@pytest.mark.parametrize(
    ("models", "kind", "told"),
    [
        (["llama-3.1-8b"], UsageError, "number of models"),
        ([f"model-{i}" for i in range(9)], UsageError, "number of models"),
        (["llama-3.1-8b", "nonesuch"], UnknownName, "nonesuch"),
        (["llama-3.1-8b", "Llama-3.1-8B"], UsageError, "beside itself"),
        (["llama-3.1-8b", "bge-m3"], UsageError, "bge-m3"),
    ],
)
def test_wrong_models_are_refused(models: list[str], kind: type[UsageError], told: str) -> None:
    with pytest.raises(kind, match=told):
        gpufleet.compare_models(models, **WORDS)


def test_models_are_asked_the_same_of_one_service() -> None:
    one = ServeRequest("llama-3.1-8b", 4.0, 500, 100)
    for other in (replace(one, model="qwen2.5-7b", rate=5.0), replace(one, model="qwen2.5-7b", disagg=True)):
        with pytest.raises(UsageError, match="different words"):
            gpufleet.compare_models([one, other])
    with pytest.raises(UsageError, match="of one model"):
        gpufleet.compare_models(["llama-3.1-8b", "qwen2.5-7b"], today="1 gcp:g2-standard-4", **WORDS)


def test_the_command_line_answers_as_python_does(ask: Ask, found: ModelComparison) -> None:
    code, out, err = ask("compare", *MODELS, *LOAD, "--slo", "ttft.p95<900ms", "-o", "json")
    assert (code, err) == (3, "")
    assert json.loads(out)["rows"] == json.loads(found.to_json())["rows"]


def test_a_csv_has_a_row_for_each_model(ask: Ask, found: ModelComparison) -> None:
    _, out, _ = ask("compare", *MODELS, *LOAD, "--slo", "ttft.p95<900ms", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [r["asked"] for r in rows] == [r.asked for r in found.rows]
    assert float(rows[0]["usd_per_hour"]) == pytest.approx(found.rows[0].usd_per_hour)
    first = found.rows[0].deployment
    assert first is not None
    assert float(rows[0]["ttft.p95_high_s"]) == pytest.approx(first.latency["ttft.p95"].high)
    assert (rows[2]["usd_per_hour"], rows[2]["ttft.p95_s"]) == ("", "")


def test_a_workload_says_the_load_of_all_and_its_own_model_gives_way(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("model: gpt2\nrate: 4/s\nin: 500\nout: 100\nclouds: [gcp]\ngpus: [L4]\n", encoding="utf-8")
    code, out, _ = ask("compare", *MODELS[1:], "--workload", str(file), "-o", "json")
    told = json.loads(out)
    assert (code, {r["asked"] for r in told["rows"]}) == (0, set(MODELS[1:]))
    assert {w["origin"] for w in told["question"] if w["word"] in ("rate", "in", "out", "gpus")} == {"file"}


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        (("llama-3.1-8b",), "found 1"),
        (("llama-3.1-8b", "H100"), "'H100'"),
        (("llama-3.1-8b", "plan.json"), "with another plan"),
        (("llama-3.1-8b", "bge-m3"), "bge-m3 is not a decoder"),
        (("llama-3.1-8b", "qwen2.5-7b", "--model", "gpt2"), "--model gpt2"),
        (("L4", "T4", "L40S", "--model", "gpt2"), "not two"),
    ],
)
def test_wrong_sides_get_one_message(ask: Ask, sides: tuple[str, ...], told: str) -> None:
    code, out, err = ask("compare", *sides, *LOAD)
    assert (code, out, err.count("gpufleet: error")) == (2, "", 1)
    assert told in err
