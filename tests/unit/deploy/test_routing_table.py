"""The routing table of a mix: every request fits one rule, whose weights are of backends that exist."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.api.mixes import plan_mix
from gpufleet.deploy.routing_table import routing_table
from gpufleet.questions.fields import RequestKind, ServeRequest
from gpufleet.results.mix import FleetMix

KINDS = (
    RequestKind("chat", 15.0, 800, 200, "ttft.p95<1s,tpot.p95<50ms"),
    RequestKind("reports", 5.0, 6000, 300, "latency.p95<60s"),
)
TWO_CLASSES = ServeRequest("llama-3.1-8b", 20.0, 1, 1, classes=KINDS, clouds=["aws"], gpus=["H100", "L40S"])


@pytest.fixture(scope="module", params=["prompt", "both"])
def mix(request: pytest.FixtureRequest) -> FleetMix:
    return plan_mix(TWO_CLASSES, route_by=request.param)


def fits(rule: dict[str, Any], kind: str, prompt: int, answer: int) -> bool:
    """Whether a request fits a rule, as a router would read it."""

    def within(what: str, tokens: int) -> bool:
        most = rule[f"to_{what}_tokens"]
        return bool(rule[f"above_{what}_tokens"] < tokens and (most is None or tokens <= most))

    foretold = "to_answer_tokens" in rule
    return rule["class"] == kind and within("prompt", prompt) and (not foretold or within("answer", answer))


@pytest.mark.slow
def test_every_length_fits_one_rule(mix: FleetMix) -> None:
    table = json.loads(json.dumps(routing_table(mix)))
    for kind in ("chat", "reports"):
        for prompt in (1, 7, 300, 666, 667, 668, 1225, 5000, 100_000, 10**7):
            for answer in (1, 150, 400, 10**6):
                assert sum(fits(rule, kind, prompt, answer) for rule in table["rules"]) == 1


@pytest.mark.slow
def test_weights_are_all_of_a_request_and_name_backends_of_its_model(mix: FleetMix) -> None:
    table = routing_table(mix)
    models = {backend["name"]: backend["model"] for backend in table["backends"]}
    assert len(models) == len(mix.copies)
    for rule in table["rules"]:
        assert sum(rule["weights"].values()) == pytest.approx(1.0, abs=1e-5)
        assert {models[name] for name in rule["weights"]} == {rule["model"]}


def test_what_rules_send_is_what_backends_get(mix: FleetMix) -> None:
    table = routing_table(mix)
    for at, backend in enumerate(table["backends"]):
        sent = sum(route.requests_per_s * route.copies.get(at, 0.0) for route in mix.routes)
        assert sent == pytest.approx(backend["requests_per_s"], rel=1e-2)
        assert backend["replicas"] >= 1
