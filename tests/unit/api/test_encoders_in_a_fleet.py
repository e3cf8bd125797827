"""Encoders beside models that write: one budget, one quota, one total."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path

import pytest

from gpufleet.api import EncoderServeRequest, ServeRequest, plan_encoder_serve, plan_serve
from gpufleet.api.comparisons import compare_plans
from gpufleet.api.fleets import FleetAnswer, plan_fleet
from gpufleet.api.plan_changes import explain_plan
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_terms import QUOTA_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.cli.plan_answers import fleet_answer
from gpufleet.cli.plan_words import ServeFlags
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import WorkloadFile, parse_workload
from gpufleet.report.fleet_plan import fleet_page, fleet_rows_page
from gpufleet.report.formats import as_json
from gpufleet.report.text import page_as_text

PLACE = {"clouds": ("aws",), "regions": ("us-east-1",), "gpus": ("L40S",)}
CHAT = ServeRequest("llama-3.1-8b", 30.0, 800, 200, "tpot.p95<40ms", **PLACE)
EMBED = EncoderServeRequest("bge-base-en-v1.5", 9000.0, input_tokens=200, slo="latency.p95<200ms", **PLACE)
SPEECH = EncoderServeRequest("whisper-large-v3", 20.0, **PLACE)
FILE = """
clouds: [aws]
regions: [us-east-1]
models:
  - {model: llama-3.1-8b, rate: 30/s, in: 800, out: 200, slo: tpot.p95<40ms}
  - {model: bge-base-en-v1.5, rate: 200/s, in: 200, slo: latency.p95<200ms}
  - {model: wav2vec2-base, rate: 5/s, audio: 10s}
"""


def within(directory: Path, quota: str) -> Catalog:
    (directory / "quotas.csv").write_text(",".join(QUOTA_COLUMNS) + "\n" + quota, encoding="utf-8")
    return load_catalog(directory, date(2026, 11, 21))


def of_file(text: str) -> FleetAnswer:
    written = parse_workload(text)
    return fleet_answer(WorkloadFile(), written, WorkloadFile(), ServeFlags())  # type: ignore[return-value]


def test_the_total_is_that_of_all_and_the_budget_holds_for_it() -> None:
    alone = [plan_serve(CHAT).answer, plan_encoder_serve(EMBED).answer, plan_encoder_serve(SPEECH).answer]
    fleet = plan_fleet([EMBED, CHAT, SPEECH], 1000.0)
    total = sum(d.usd_per_hour for d in alone)
    assert fleet.usd_per_hour == pytest.approx(total)
    assert [plan.answer for plan in fleet.encoder_plans] == alone[1:]
    assert fleet.is_feasible
    assert not plan_fleet([EMBED, CHAT, SPEECH], total - 0.01).is_feasible


def test_a_quota_is_shared_by_encoders_and_models_that_write(tmp_path: Path) -> None:
    chat, embed = plan_serve(CHAT).deployments, plan_encoder_serve(EMBED).deployments
    xlarge = [d.instance_count for d in (chat[0], embed[0]) if d.instance == "g6e.xlarge"]
    assert len(xlarge) == 2, "both take the same machines alone"
    quota = sum(xlarge) - 1
    fleet = plan_fleet([CHAT, EMBED], catalog=within(tmp_path, f"aws,us-east-1,g6e.xlarge,all,{quota}\n"))
    answers = fleet.plans[0].answer, fleet.encoder_plans[0].answer
    assert sum(d.instance_count for d in answers if d.instance == "g6e.xlarge") <= quota
    allowed = [
        one.usd_per_hour + other.usd_per_hour
        for one, other in product(chat, embed)
        if sum(d.instance_count for d in (one, other) if d.instance == "g6e.xlarge") <= quota
    ]
    assert fleet.usd_per_hour == pytest.approx(min(allowed))
    assert fleet.usd_per_hour == pytest.approx(sum(d.usd_per_hour for d in answers))
    assert "other models need them more" in page_as_text(fleet_page(fleet), 200)


def test_an_encoder_that_nothing_serves_leaves_no_total() -> None:
    fleet = plan_fleet([CHAT, replace(EMBED, slo="latency.p95<1us")])
    assert (fleet.unserved, fleet.usd_per_hour, fleet.is_feasible) == (["bert-base-uncased"], None, False)
    assert "bert-base-uncased: The smallest change that helps" in page_as_text(fleet_page(fleet), 80)


def test_a_file_names_them_side_by_side_and_the_page_shows_each() -> None:
    fleet = of_file(FILE)
    assert [plan.model for plan in fleet.every_plan] == ["llama-3.1-8b", "bert-base-uncased", "wav2vec2-base"]
    assert fleet.encoder_plans[1].audio_s == 10
    page = page_as_text(fleet_page(fleet, explain=True), 80)
    assert page.startswith("3 models together: $")
    for part in ("Why this one", "Latency with", "Rejected: "):
        assert f"wav2vec2-base: {part}" in page
    assert len(fleet_rows_page(fleet).tables[0].rows) == 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("rate: 200/s, in: 200", "rate: 200/s"), "bge-base-en-v1.5"),
        (("rate: 200/s, in: 200", "rate: 200/s, in: 200, out: 1"), "bge-base-en-v1.5"),
        (("in: 800, out: 200", "in: 800"), "llama-3.1-8b: --out is missing"),
        (("audio: 10s", "slo: ttft.p95<1s"), "wav2vec2-base is not a decoder"),
        (("in: 800", "audio: 10s, in: 800"), "llama-3.1-8b is a decoder"),
        (("regions: [us-east-1]", "regions: [ap-southeast-4]"), "llama-3.1-8b: no"),
    ],
)
def test_what_is_wrong_with_one_of_several_names_it_as_the_file_does(changed: tuple[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        of_file(FILE.replace(*changed))
    assert words in str(caught.value)


def test_a_plan_with_encoders_is_not_explained_or_compared_without_them(tmp_path: Path) -> None:
    fleet = plan_fleet([CHAT, EMBED])
    path = tmp_path / "fleet.json"
    path.write_text(as_json(fleet), encoding="utf-8")
    with pytest.raises(UsageError, match="bert-base-uncased"):
        explain_plan(path)
    with pytest.raises(UsageError, match="bert-base-uncased"):
        compare_plans(path, path)
