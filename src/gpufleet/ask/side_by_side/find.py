"""Several models for one load: each planned by itself, and which costs least."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from gpufleet.api.envelope import in_full
from gpufleet.api.plans import plan_serve
from gpufleet.api.spoken import spoken
from gpufleet.ask.side_by_side.shape import ModelComparison, ModelRow
from gpufleet.ask.side_by_side.words import refuse_number
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError, named
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.page import WARNING, is_warning
from gpufleet.results.levers import CertaintyPrice
from gpufleet.results.plan import ServePlan

QUALITY = "What the models answer, and how well, is not compared: put your own questions to each"
TOKENS = (
    "Each model is counted with the tokens that were asked for; the same text is more tokens in one than in another"
)
SUBJECT = "model"
Model = str | PathLike[str] | Architecture | ServeRequest


def compare_models(models: Sequence[Model], catalog: Catalog | None = None, **said: Any) -> ModelComparison:
    """Two to eight models that write, each planned as `plan_serve` plans it by the same words, the cheapest first.

    >>> found = compare_models(["llama-3.1-8b", "qwen3-32b"], rate="5/s", input_tokens=1000, output_tokens=200)
    >>> found.cheapest.asked, found.rows[1].usd_per_hour > found.rows[0].usd_per_hour
    ('llama-3.1-8b', True)
    """
    requests = requests_of(models, said)
    tables = load_catalog() if catalog is None else catalog
    plans = [planned(request, tables) for request in requests]
    names = [name_of(request) for request in requests]
    rows = against_cheapest([row_of(name, plan) for name, plan in zip(names, plans, strict=True)], plans)
    first = plans[0]
    found = ModelComparison(
        rate_requests_per_s=first.rate_requests_per_s,
        input_tokens=first.input_tokens,
        output_tokens=first.output_tokens,
        objectives=first.objectives,
        rows=rows,
        saved_ratio=saved_ratio(rows),
        sureness=sureness(rows),
        notes=[QUALITY, TOKENS, *same_shape(rows), *notes_of_plans(names, plans)],
    )
    told = in_full(found, tables, {"models": names}, requests[0])
    return told.model_copy(update={"question": [word for word in told.question if word.word != SUBJECT]})


def requests_of(models: Sequence[Model], said: dict[str, Any]) -> list[ServeRequest]:
    """The question of each model: the same words, and one load."""
    refuse_number(len(models))
    requests = [replace(spoken(ServeRequest, model, said), rows=1) for model in models]
    names = [name_of(request) for request in requests]
    twice = [name for at, name in enumerate(names) if name.casefold() in map(str.casefold, names[:at])]
    if twice:
        raise UsageError("a model stands beside itself", found=twice[0], expected="each model once")
    if any(replace(request, model=requests[0].model) != requests[0] for request in requests):
        raise UsageError("models side by side with different words", expected="one load, and the same words for all")
    if requests[0].fleet_today is not None or requests[0].disagg:
        raise UsageError("'today' and 'disagg' are of one model", hint="Ask plan_serve about one model at a time.")
    return requests


def name_of(model: Model) -> str:
    """A model as it was named."""
    subject = model.model if isinstance(model, ServeRequest) else model
    return subject.name if isinstance(subject, Architecture) else os.fspath(subject)


def planned(request: ServeRequest, tables: Catalog) -> ServePlan:
    """The plan of one model; what is wrong with it is said with its name."""
    with named(name_of(request)):
        return plan_serve(request, tables)


def row_of(name: str, plan: ServePlan) -> ModelRow:
    """What the plan of a model says."""
    deployment = plan.deployments[0] if plan.deployments else None
    mix = plan.mix if deployment is None else None
    answer = deployment or mix
    least, most = ends(plan.certainty, None if answer is None else answer.usd_per_hour)
    return ModelRow(
        asked=name,
        model=plan.model,
        num_parameters=plan.num_parameters,
        num_active_parameters=plan.num_active_parameters,
        deployment=deployment,
        mix=mix,
        usd_per_hour=None if answer is None else answer.usd_per_hour,
        least_usd_per_hour=least,
        most_usd_per_hour=most,
        usd_per_million_output_tokens=None if answer is None else answer.usd_per_million_output_tokens,
        certainty=plan.certainty,
        verdict=plan.verdict,
        grade=plan.grade,
        rejections=[] if answer else plan.rejections[:1],
        relaxations=[] if answer else plan.relaxations,
        plan_hash=plan.input_hash,
    )


def ends(certainty: Sequence[CertaintyPrice], usd_per_hour: float | None) -> tuple[float | None, float | None]:
    """The least and the most that a model costs over all confidences; no most where nothing holds at one of them."""
    if usd_per_hour is None:
        return None, None
    at_each = [cost_at(told) for told in certainty]
    most = max([usd_per_hour, *at_each])
    return min([usd_per_hour, *at_each]), most if math.isfinite(most) else None


def cost_at(told: CertaintyPrice) -> float:
    """What the limits cost at a confidence; without end where nothing keeps them."""
    return math.inf if told.winner is None else told.winner.usd_per_hour


def cost(row: ModelRow) -> float:
    """What a model costs; without end where nothing serves it."""
    return math.inf if row.usd_per_hour is None else row.usd_per_hour


def against_cheapest(rows: Sequence[ModelRow], plans: Sequence[ServePlan]) -> list[ModelRow]:
    """The rows by cost, each beside the cheapest, with what would make up for the difference."""
    least = min(map(cost, rows))
    told = [beside(row, plan, least) for row, plan in zip(rows, plans, strict=True)]
    return sorted(told, key=cost)


def beside(row: ModelRow, plan: ServePlan, least: float) -> ModelRow:
    """A row beside the least that any model costs: machines at cheapest / own of their price cost as little."""
    if row.usd_per_hour is None:
        return row
    d = row.deployment
    is_dearer = row.usd_per_hour > least
    needed = d.price_per_instance_usd_per_hour * least / row.usd_per_hour if d is not None and is_dearer else None
    saving = (lever for lever in plan.levers if lever.winner.usd_per_hour <= least)
    return row.model_copy(
        update={
            "dearer_ratio": row.usd_per_hour / least - 1,
            "wins_below_usd_per_hour": needed,
            "lever": next(saving, None) if is_dearer else None,
        }
    )


def saved_ratio(rows: Sequence[ModelRow]) -> float | None:
    """How much less the cheapest costs than the next; None where no other serves."""
    return 1 - cost(rows[0]) / cost(rows[1]) if math.isfinite(cost(rows[1])) else None


def sureness(rows: Sequence[ModelRow]) -> str:
    """Whether the first is the cheaper one, as a code of `ModelComparison`."""
    one, other = rows[:2]
    if one.usd_per_hour is None:
        return ""
    if other.usd_per_hour is None:
        return "alone"
    if one.usd_per_hour == other.usd_per_hour:
        return "equal"
    if not one.certainty or not other.certainty:
        return "unasked"
    if one.most_usd_per_hour is not None and one.most_usd_per_hour <= (other.least_usd_per_hour or 0.0):
        return "sure"
    return "shared" if runs_on(one) == runs_on(other) and costs_no_more(one, other) else "open"


def runs_on(row: ModelRow) -> set[tuple[str, str]]:
    """Engine and GPU, whose errors are those of every model on them."""
    return {(d.engine, d.gpu) for d in row.parts}


def costs_no_more(one: ModelRow, other: ModelRow) -> bool:
    """Whether a model costs no more than another at each confidence."""
    at_each = {told.confidence: cost_at(told) for told in other.certainty}
    return all(cost_at(told) <= at_each.get(told.confidence, -math.inf) for told in one.certainty)


def same_shape(rows: Sequence[ModelRow]) -> list[str]:
    """Names that stand for one architecture, between which nothing here can tell."""
    of_model: dict[str, list[str]] = {}
    for row in rows:
        of_model.setdefault(row.model, []).append(row.asked)
    return [f"{' and '.join(asked)} are both read as {model}" for model, asked in of_model.items() if len(asked) > 1]


def notes_of_plans(names: Sequence[str], plans: Sequence[ServePlan]) -> list[str]:
    """What plans note: once where all do, else with the model."""
    of_all = [note for note in plans[0].notes if all(note in plan.notes for plan in plans)]
    pairs = zip(names, plans, strict=True)
    return [*of_all, *(of_model(name, note) for name, plan in pairs for note in plan.notes if note not in of_all)]


def of_model(name: str, note: str) -> str:
    """A note with its model; a warning stays one."""
    return f"{WARNING}{name}: {note.removeprefix(WARNING)}" if is_warning(note) else f"{name}: {note}"
