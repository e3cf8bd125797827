"""Random questions: verbs agree on a replica, promises hold at their confidence, and changes that are said to help do.

Some of them in every run; `make brute-force` asks 200.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import Tally
from tests.properties.random_questions import question_at

from gpufleet.api import compare, fit, plan_serve
from gpufleet.api.estimates import estimate
from gpufleet.api.serve_questions import architecture_of, prepare, serve_question
from gpufleet.catalog.calibration import calibration_of, load_habits
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.provider_classes import most_easily_had
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.slo import Limit, Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import GpufleetError
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.dated import solved_on_dated
from gpufleet.optimize.flips import INPUT, OUTPUT, RATE
from gpufleet.optimize.helping import BUDGET, MACHINES, helping_changes
from gpufleet.optimize.service import solve_serve
from gpufleet.optimize.size import operate_beyond
from gpufleet.performance.queueing import normal_quantile
from gpufleet.questions.fields import ServeRequest
from gpufleet.results.plan import Deployment, ServePlan

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("rows_alone")]
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-120b", "mixtral-8x7b")
RANKS = {"TP": "tp", "PP": "pp", "EP": "ep", "DP": "attention_dp"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "index" in metafunc.fixturenames:
        metafunc.parametrize("index", range(metafunc.config.getoption("questions")))


def layout_of(label: str) -> dict[str, int]:
    return {RANKS[part.rstrip("0123456789")]: int(part.lstrip("TPED")) for part in label.split("/")}


def plain_question(dice: random.Random, **more: object) -> ServeRequest:
    tokens = float(dice.choice([200, 1000, 3000])), float(dice.choice([50, 300, 800]))
    fixed = tuple(map(TokenCounts, tokens)) if dice.random() < 0.5 else tokens
    rate, engine = round(10 ** dice.uniform(-1, 1.3), 2), dice.choice([None, None, "sglang", "tensorrt-llm"])
    return ServeRequest(dice.choice(MODELS), rate, *fixed, engine=engine, rows=6, confidence=0.5, **more)


def estimated(request: ServeRequest, d: Deployment, **more: object) -> tuple[dict[str, float], float]:
    found = estimate(
        request.model, f"{d.gpu}:{int(d.gpus_per_replica)}", input_tokens=request.input_tokens,
        output_tokens=request.output_tokens, rate=request.rate / d.replicas, engine=d.engine,
        precision=d.weight_format, kv_precision=d.kv_precision, instance=f"{d.cloud}:{d.instance}",
        **layout_of(d.layout), **more,
    )  # fmt: skip
    figures = {
        f"{metric}.p{100 * p.quantile:g}": getattr(p, f"{metric}_s").value
        for p in found.percentiles
        for metric in ("ttft", "tpot", "latency")
    }
    return figures, found.largest_batch


def test_plan_estimate_and_fit_say_the_same_of_a_replica(index: int, tally: Tally) -> None:
    dice = random.Random(index)
    request = plain_question(dice)
    try:
        plan = plan_serve(request)
    except GpufleetError as error:
        tally["not planned", error.problem[:30]] += 1
        return
    for d in dice.sample(list(plan.deployments), min(1, len(plan.deployments))):
        figures, largest = estimated(request, d)
        for label, figure in d.latency.items():
            assert figures[label] == pytest.approx(figure.value, rel=1e-9), (d.gpu, d.layout, label)
        assert largest == pytest.approx(d.largest_batch, rel=1e-9)
        tally["estimate", "agrees"] += 1
        if isinstance(request.input_tokens, TokenCounts):
            agree_on_memory(request, d, tally)


def agree_on_memory(request: ServeRequest, d: Deployment, tally: Tally) -> None:
    """The room of a replica in the same layout; an engine may take fewer at a time than memory holds."""
    context = request.input_tokens.mean + request.output_tokens.mean
    formats = {"precision": d.weight_format, "kv_precision": d.kv_precision}
    found = fit(request.model, f"{d.gpu}:{int(d.gpus_per_replica)}", context, engine=d.engine, **formats)
    if found.layout == d.layout:
        assert found.users.value >= d.largest_batch * (1 - 1e-9)
        tally["fit", "agrees"] += 1


@pytest.mark.parametrize("gpus", [("L40S", "H100"), ("A100-SXM-80GB", "L4")], ids=lambda g: "-".join(g))
def test_compare_says_what_plans_of_its_sides_say(gpus: tuple[str, str]) -> None:
    request = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "ttft.p95<1s,tpot.p95<100ms")
    found = compare(request, *gpus)
    for side, gpu in zip((found.first, found.second), gpus, strict=True):
        alone = plan_serve(replace(request, gpus=[gpu], confidence=0.8)).answer
        assert (side.deployment.layout, side.deployment.instance) == (alone.layout, alone.instance)
        for label, figure in alone.latency.items():
            assert side.deployment.latency[label].value == pytest.approx(figure.value, rel=1e-9)


def test_no_row_breaks_a_limit_at_the_confidence_of_its_promise(index: int, tally: Tally) -> None:
    """Rated anew with steps and first tokens as slow as they are once in five."""
    question = question_at(index)
    prepared = prepare(question.request, question.tables)
    demand, solution = prepared.question.demand, prepared.solution
    if demand.confidence == EXPECTED:
        tally["headed", "no plan holds"] += 1
        return
    found, copies = solution.found, solution.copies
    power = normal_quantile(demand.confidence) / normal_quantile(0.9)
    for row in solution.ranked[:5]:
        at, rate = row.placement.row, demand.workload.rate_requests_per_s / row.placement.replicas
        batch = found.curves.batch[np.maximum(found.best, 0)]
        late = {name: float(b.high_ratio[at]) ** power for name, b in copies.time_ratios(batch).items()}
        slow = operate_beyond(found, at, rate * late["latency"] * (1 - 1e-6))
        assert slow is not None, copies.label(at)
        for limit in demand.workload.slo.limits:
            planned = slow.objectives_s[limit.label] * late[limit.metric]
            assert planned <= limit.limit_s * 1.03, (copies.label(at), limit.label, planned / limit.limit_s)
        tally["rows", "hold"] += 1


def hopeless(index: int) -> ServeRequest:
    """A question whose limits and budget are tighter than anything on sale keeps."""
    dice = random.Random(1000 + index)
    labels = dice.sample(["ttft.p95", "tpot.p95", "latency.p95"], dice.randint(1, 3))
    loose = {"ttft.p95": 0.4, "tpot.p95": 0.02, "latency.p95": 8.0}
    slo = Slo(tuple(Limit(*label.split("."), loose[label] * 10 ** dice.uniform(-1.2, 0.3)) for label in labels))
    gpus = dice.sample(["L4", "A10G", "L40S", "A100-SXM-80GB", "H100"], dice.randint(1, 3))
    budget = dice.choice([None, None, round(10 ** dice.uniform(-0.7, 1.0), 2)])
    rate = round(10 ** dice.uniform(-0.5, 1.8), 2)
    return ServeRequest(dice.choice(MODELS[:4]), rate, 1000.0, 300.0, slo, gpus=gpus, budget_usd_per_hour=budget,
                        confidence=0.5)  # fmt: skip


def changed(request: ServeRequest, by: dict[str, float]) -> ServeRequest:
    """The question where quantities give way by these factors."""
    assert isinstance(request.slo, Slo)
    limits = tuple(replace(x, limit_s=x.limit_s * by.get(x.label, 1.0)) for x in request.slo.limits)
    budget = request.budget_usd_per_hour
    return replace(
        request,
        slo=Slo(limits),
        rate=request.rate / by.get(RATE, 1.0),
        input_tokens=request.input_tokens / by.get(INPUT, 1.0),
        output_tokens=request.output_tokens / by.get(OUTPUT, 1.0),
        budget_usd_per_hour=None if budget is None else budget * by.get(BUDGET, 1.0),
    )


def every_row(request: ServeRequest) -> ServePlan:
    return plan_serve(replace(request, rows=1000))


def is_served(request: ServeRequest) -> bool:
    """Whether some row of a plan has a sensible size."""
    return any(is_sensible(request, d) for d in every_row(request).deployments)


def is_sensible(request: ServeRequest, d: Deployment) -> bool:
    """Few GPUs, or few machines beside those of its type, planned on its cloud alone, that need keep no limit."""
    habits, gpus = load_habits(), d.instance_count * d.gpus_per_instance
    if gpus <= most_easily_had():
        return True
    free = every_row(replace(request, slo=None, budget_usd_per_hour=None, clouds=[d.cloud])).deployments
    of_load = next(row.instance_count for row in free if row.instance == d.instance)
    return gpus <= habits.most_rented_gpus.value and d.instance_count <= habits.most_times_machines.value * of_load


def test_what_is_said_to_help_helps_and_a_little_less_does_not(index: int, tally: Tally) -> None:
    request, tables = hopeless(index), load_catalog()
    question, _ = serve_question(request, architecture_of(request), tables)
    question, solution = solved_on_dated(question, lambda asked: solve_serve(asked, calibration_of(tables)))
    if solution.ranked or not Contest.of(question, solution).offers:
        tally["asked", "served" if solution.ranked else "nothing to rent"] += 1
        return
    found = helping_changes(question, solution)
    for help_ in found:
        if MACHINES in help_.by:
            continue
        just_more = {name: ratio * 1.000001 for name, ratio in help_.by.items()}
        assert is_served(changed(request, just_more)), help_.by
        assert plan_serve(changed(request, just_more)).is_feasible
        less = {name: max(ratio / 1.02, 1.0) for name, ratio in help_.by.items()}
        assert not is_served(changed(request, less)), help_.by
        for name in help_.by.keys() - {BUDGET} if len(set(help_.by.values())) > 1 else ():
            assert not is_served(changed(request, {**help_.by, name: less[name]})), (help_.by, name)
        tally["changes", "together" if len(help_.by) > 1 else "single"] += 1
    if not found:
        nothing_helps(request, tally)


def nothing_helps(request: ServeRequest, tally: Tally) -> None:
    """No quantity that gives way tenfold alone, nor two of them, nor all limits and the budget however far."""
    assert isinstance(request.slo, Slo)
    assert not is_served(replace(request, slo=None, budget_usd_per_hour=None))
    names = [*(x.label for x in request.slo.limits), RATE, INPUT, OUTPUT]
    names += [] if request.budget_usd_per_hour is None else [BUDGET]
    for i, one in enumerate(names):
        for other in names[i:]:
            most = {name: 1e6 if name == BUDGET and one == other else 10.0 for name in (one, other)}
            assert not is_served(changed(request, most)), (one, other)
    tally["changes", "none"] += 1
    assert math.isfinite(request.rate)
