"""Jobs, fine-tuning and training: more time, more kinds of GPU and more clouds never make the cheapest plan dearer.

Each random question is asked at a ladder of deadlines, then with what may be rented widened step by step. Of a plan
counts the cheapest that it states: its first row, or what it names beside it as cheaper if that holds.
`QUESTIONS=100 pytest` asks more.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from tests.effort import cases

from gpufleet.api import BatchRequest, plan_batch, plan_finetune, plan_train
from gpufleet.api.training import FinetuneRequest, TrainRequest
from gpufleet.catalog.load import load_catalog
from gpufleet.errors import DataMissing
from gpufleet.results.job import JobPlan
from gpufleet.units import HOUR

pytestmark = pytest.mark.slow
TABLES = load_catalog()
QUESTIONS = int(os.environ.get("QUESTIONS", cases(2, 6)))
ROUNDING = 1e-9
GPUS = ("L4", "L40S", "A100-80GB", "H100", "H200", "B200")
CLOUDS = ("aws", "azure", "gcp", "lambda", "nebius", "verda")
Ask = Callable[..., float]


def batch(dice: random.Random) -> Ask:
    """A batch job of a few machine-hours to some thousands."""
    asked = BatchRequest(
        dice.choice(["llama-3.1-8b", "qwen3-4b", "qwen3-32b"]),
        10 ** dice.uniform(3, 6.7),
        dice.choice([200, 500, 1500]),
        dice.choice([50, 200, 300]),
        deadline_s=HOUR,
        confidence=0.8,
    )
    return lambda **changes: stated_usd(lambda: plan_batch(replace(asked, **changes), TABLES))


def finetune(dice: random.Random) -> Ask:
    """A fine-tuning run."""
    asked = FinetuneRequest(
        dice.choice(["llama-3.2-1b", "llama-3.1-8b", "qwen3-32b"]),
        tokens=10 ** dice.uniform(7, 9.3),
        method=dice.choice(["full", "lora", "qlora"]),
        confidence=0.8,
    )
    return lambda **changes: stated_usd(lambda: plan_finetune(replace(asked, **changes), TABLES))


def train(dice: random.Random) -> Ask:
    """A training run from nothing."""
    asked = TrainRequest(
        dice.choice(["gpt2", "llama-3.2-1b"]),
        tokens=10 ** dice.uniform(9, 10.7),
        sequence_tokens=1024.0,
        confidence=0.8,
    )
    return lambda **changes: stated_usd(lambda: plan_train(replace(asked, **changes), TABLES))


def stated_usd(planned: Callable[[], JobPlan]) -> float:
    """The least that a plan states; infinite where nothing does the job, or nothing is sold."""
    try:
        plan = planned()
    except DataMissing:
        return math.inf
    beside = [d for d in (plan.undated_alternative, plan.unmeasured_alternative) if d is not None]
    return min((d.usd.value for d in [*plan.deployments[:1], *beside]), default=math.inf)


def never_rises(usd: Sequence[float]) -> bool:
    return all(wider <= narrower * (1 + ROUNDING) for narrower, wider in pairwise(usd))


@pytest.mark.parametrize("seed", range(QUESTIONS))
@pytest.mark.parametrize("kind", [batch, finetune, train])
def test_a_longer_deadline_never_costs_more(kind: Callable[[random.Random], Ask], seed: int) -> None:
    dice = random.Random(seed)
    ask, rented = kind(dice), {"clouds": dice.sample(CLOUDS, 3), "gpus": dice.sample(GPUS, 3)}
    hours = sorted(10 ** dice.uniform(0, 2.5) for _ in range(3))
    deadlines = sorted([*hours, 1.05 * hours[1], 1.4 * hours[1]])
    usd = [ask(**rented, deadline_s=h * HOUR) for h in deadlines]
    assert never_rises(usd), (deadlines, usd)


@pytest.mark.parametrize("seed", range(QUESTIONS))
@pytest.mark.parametrize("kind", [batch, finetune])
def test_more_to_rent_from_never_costs_more(kind: Callable[[random.Random], Ask], seed: int) -> None:
    dice = random.Random(1000 + seed)
    ask, gpus, clouds = kind(dice), dice.sample(GPUS, 4), dice.sample(CLOUDS, 4)
    deadline_s = 10 ** dice.uniform(0.5, 2) * HOUR
    steps = [(clouds[:2], gpus[:2]), (clouds[:2], gpus), (clouds, gpus), (CLOUDS, GPUS)]
    usd = [ask(clouds=[*c], gpus=[*g], deadline_s=deadline_s) for c, g in steps]
    assert never_rises(usd), usd


def test_forty_three_hours_are_no_cheaper_than_sixty() -> None:
    asked = BatchRequest("llama-3.1-8b", 18_475, 500, 300, deadline_s=HOUR, clouds=["aws", "azure"])
    asked = replace(asked, gpus=["L40S", "A100-80GB", "H100"])
    usd = [stated_usd(partial(plan_batch, replace(asked, deadline_s=h * HOUR), TABLES)) for h in (43.2, 60, 100, 200)]
    assert never_rises(usd), usd
