"""What `gpufleet plan serve` and `gpufleet estimate` promise to a capacity planner."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli import main
from gpufleet.report.numbers import significant

Ask = Callable[..., tuple[int, str]]
QUESTION = ("plan", "serve", "llama-3.3-70b", "--rate", "50/s", "--in", "1000", "--out", "300")
SLO = ("--slo", "ttft.p95<500ms,tpot.p95<40ms,latency.p95<30s")
IMPOSSIBLE = ("--slo", "ttft.p95<50ms,tpot.p95<4ms")
ESTIMATE = ("estimate", "llama-3.3-70b", "--gpus", "H100:8", "--in", "1000", "--out", "1000")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "llama-3.3-70b-chat.yaml"
ANSWER_BUDGET_S = 1.5


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
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


def test_the_answer_stands_in_the_first_sentence_and_nothing_exceeds_80_columns(ask: Ask) -> None:
    code, text = ask(*QUESTION, *SLO)
    best = as_json(ask, *QUESTION, *SLO)["deployments"][0]
    sentence = " ".join(text.split("\n\n")[0].split())
    assert code == 0
    asked = "llama-3.3-70b at 50 requests/s, 1,000 tokens in (p95 2,931 as in published traces), 300 out (p95 791): "
    assert sentence.startswith(f"{asked}{best['instance_count']}x {best['cloud']}")
    assert f"${best['usd_per_hour']:,.2f}/h" in sentence
    assert f"${best['usd_per_month']:,.0f}/mo" in sentence
    assert f"${best['usd_per_million_output_tokens']:.2f} per 1M output tokens" in sentence
    assert max(map(len, text.splitlines())) <= 80


RANKED = ", one row per machine type"


def test_the_parts_come_in_the_order_in_which_they_are_read(ask: Ask) -> None:
    brief, text = ask(*QUESTION, *SLO)[1], ask(*QUESTION, *SLO, "--show", "limits,prices")[1]
    screen = ["Why this one", RANKED, "To start a replica", "Rejected: ", "Assumed: ", "Price: ", "Ask on: "]
    assert [brief.index(part) for part in screen] == sorted(brief.index(part) for part in screen)
    parts = [
        "Latency with",
        "Why this one",
        RANKED,
        "Rejected: ",
        "Assumed: ",
        "Prices, never live: ",
        "Hash",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_one_row_is_marked_without_colour(ask: Ask) -> None:
    text = ask(*QUESTION, *SLO)[1]
    assert len([line for line in text.splitlines() if line.startswith("> 1")]) == 1
    assert "\x1b" not in text


def test_money_adds_up(ask: Ask) -> None:
    plan = as_json(ask, *QUESTION, *SLO)
    assert plan["deployments"]
    for d in plan["deployments"]:
        assert d["usd_per_hour"] == pytest.approx(d["instance_count"] * d["price_per_instance_usd_per_hour"])
        assert d["usd_per_month"] == pytest.approx(d["usd_per_hour"] * 730)
        assert d["usd_per_request"] * 50 * 3600 == pytest.approx(d["usd_per_hour"])
        assert d["usd_per_million_output_tokens"] * 50 * 300 * 3600 / 1e6 == pytest.approx(d["usd_per_hour"])
        assert d["price_per_gpu_usd_per_hour"] * d["gpus_per_instance"] == pytest.approx(
            d["price_per_instance_usd_per_hour"]
        )
        assert d["replicas"] * d["gpus_per_replica"] + d["idle_gpus"] == d["instance_count"] * d["gpus_per_instance"]


def test_every_row_keeps_the_objectives_and_the_headroom(ask: Ask) -> None:
    plan = as_json(ask, *QUESTION, *SLO, "--headroom", "30%", "--min-replicas", "3")
    for d in plan["deployments"]:
        assert all(d["latency"][name]["value"] <= limit_s for name, limit_s in plan["objectives"].items())
        assert d["headroom_ratio"] >= 0.3
        assert d["replicas"] >= 3
    counted = [d["usd_per_hour"] * d["price_age_ratio"] * d["doubt_ratio"] for d in plan["deployments"]]
    assert counted == sorted(counted)


def test_replicas_that_only_the_user_wanted_are_not_blamed_on_a_limit(ask: Ask) -> None:
    words = ("plan", "serve", "llama-3.1-8b", "--rate", "1/min", "--in", "1000", "--out", "100", "--gpus", "L4")
    assert as_json(ask, *words)["deployments"][0]["binding_limit"] == "one replica is enough"
    several = as_json(ask, *words, "--min-replicas", "3", "--clouds", "gcp")["deployments"]
    assert several[0]["binding_limit"] in ("the minimum number of replicas", "one machine is enough")
    assert "no limit is near" in " ".join(ask(*words, "--min-replicas", "3", "--clouds", "gcp")[1].split())


def test_a_tight_row_breaks_an_objective_at_its_high_end_and_no_other_does(ask: Ask) -> None:
    plan = as_json(ask, *QUESTION, *SLO, "--rows", "40")
    for d in plan["deployments"]:
        high = {name: float(figure["high"]) for name, figure in d["latency"].items()}
        breaks = any(high[name] > limit_s for name, limit_s in plan["objectives"].items())
        assert d["is_tight"] is (breaks or math.inf in high.values())


def test_csv_holds_the_rows_of_json_with_prices_of_machine_and_gpu_apart(ask: Ask) -> None:
    rows = list(csv.DictReader(io.StringIO(ask(*QUESTION, *SLO, "-o", "csv")[1])))
    deployments = as_json(ask, *QUESTION, *SLO)["deployments"]
    assert [r["instance"] for r in rows] == [d["instance"] for d in deployments]
    for row, d in zip(rows, deployments, strict=True):
        for key in ("usd_per_hour", "price_per_instance_usd_per_hour", "price_per_gpu_usd_per_hour"):
            assert float(row[key]) == d[key]
        stated = d["price_as_of"] if d["price_first_seen"] is None else ""
        assert (row["price_source"], row["price_as_of"]) == (d["price_source"], stated)
        assert row["price_first_seen"] == (d["price_first_seen"] or "")
        assert row["largest_batch"].isdigit()
        assert float(row["tpot.p95_high_s"]) == d["latency"]["tpot.p95"]["high"]


def test_markdown_has_the_columns_that_a_narrow_page_leaves_out(ask: Ask) -> None:
    text = ask(*QUESTION, *SLO, "-o", "md")[1]
    assert "| region |" in text
    assert "…" not in text


def test_spot_prices_that_were_estimated_are_marked(ask: Ask) -> None:
    words = (*QUESTION, "--pricing", "spot", "--clouds", "aws")
    plan = as_json(ask, *words)
    assert {d["price_basis"] for d in plan["deployments"]} == {"estimated"}
    best, text = plan["deployments"][0]["usd_per_hour"], " ".join(ask(*words)[1].split())
    assert f"spot: ~${significant(float(f'{best:.1e}'), 2)}/h" in text
    assert f"> 1 ~${best:,.2f} " in text


def test_latency_is_stated_without_any_objective(ask: Ask) -> None:
    code, text = ask(*QUESTION)
    assert code == 0
    assert all(f"{name} " in text for name in ("ttft.p95", "tpot.p95", "latency.p95"))
    assert "No objective was asked for" in text


def test_a_proposed_relaxation_is_enough_when_it_is_asked_for(ask: Ask) -> None:
    code, text = ask(*QUESTION, *IMPOSSIBLE)
    every = as_json(ask, *QUESTION, *IMPOSSIBLE)["relaxations"]
    assert code == 3
    assert ": no machine on offer meets every objective." in text.replace("\n", " ")
    needed = [r for r in every if r["needed_s"] is not None]
    assert needed
    limits = {"ttft.p95": "50ms", "tpot.p95": "4ms"} | {r["limit"]: r["needed"].replace(" ", "") for r in needed}
    assert ask(*QUESTION, "--slo", ",".join(f"{name}<{limit}" for name, limit in limits.items()))[0] == 0


def test_what_fits_nowhere_is_said_to_be_short_of_memory(ask: Ask) -> None:
    code, text = ask(*QUESTION, "--gpus", "T4")
    assert code == 3
    assert "does not fit in memory (nearest: " in " ".join(text.split("\n\n")[0].split())


def test_all_rejections_are_shown_on_request(ask: Ask) -> None:
    reasons = as_json(ask, *QUESTION, *SLO)["rejections"]
    short, full = (" ".join(ask(*QUESTION, *SLO, *more)[1].split()) for more in ((), ("--show", "rejected")))
    assert reasons[-1]["best"] in full
    assert "(--show rejected)" in short
    assert "(--show rejected)" not in full


def test_a_file_asks_the_same_as_its_flags(ask: Ask) -> None:
    typed, written = as_json(ask, *QUESTION, *SLO), as_json(ask, "plan", "serve", "--workload", str(EXAMPLE))
    assert written["input_hash"] == typed["input_hash"]
    assert written["deployments"] == typed["deployments"]
    assert {i["name"]: i["origin"] for i in written["inputs"]}["rate"] == "file"
    assert {i["name"]: i["origin"] for i in typed["inputs"]}["rate"] == "given"


def test_a_flag_and_the_positional_model_replace_what_the_file_says(ask: Ask) -> None:
    plan = as_json(ask, "plan", "serve", "llama-3.1-8b", "--workload", str(EXAMPLE), "--rate", "60/min")
    origins = {i["name"]: (i["value"], i["origin"]) for i in plan["inputs"]}
    assert origins["model"][0] == plan["model"] == "llama-3.1-8b"
    assert origins["rate"] == ("1/s", "given")
    assert origins["output tokens"] == ("300", "file")


def test_explain_lists_every_input_with_its_origin_and_the_formulas(ask: Ask) -> None:
    text = ask(*QUESTION, *SLO, "--explain")[1]
    inputs = as_json(ask, *QUESTION, *SLO)["inputs"]
    lines = text.splitlines()
    assert all(any(line.startswith(i["name"]) and line.endswith(i["origin"]) for line in lines) for i in inputs)
    assert "rate per replica x (prefill + output tokens x TPOT(B))" in text


def test_requests_beyond_the_models_context_are_warned_of(ask: Ask) -> None:
    warning = "above the 131,072 that llama-3.1-8b was made for"
    tail = ("plan", "serve", "llama-3.1-8b", "--in", "mean=20k,p95=150k", "--out", "100", "--rate", "1/s")
    assert warning in " ".join(ask(*tail, "--gpus", "L40S")[1].split())
    lone = ("estimate", "llama-3.1-8b", "--in", "150k", "--out", "100", "--gpus", "H100:1", "--batch", "1")
    assert warning in " ".join(ask(*lone)[1].split())


def test_a_plan_for_requests_that_the_model_does_not_take_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("plan", "serve", "llama-3.1-8b", "--in", "150k", "--out", "100", "--rate", "1/s")) == 2
    assert "expected at most 131,072, which it was made for" in " ".join(capsys.readouterr().err.split())


def test_lower_precision_says_what_it_costs_in_quality(ask: Ask) -> None:
    assert "arXiv:2411.02355" in ask(*QUESTION, *SLO, "--allow-lower-precision")[1]


def test_the_answer_is_there_within_its_budget(processor_s: Callable[..., float]) -> None:
    assert processor_s(*QUESTION, *SLO, budget_s=ANSWER_BUDGET_S) < ANSWER_BUDGET_S


@pytest.mark.parametrize("load", [("--concurrency", "64"), ("--rate", "2/s"), ("--batch", "32"), ("--full-queue",)])
def test_an_estimate_under_any_load_says_latency_and_throughput_first(load: tuple[str, ...], ask: Ask) -> None:
    code, text = ask(*ESTIMATE, *load)
    sentence = " ".join(text.split("\n\n")[0].split())
    assert code == 0
    assert all(word in sentence for word in ("8x H100-SXM (TP8)", "TTFT", "TPOT", "output tokens/s"))
    assert max(map(len, text.splitlines())) <= 80


def test_arrivals_at_a_stated_rate_leave_no_doubt_about_the_rate(ask: Ask) -> None:
    figure = as_json(ask, *ESTIMATE, "--rate", "2/s")["requests_per_s"]
    assert (figure["low"], figure["value"], figure["high"]) == (2.0, 2.0, 2.0)


def test_a_batch_without_room_is_refused(ask: Ask) -> None:
    code, text = ask(*ESTIMATE, "--batch", "5000")
    assert code == 3
    assert "does not fit" in " ".join(text.split())
    assert "TTFT" not in text


def test_the_operations_of_an_explained_step_add_up(ask: Ask) -> None:
    lines = ask(*ESTIMATE, "--concurrency", "64", "--explain")[1].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("operation ")) + 2
    last = next(i for i, line in enumerate(lines) if line.startswith("all kernels "))
    rows = [line for line in lines[first : last + 1] if re.search(r"\S\s{2,}[\d,.]+\s+<?\d+%", line)]
    shown = [float(re.split(r"\s{2,}", row)[1].replace(",", "")) for row in rows]
    assert shown[-1] == pytest.approx(sum(shown[:-1]), abs=len(shown))


def test_the_link_of_a_named_machine_counts(ask: Ask) -> None:
    words = ("estimate", "llama-3.3-70b", "--gpus", "L40S:4", "--in", "1000", "--out", "300", "--concurrency", "8")
    usual, named = as_json(ask, *words), as_json(ask, *words, "--instance", "g6e.12xlarge")
    assert usual["tpot_s"]["value"] > 0
    assert named["tpot_s"]["value"] >= usual["tpot_s"]["value"]


def test_a_spare_machine_decides_and_nobody_is_sent_to_looser_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """One machine would carry it and keep its limits by far: the second is there because one may fail."""
    words = ("plan", "serve", "bge-base-en-v1.5", "--rate", "200/s", "--in", "200", "--slo", "latency.p95<200ms")
    assert main((*words, "--gpus", "L40S", "--clouds", "aws", "--spare-machines", "1")) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Redundancy (--spare-machines, --zones) sets the number: one machine would carry the load." in text
    assert "Latency decides" not in text
