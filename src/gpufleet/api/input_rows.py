"""The question as it was read: inputs with their origin, and the hash of all that an answer rests on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from gpufleet.domain.offer import Offer
from gpufleet.questions.fields import PlanRequest, Question, ServiceRequest, words_of
from gpufleet.results.base import Input

InputRow = tuple[str, str, str, object]
"""Name, field of the request, value as it was read, and whether it was stated."""


def inputs_of(request: PlanRequest, rows: Iterable[InputRow]) -> list[Input]:
    """Inputs with their origin."""
    return [Input(name=n, value=v, origin=input_origin(request, field, stated)) for n, field, v, stated in rows]


def stated_rows(request: PlanRequest, *declared_in: Question) -> list[InputRow]:
    """Words that these questions declare, in their order, where somebody said them."""
    rows = {row.field: row for row in words_of(type(request)).values() if row.label}
    said = [(rows[name], getattr(request, name)) for q in declared_in for name in q.__annotations__ if name in rows]
    shown = [(row, row.shown(value)) for row, value in said if value is not None]
    return [(row.label, row.field, text, True) for row, text in shown if text]


def slack_rows(request: ServiceRequest) -> list[InputRow]:
    """The failure domain, the hours and what may be spent, where stated."""
    return stated_rows(request, PlanRequest, ServiceRequest)


def input_origin(request: PlanRequest, field: str, stated: object) -> str:
    """Where an input came from: the file, the command line, what the user prefers, the checkpoint or a default."""
    if field in request.from_file:
        return "file"
    if stated:
        return "config" if field in request.from_config else "given"
    return "checkpoint" if field in ("precision", "kv_precision") else "default"


def digest(inputs: Sequence[Input], offers: Sequence[Offer]) -> str:
    """A hash of everything that the plan rests on: the question as read and every price considered."""
    prices = sorted(
        f"{o.cloud}/{o.region}/{o.instance}/{o.price_kind.value}/{o.as_of}/"
        f"{o.price_per_instance_usd_per_hour!r}{supply(o)}"
        for o in offers
    )
    text = json.dumps([[i.name, i.value] for i in inputs] + [prices])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def supply(offer: Offer) -> str:
    """What the hash says of an upfront payment and of how many can be had, where it must."""
    bounds = [f"upfront {offer.upfront_usd!r}"] if offer.upfront_usd else []
    bounds += [] if offer.max_instances is None else [f"at most {offer.max_instances}"]
    bounds += [f"at most {quota.max_gpus} GPUs of {quota.name}" for quota in offer.gpu_quotas]
    return "".join(f"/{bound}" for bound in bounds)
