"""The serving question as users ask it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from gpufleet.api import BatchRequest, ServeRequest, plan_batch, plan_serve
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.table_files import SHIPPED
from gpufleet.cli import main
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.report.plan import plan_page
from gpufleet.report.plan_explained import estimate_words
from gpufleet.report.text import page_as_text
from gpufleet.results.base import Launch
from gpufleet.results.plan import ServePlan

CHAT = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<60ms")


@lru_cache(maxsize=1)
def market() -> Catalog:
    """L40S and H100 machines of one cloud."""
    catalog = load_catalog()
    kept = {key: i for key, i in catalog.instances.items() if key[0] == "aws" and key[1][:3] in ("g6e", "p5.")}
    return replace(catalog, instances=kept, offers=tuple(o for o in catalog.offers if (o.cloud, o.instance) in kept))


def ask(**changes) -> ServePlan:
    return plan_serve(replace(CHAT, **changes), market())


def test_the_answer_is_the_cheapest_row() -> None:
    found = ask()
    assert found.is_feasible
    assert found.answer.usd_per_hour == min(d.usd_per_hour for d in found.deployments)


def test_only_what_was_allowed_is_offered() -> None:
    offered = ask(gpus=["L40S"], pricing=["spot"]).deployments
    assert {(d.gpu, d.price_kind) for d in offered} == {("L40S", "spot")}


def test_spot_is_named_beside_an_on_demand_answer_and_never_ranked_with_it() -> None:
    found = ask()
    assert {d.price_kind for d in found.deployments} == {"on_demand"}
    assert found.spot_alternative is None or found.spot_alternative.price_kind == "spot"


def test_a_lower_precision_is_used_only_where_allowed_and_its_cost_in_quality_is_said() -> None:
    own, lower = ask(), ask(allow_lower_precision=True)
    assert {d.weight_format for d in own.deployments} <= {"bf16", "fp16"}
    assert not any("weights: " in note for note in own.notes)
    assert any("fp8 weights" in note for note in lower.notes)
    assert lower.answer.usd_per_hour <= own.answer.usd_per_hour


def test_the_plan_holds_how_lengths_spread_and_of_which_nobody_said_so() -> None:
    found = ask(output_tokens=parse_token_counts("100..400"))
    assert (found.lengths_differ, found.lengths_assumed) == (["input", "output"], ["input"])
    assert found.input_p95_tokens == pytest.approx(2931, abs=1)
    assert 400 < (found.output_p95_tokens or 0) < 600
    alike = ask(input_tokens=TokenCounts(1000.0), output_tokens=TokenCounts(200.0))
    assert (alike.lengths_differ, alike.lengths_assumed) == ([], [])
    assert alike.input_p95_tokens is alike.output_p95_tokens is None


def test_all_engines_are_never_dearer_than_one() -> None:
    assert ask(engine="all", rate=50).answer.usd_per_hour <= ask(engine="vllm", rate=50).answer.usd_per_hour


def test_the_number_of_rows_changes_what_is_shown_and_not_the_answer() -> None:
    one, many = ask(rows=1), ask(rows=30)
    assert len(one.deployments) == 1
    assert one.answer == many.answer


def test_the_same_question_has_the_same_hash_and_another_price_another() -> None:
    assert ask().input_hash == ask().input_hash
    assert ask().input_hash != ask(rate=6.0).input_hash
    first, *others = market().offers
    dearer = replace(first, price_per_instance_usd_per_hour=2 * first.price_per_instance_usd_per_hour)
    changed = plan_serve(CHAT, replace(market(), offers=(dearer, *others)))
    assert (changed.input_hash == ask().input_hash) == (first.price_kind.value != "on_demand")


def test_every_shown_price_names_its_source_and_date() -> None:
    found = ask()
    named = {(source.id, source.as_of) for source in found.price_sources}
    shown = [*found.deployments, *(d for d in (found.spot_alternative, found.lower_precision_alternative) if d)]
    assert {(d.price_source, d.price_as_of) for d in shown} <= named


def test_a_machine_without_a_price_is_listed_and_never_ranked() -> None:
    unpriced = plan_serve(CHAT, replace(market(), offers=tuple(o for o in market().offers if o.instance[:3] == "g6e")))
    assert {d.gpu for d in unpriced.deployments} == {"L40S"}
    assert any("no price" in r.reason for r in unpriced.rejections)


def test_what_cannot_be_kept_is_infeasible_with_reasons_and_no_answer() -> None:
    found = ask(slo="tpot.p95<1ms")
    assert not found.is_feasible
    assert any("tpot.p95 above 1 ms" in r.reason for r in found.rejections)
    assert found.spot_alternative is None


def test_a_model_too_large_for_every_machine_says_how_much_is_missing() -> None:
    found = ask(model="deepseek-v3", gpus=["L40S"])
    assert not found.is_feasible
    assert any(r.reason == "does not fit in memory" and "short by" in r.best for r in found.rejections)


def test_rejections_count_the_commonest_first() -> None:
    counts = [r.count for r in ask(slo="tpot.p95<12ms").rejections]
    assert counts == sorted(counts, reverse=True)
    assert all(count > 0 for count in counts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0}, {"rate": -1}, {"rate": math.nan}, {"rate": 1e12}, {"input_tokens": 0}, {"output_tokens": math.nan},
        {"headroom": -0.1}, {"headroom": math.nan}, {"min_replicas": 0}, {"min_replicas": 10**9}, {"slo": "tpot<"},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_is_refused(wrong: dict) -> None:
    with pytest.raises(UsageError):
        ask(**wrong)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ({"clouds": ["awz"]}, "aws"),
        ({"regions": ["us-east-11"]}, "us-east-1"),
        ({"gpus": ["L40Z"]}, "L40"),
        ({"pricing": ["on-demnd"]}, "on_demand"),
        ({"engine": "sglan"}, "sglang"),
        ({"precision": ["fp88"]}, "fp8"),
        ({"model": "lama-3.1-8b"}, "llama-3.1-8b"),
    ],
)
def test_unknown_names_offer_the_nearest(wrong: dict, nearest: str) -> None:
    with pytest.raises(UnknownName, match=nearest):
        ask(**wrong)


def test_no_known_price_is_missing_data() -> None:
    with pytest.raises(DataMissing, match="no price of commit_3y is known") as found:
        ask(pricing=["commit_3y"])
    assert found.value.exit_code == 5


@pytest.mark.parametrize("engine", ["gpt-fast", "transformers", "fastertransformer", ""])
def test_engines_that_do_not_batch_requests_as_they_come_serve_no_plan(engine: str) -> None:
    with pytest.raises(UsageError):
        plan_serve(ServeRequest("llama-3.1-8b", 5.0, 1000, 200, engine=engine))


@pytest.mark.parametrize("rows", [0, -1, 10**6])
def test_an_absurd_number_of_rows_is_refused(rows: int) -> None:
    with pytest.raises(UsageError, match="number of rows"):
        plan_serve(ServeRequest("llama-3.1-8b", 5.0, 1000, 200, rows=rows))


def test_what_is_carried_at_the_low_end_is_what_holds() -> None:
    """A row whose capacity falls below the rate at slow steps has no bounded latency there."""
    plan = plan_serve(ServeRequest("llama-3.1-8b", 500.0, 1000, 300, "ttft.p95<500ms,tpot.p95<40ms", headroom=0.0))
    for d in plan.deployments:
        if d.requests_per_s_capacity.low < 0.9 * 500.0:
            assert d.is_tight


@pytest.mark.slow
def test_what_is_needed_is_a_little_more_than_the_best_with_a_price_misses() -> None:
    """The nearest miss of all GPUs may have no price: then it says so. A plan at the very miss would have no end."""
    asked = ServeRequest("llama-3.3-70b", 5.0, 16384, 300, "latency.p95<1s", clouds=["aws"], pricing=["spot"])
    for request in (asked, replace(asked, clouds=None, pricing=None)):
        plan = plan_serve(request)
        [(needed, who)] = [(r.needed_s, r.candidate) for r in plan.relaxations if r.limit == "latency.p95"]
        miss = next(r for r in plan.rejections if r.reason.startswith("latency.p95"))
        least_s = float(re.search(r"(\d+) ms at best", miss.best)[1]) / 1000
        assert miss.best.endswith("no price") or least_s < needed < 1.5 * least_s
        then = plan_serve(replace(request, slo=f"latency.p95<{needed + 1e-4:.4f}s"))
        assert any(who.startswith(f"{d.instance_count}x {d.cloud} ") for d in then.deployments)
    assert miss.best.endswith("at best")


def started(prompts: str) -> Launch:
    """On a card that cannot hold the whole context of the model twice."""
    asked = ServeRequest(
        "qwen3-32b", 12.0, parse_token_counts(prompts), TokenCounts(350.0), gpus=["A100-PCIe-80GB"], rows=1,
        clouds=["hyperstack"],
    )  # fmt: skip
    found = plan_serve(asked).answer.launch
    assert found is not None
    return found


def test_a_start_command_says_which_requests_it_refuses_until_the_longest_is_stated() -> None:
    guessed, known = started("mean=1500,p95=5000"), started("mean=1500,p95=5000,max=32k")
    [refused] = [note for note in guessed.notes if "are refused" in note]
    assert "About 1% of the requests (0.12/s), longer" in refused
    assert not any("are refused" in note for note in known.notes)
    assert known.arguments[known.arguments.index("--max-model-len") + 1] == str(32 * 1024 + 350)


def test_a_roomy_replica_takes_all_that_its_model_takes() -> None:
    """Nobody who said a mean alone finds requests refused, nor a limit of mean and mean."""
    launch = plan_serve(ServeRequest("llama-3.1-8b", 4.0, 1000, 200, gpus=["H100"], rows=1)).answer.launch
    assert launch is not None
    assert launch.arguments[launch.arguments.index("--max-model-len") + 1] == "131072"
    assert not any("are refused" in note for note in launch.notes)


def shown(asked: ServeRequest) -> str:
    return " ".join(page_as_text(plan_page(plan_serve(asked), explain=True), 200).split())


FP8_ENGINE = ServeRequest("qwen3-32b", 12.0, 1500, 350, engine="tensorrt-llm", precision=["fp8"], rows=1)


def test_an_engine_that_keeps_its_cache_in_8_bits_by_default_says_so_and_how_it_would_not() -> None:
    words = shown(FP8_ENGINE)
    assert "KV cache fp8 costs quality too: tensorrt-llm's default (--kv-precision bf16: 16 bits)" in words
    for kept in (replace(FP8_ENGINE, kv_precision="bf16"), replace(FP8_ENGINE, kv_precision="fp8")):
        assert "costs quality too" not in shown(kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompts", "queue"), [("fixed=1500", "M/D/1"), ("1500", "M/G/1"), ("mean=1500,p95=5000", "M/G/1")]
)
def test_the_explanation_names_the_queue_that_is_computed(prompts: str, queue: str) -> None:
    words = shown(ServeRequest("qwen3-32b", 12.0, parse_token_counts(prompts), 350, rows=1))
    assert f"the wait for others' prompts ({queue}" in words


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
def test_the_command_that_takes_a_replica_apart_runs_and_estimates_that_replica(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_serve(replace(FP8_ENGINE, engine=engine))
    words = [word for group in estimate_words(plan) for word in group]
    assert words[:2] == ["gpufleet", "estimate"]
    assert main([*words[1:], "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tpot_s"]["value"] == pytest.approx(plan.answer.latency["tpot.p95"].value, rel=0.5)


def test_candidates_of_an_engine_without_the_architecture_are_rejected_with_that_reason() -> None:
    alone, among = (ask(model="mpt-7b", slo=None, engine=engine) for engine in ("sglang", "all"))
    reason = "SGLang does not implement the architecture of mpt models"
    assert not alone.is_feasible
    assert [r.reason for r in alone.rejections] == [reason]
    assert any(note.startswith("Engines that implement mpt models: ") for note in alone.notes)
    assert among.is_feasible
    assert reason in [r.reason for r in among.rejections]
    assert among.answer.engine != "sglang"


@pytest.mark.parametrize(("prompt", "answer"), [(131_072, 1), (100_000, 40_000)])
def test_requests_longer_than_the_model_was_made_for_are_refused_and_never_priced(prompt: int, answer: int) -> None:
    with pytest.raises(UsageError, match=r"at most 131,072, which it was made for. Rope scaling"):
        plan_serve(ServeRequest("llama-3.1-8b", 1.0, prompt, answer))
    with pytest.raises(UsageError, match="at most 131,072"):
        plan_batch(BatchRequest("llama-3.1-8b", 1e4, prompt, answer, deadline_s=86_400.0))


def test_rope_scaling_in_a_users_config_lets_longer_requests_be_planned(tmp_path: Path) -> None:
    shipped = json.loads((SHIPPED / "architectures" / "qwen2.5-7b.json").read_text(encoding="utf-8"))
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**shipped, "rope_scaling": scaling}), encoding="utf-8")
    asked = ServeRequest(str(config), 0.1, 100_000, 500, gpus=["H100"], clouds=["aws"])
    assert plan_serve(asked).is_feasible


def test_copies_that_exchange_through_the_host_need_more_machines() -> None:
    """Two GPUs a copy at least, on PCIe."""
    asked = {"gpus": "L4", "clouds": "aws", "pricing": "on_demand"}
    large = {"rate": "2/s", "input_tokens": 1000, "output_tokens": 300, **asked}
    on, off = (plan_serve("qwen2.5-32b", **large, peer_to_peer=access) for access in (True, False))
    assert off.answer.usd_per_hour > 1.1 * on.answer.usd_per_hour
    assert [(row.value, row.origin) for row in off.inputs if row.name == "peer to peer"] == [("off", "given")]
