"""What an infeasible page says would help does, typed as it is shown: at the confidence that the question asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.results.plan import Relaxation, ServePlan
from gpufleet.units import parse_rate, parse_usd_per_hour

SMALL = ServeRequest("llama-3.1-8b", 40.0, 1000, 200, gpus=["L40S", "A100-SXM4-80GB"], rows=1)
LARGE = ServeRequest("llama-3.3-70b", 10.0, 4000, 800, gpus=["B300"], rows=1)
ASKED = {
    "a first token": replace(SMALL, slo="ttft.p95<40ms"),
    "a step": replace(SMALL, slo="tpot.p95<2ms"),
    "two limits": replace(SMALL, slo="ttft.p95<60ms,tpot.p95<7ms"),
    "a budget": replace(SMALL, slo="ttft.p95<400ms", budget_usd_per_hour=1.0),
    "long prompts": replace(LARGE, slo="ttft.p95<0.3s,tpot.p95<0.05s"),
    "surely": replace(LARGE, slo="ttft.p95<0.5s", confidence=0.9),
    "as expected": replace(SMALL, slo="tpot.p95<2ms", confidence=0.5),
}
WORDS: dict[str, tuple[str, Any]] = {
    "rate": ("rate", parse_rate),
    "input tokens": ("input_tokens", float),
    "output tokens": ("output_tokens", float),
    "budget": ("budget_usd_per_hour", lambda text: parse_usd_per_hour(text.removeprefix("$").replace(",", ""))),
    "precision": ("allow_lower_precision", lambda _: True),
    "engine": ("engine", lambda _: "all"),
    "GPUs": ("gpus", lambda _: None),
}


def remedied(asked: ServeRequest, plan: ServePlan, given: list[Relaxation]) -> ServeRequest:
    """The question with what is said to be needed, as somebody types it."""
    limits, words = dict(plan.objectives), {}
    for r in given:
        if r.needed_s is not None:
            limits[r.limit] = float(r.needed.replace(",", "").removesuffix(" ms")) / 1000
        else:
            field, read = WORDS[r.limit]
            words[field] = read(r.needed)
    slo = ",".join(f"{label}<{s!r}s" for label, s in limits.items())
    return replace(asked, **{"slo": slo, **words})


@pytest.mark.parametrize("name", ASKED)
def test_a_remedy_that_is_typed_as_shown_gives_a_plan_as_sure_as_was_asked(name: str) -> None:
    asked = ASKED[name]
    plan = plan_serve(asked)
    assert not plan.is_feasible
    assert plan.relaxations
    together = [r for r in plan.relaxations if r.together]
    for given in [*([together] if together else []), *([r] for r in plan.relaxations if not r.together)]:
        helped = plan_serve(remedied(asked, plan, given))
        assert helped.is_feasible, given
        assert (helped.missed_confidence, helped.confidence) == (None, asked.confidence or 0.8), given
