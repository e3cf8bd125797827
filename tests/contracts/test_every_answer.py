"""The table of questions: every row names what is there, and every answer has the same rights."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contracts.test_seed_training import trained
from tools.stub import PAGE, page, stubs

import gpufleet
from gpufleet.api.plan_basis import request_words
from gpufleet.catalog.load import load_catalog
from gpufleet.cli.asking import Typed
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import WorkloadFile
from gpufleet.questions.fit import FitRequest
from gpufleet.results.answer import Answer, shape_of
from gpufleet.table import HOMES, QUESTIONS, SHAPES, resolved

MODEL = "llama-3.1-8b"
LOAD = {"input_tokens": 500, "output_tokens": 100}
ON_L4 = {**LOAD, "gpus": ["L4"], "clouds": ["gcp"]}
JOBS = "slot: 1h\npools: {lab: {gpu: L4, gpus: 4}}\njobs: [{name: a, work: 4h}, {name: b, work: 2h}]\n"
LLAMA = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
BENCHMARK = Path(__file__).resolve().parents[2] / "examples" / "benchmarks" / "qwen3-0.6b-h100.csv"
DAY = "t_s,rate_rps\n0,2\n43200,8\n86400,2\n"


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Answer]:
    """The answer of each question, asked once."""
    folder: Path = tmp_path_factory.mktemp("answers")
    asked: dict[str, Answer] = {}

    def kept(name: str, answer: Answer) -> str:
        path = folder / f"{name}.json"
        path.write_text(answer.to_json(), encoding="utf-8")
        return str(path)

    def answer(name: str) -> Answer:
        if name not in asked:
            asked[name] = EXAMPLES[name](answer, kept, folder)
        return asked[name]

    return answer


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


Example = Callable[[Callable[[str], Answer], Callable[[str, Answer], str], Path], Answer]
EXAMPLES: dict[str, Example] = {
    "fit": lambda *_: gpufleet.fit(MODEL, "L4:1", "4k", precision="fp8"),
    "fit_training": lambda *_: gpufleet.fit_training(MODEL, "RTX-4090", "qlora", rank=8),
    "calibrate_stack": lambda *_: gpufleet.calibrate_stack([BENCHMARK]),
    "estimate": lambda *_: gpufleet.estimate(MODEL, "L4:1", batch=2, engine="vllm", **LOAD),
    "estimate_encoder": lambda *_: gpufleet.estimate_encoder("bge-base-en-v1.5", "L4", input_tokens=128),
    "estimate_training": lambda *_: trained("gpt2", "L4:1").found,
    "plan_serve": lambda *_: gpufleet.plan_serve(MODEL, rate="4/s", slo="tpot.p95<100ms", headroom="30%", **ON_L4),
    "plan_encoder_serve": lambda *_: gpufleet.plan_encoder_serve(
        "bge-base-en-v1.5", rate="300/s", input_tokens=128, gpus=["L4"], slo="latency.p95<50ms"
    ),
    "plan_fleet": lambda *_: gpufleet.plan_fleet([gpufleet.ServeRequest(MODEL, 4.0, 500, 100, gpus=["L4"])]),
    "plan_batch": lambda *_: gpufleet.plan_batch(MODEL, requests="100k", deadline="24h", **ON_L4),
    "plan_encoder_batch": lambda *_: gpufleet.plan_encoder_batch(
        "bge-base-en-v1.5", requests="10M", deadline="24h", input_tokens=128, gpus=["L4"]
    ),
    "plan_train": lambda *_: gpufleet.plan_train("gpt2", tokens="100M", gpus=["L4:1"]),
    "plan_finetune": lambda *_: gpufleet.plan_finetune("gpt2", tokens="10M", method="lora", gpus=["L4:1"]),
    "plan_mix": lambda *_: gpufleet.plan_mix(
        gpufleet.ServeRequest(MODEL, 4.0, 500, 100, gpus=["L4"], clouds=["gcp"]), route_by="prompt", time_limit_s=0.0
    ),
    "plan_regions": lambda *_: gpufleet.plan_regions(
        gpufleet.ServeRequest(MODEL, 4.0, 500, 100, gpus=["L4"], clouds=["gcp"]), users=["germany"], time_limit_s=0.0
    ),
    "plan_job_regions": lambda ask, kept, _: gpufleet.plan_job_regions(kept("job", ask("plan_batch")), clouds=["gcp"]),
    "plan_spot": lambda *_: gpufleet.plan_spot(
        work="10h", deadline="24h", machine=["aws:g5.xlarge"], zones=3, draws=20
    ),
    "plan_spot_service": lambda ask, kept, _: gpufleet.plan_spot_service(
        kept("service", ask("plan_serve")), draws=20, zones=2
    ),
    "autoscale": lambda ask, kept, folder: gpufleet.autoscale(
        kept("service", ask("plan_serve")),
        written(folder, "day.csv", DAY),
        cold_start_s=60.0,
        policies=["static", "hpa"],
    ),
    "simulate_serving": lambda *_: gpufleet.simulate_serving(MODEL, "L4:1", rate="1/s", requests=20, seed=3, **LOAD),
    "compare": lambda *_: gpufleet.compare(gpufleet.ServeRequest(MODEL, 4.0, 500, 100), "L4", "L40S"),
    "compare_models": lambda *_: gpufleet.compare_models([MODEL, "qwen2.5-7b"], rate="4/s", **ON_L4),
    "compare_plans": lambda ask, kept, _: gpufleet.compare_plans(*[kept("service", ask("plan_serve"))] * 2),
    "deploy_plan": lambda ask, kept, _: gpufleet.deploy_plan(kept("service", ask("plan_serve")), "kubernetes"),
    "watch_plan": lambda ask, kept, _: gpufleet.watch_plan(kept("service", ask("plan_serve")), "prometheus"),
    "explain_plan": lambda ask, kept, _: gpufleet.explain_plan(kept("service", ask("plan_serve"))),
    "plan_schedule": lambda _a, _k, folder: gpufleet.plan_schedule(written(folder, "jobs.yaml", JOBS), steps=0),
    "replay_schedule": lambda _a, _k, folder: gpufleet.replay_schedule(
        written(folder, "jobs.yaml", JOBS), online=["fifo"], seed=2
    ),
}
TYPED = {
    "plan_serve": {"rate", "slo", "headroom", "in", "out", "gpus", "clouds", "model"},
    "compare_models": {"models", "rate", "in", "out", "gpus", "clouds"},
    "plan_spot": {"work", "deadline", "machine", "zones", "draws"},
    "plan_mix": {"route_by", "time_limit", "rate", "in", "out", "gpus", "clouds", "model"},
    "simulate_serving": {"model", "gpus", "rate", "requests", "seed", "in", "out"},
    "estimate": {"model", "gpus", "batch", "engine", "in", "out"},
    "fit": {"model", "gpus", "context", "precision"},
    "fit_training": {"model", "gpus", "method", "rank"},
    "estimate_encoder": {"model", "gpus", "in"},
    "autoscale": {"plan", "trace", "cold_start", "policy"},
}
WITHOUT_MONEY = {
    "calibrate_stack", "fit", "fit_training", "estimate", "estimate_training",
    "plan_schedule", "replay_schedule",
}  # fmt: skip
UNGRADED = {"plan_schedule", "replay_schedule"}
GRADES = {"measured", "transferred", "roofline", "seed rule"}
QUESTION = pytest.mark.parametrize("question", [row.function for row in QUESTIONS])


def test_rows_name_what_is_there() -> None:
    assert set(EXAMPLES) == {row.function for row in QUESTIONS}, "EXAMPLES asks each question of the table once"
    assert {shape for row in QUESTIONS for shape in row.shapes} == set(SHAPES)
    for row in QUESTIONS:
        assert callable(getattr(gpufleet, row.function))
    for shape in SHAPES.values():
        assert issubclass(getattr(gpufleet, shape.name), Answer)
        assert all(callable(resolved(page)) for page in (shape.page, shape.rows) if page)
    assert sorted(HOMES) == gpufleet.__all__


def test_stubs_and_the_page_of_functions_are_made_from_the_table() -> None:
    made = {**stubs(), PAGE: page()}
    old = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not old, f"{', '.join(old)}: a word or a question changed; python -m tools.stub writes them again"


@QUESTION
def test_every_answer_says_what_it_rests_on(ask: Callable[[str], Answer], question: str) -> None:
    answer = ask(question)
    row = next(row for row in QUESTIONS if row.function == question)
    assert shape_of(type(answer)).name in row.shapes
    assert len(answer.input_hash) == 16
    assert answer.verdict
    assert answer.exit_code == 0
    priced = bool(answer.price_sources)
    assert priced is (question not in WITHOUT_MONEY), "WITHOUT_MONEY names the questions whose answers have no prices"
    assert answer.grade in GRADES or question in UNGRADED, "UNGRADED names the questions whose answers predict nothing"


@QUESTION
def test_every_answer_shows_itself(
    ask: Callable[[str], Answer], question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ask(question)
    told = json.loads(answer.to_json())
    assert {word["origin"] for word in told["question"]} <= {"given", "default", "file", "preference"}
    assert type(answer).model_validate(json.loads(answer.to_json())).input_hash == answer.input_hash
    assert "<" in answer._repr_html_()
    assert answer.why()
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows, columns: (columns, rows)))
    columns, rows = answer.to_df()
    assert all(len(row) == len(columns) for row in rows)


def test_a_picture_is_plotted_where_there_is_one(ask: Callable[[str], Answer]) -> None:
    assert ask("compare_models").plot()._repr_svg_().startswith("<svg")
    assert ask("plan_batch").plot()._repr_svg_().startswith("<svg")
    with pytest.raises(UsageError, match="no picture"):
        ask("fit").plot()


@pytest.mark.parametrize("question", TYPED)
def test_what_was_said_is_given_and_nothing_else_is(ask: Callable[[str], Answer], question: str) -> None:
    words = ask(question).question
    assert {word.word for word in words if word.origin == "given"} == TYPED[question]


def test_what_is_preferred_or_usual_was_not_said() -> None:
    typed, liked = WorkloadFile({"gpus": "L4", "rank": "8"}), WorkloadFile({"engine": "sglang"})
    answer = gpufleet.fit(Typed(typed, liked).request(FitRequest, MODEL))
    origins = {"model": "given", "gpus": "given", "context": "default", "engine": "preference"}
    assert {word.word: word.origin for word in answer.question} == origins
    assert {row.name: row.origin for row in answer.inputs}["engine"] == "preference"
    trained_usually = gpufleet.fit_training(MODEL, "RTX-4090", sequence_tokens="2k", layout="recompute=full")
    said = {word.word: (word.value, word.origin) for word in trained_usually.question}
    assert said["method"] == ("lora", "default")
    assert said["seq"] == (2048.0, "given")


def test_the_folder_of_a_model_is_told_by_what_it_holds_and_not_by_where_it_is(tmp_path: Path) -> None:
    told = []
    for at, layers in (("here", 32), ("there", 32), ("else", 16)):
        folder = tmp_path / at / "mine"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({**LLAMA, "num_hidden_layers": layers}), encoding="utf-8")
        told.append(gpufleet.fit(f"{folder}/", "L4:1"))
    assert told[0].question[0].value["file"] == "mine"
    assert told[0].input_hash == told[1].input_hash != told[2].input_hash


@pytest.mark.parametrize(
    "ask",
    [
        lambda: gpufleet.fit(MODEL),
        lambda: gpufleet.fit(MODEL, "L4", 0),
        lambda: gpufleet.fit(MODEL, "L4", batch=0),
        lambda: gpufleet.fit_training(MODEL),
        lambda: gpufleet.fit_training(MODEL, "L4", rank=0),
        lambda: gpufleet.estimate_encoder("bge-base-en-v1.5"),
        lambda: gpufleet.estimate_encoder("bge-base-en-v1.5", "L4", input_tokens="100..300"),
    ],
)
def test_a_word_that_is_missing_or_out_of_range_is_refused_in_python_too(ask: Callable[[], Answer]) -> None:
    with pytest.raises(UsageError):
        ask()


def test_the_same_question_has_the_same_hash_and_another_has_another() -> None:
    one, same, other = (gpufleet.fit(MODEL, "L4:1", context) for context in ("4k", "4k", "8k"))
    assert one.input_hash == same.input_hash != other.input_hash


def test_another_price_of_the_same_source_and_day_is_another_hash() -> None:
    tables = load_catalog()
    doubled = tuple(offer.at_price_ratio(2.0) for offer in tables.offers)
    was, now = (
        gpufleet.fit("llama-3.3-70b", "L4:1", catalog=each) for each in (tables, replace(tables, offers=doubled))
    )
    assert was.price_sources == now.price_sources != []
    assert was.input_hash != now.input_hash


SERVICE = {"rate": "4/s", "in": "500", "out": "100", "gpus": "L4,L40S", "clouds": "gcp"}
REQUEST = gpufleet.ServeRequest(MODEL, 4.0, 500.0, 100.0, gpus=["L4", "L40S"], clouds=["gcp"])


@pytest.mark.parametrize(
    ("by_option", "by_field"),
    [
        (
            lambda: gpufleet.fit_training(MODEL, "RTX-4090", seq="2k", modules="q,v"),
            lambda: gpufleet.fit_training(MODEL, "RTX-4090", sequence_tokens=2048.0, modules=["q", "v"]),
        ),
        (
            lambda: gpufleet.estimate_encoder("bge-base-en-v1.5", "L4", **{"in": "128"}),
            lambda: gpufleet.estimate_encoder("bge-base-en-v1.5", "L4", input_tokens=128.0),
        ),
        (
            lambda: gpufleet.compare(MODEL, "L4", "L40S", **SERVICE),
            lambda: gpufleet.compare(REQUEST, "L4", "L40S"),
        ),
        (
            lambda: gpufleet.plan_mix(MODEL, quota="L4=8,L40S=4", time_limit="0", **SERVICE),
            lambda: gpufleet.plan_mix(REQUEST, quotas=["L4=8", "L40S=4"], time_limit_s=0.0),
        ),
        (
            lambda: gpufleet.plan_regions(MODEL, users="eu=60%,us=40%", year="2024", time_limit="0", **SERVICE),
            lambda: gpufleet.plan_regions(REQUEST, users=["eu=60%", "us=40%"], year=2024, time_limit_s=0.0),
        ),
    ],
)
def test_a_word_is_called_as_its_option_or_as_its_field(
    by_option: Callable[[], Answer], by_field: Callable[[], Answer]
) -> None:
    assert by_option().to_json() == by_field().to_json()


def test_words_of_one_service_are_of_no_several() -> None:
    with pytest.raises(UsageError, match="'headroom'"):
        gpufleet.plan_mix([REQUEST, REQUEST], headroom=0.5)


def test_what_a_plan_rests_on_holds_nothing_that_nobody_said() -> None:
    assert REQUEST.notes == ()
    asked = replace(REQUEST, notes=[], from_config=frozenset())
    assert request_words(asked) == request_words(REQUEST)
