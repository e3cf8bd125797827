"""Which machines get a rate of texts, images or recordings through an encoder within a latency at least cost."""

from __future__ import annotations

from os import PathLike
from typing import Any

from gpufleet.answers.encoder_plans import SERVICE
from gpufleet.answers.plan_parts import Asked
from gpufleet.answers.service_plan import Context
from gpufleet.api.answered import answered_service
from gpufleet.api.demands import failure_notes, headroom_row, purse_of, refuse_rate, sensible_size, slo_of, with_slack
from gpufleet.api.encoder_choices import EncoderChoices, encoder_choices, encoder_rows, service_launches
from gpufleet.api.envelope import in_full
from gpufleet.api.input_rows import InputRow, digest, inputs_of, slack_rows
from gpufleet.api.launches import launched
from gpufleet.api.market import market_rows, refuse_too_old
from gpufleet.api.spoken import spoken
from gpufleet.catalog.calibration import calibration_of, load_hosts
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.spoken_machines import with_owned
from gpufleet.domain.encoder import EncoderModel, Takes
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.errors import UsageError
from gpufleet.optimize.copies.encoder import LATENCY, EncoderServeQuestion, EncoderServeSolution
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.encoder import EncoderQuestion, flop_per_input
from gpufleet.optimize.promise import missed_confidence, solved_as_promised
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import EncoderServeRequest as EncoderServeRequest
from gpufleet.results.base import Input
from gpufleet.results.encoders import EncoderServePlan
from gpufleet.units import PERCENT


def plan_encoder_serve(
    request: EncoderServeRequest | str | PathLike[str] | EncoderModel, catalog: Catalog | None = None, **said: Any
) -> EncoderServePlan:
    """The cheapest machines that keep every latency, ranked, with what was rejected and why.

    `request` is a request, or a model whose question the words `said` ask as the command line does.

    >>> plan = plan_encoder_serve("bge-base-en-v1.5", rate="300/s", input_tokens=128, slo="latency.p95<50ms")
    >>> plan.answer.latency["latency.p95"].value < 0.05
    True
    """
    asked = spoken(EncoderServeRequest, request, said)
    tables = with_owned(load_catalog() if catalog is None else catalog, tuple(asked.owned or ()))
    return in_full(encoder_answered(asked, *solved_encoder(asked, tables), tables), tables, asked)


def solved_encoder(
    request: EncoderServeRequest, tables: Catalog
) -> tuple[EncoderServeQuestion, EncoderServeSolution, EncoderChoices, float | None]:
    """The question with its solution, how it was read, and the confidence that nothing keeps and nobody asked for."""
    slo = latency_slo(request)
    choices = encoder_choices(request, tables)
    demand = demand_of(request, choices, slo)
    market = choices.market
    refuse_too_old(request, market.offers)
    purse, size = purse_of(request), sensible_size(request)
    question = EncoderServeQuestion(choices.model, market.instances, market.offers, demand, purse, size=size)
    said = request.confidence is not None
    kept, solution = solved_as_promised(question, lambda q: solve_serve(q, calibration_of(tables)), is_asked=said)
    return kept, solution, choices, missed_confidence(question, kept)


def encoder_answered(
    request: EncoderServeRequest,
    question: EncoderServeQuestion,
    solution: EncoderServeSolution,
    choices: EncoderChoices,
    missed_confidence: float | None,
    tables: Catalog,
) -> EncoderServePlan:
    """The plan of a solved question, with the alternatives that were not asked for."""
    demand = question.demand
    inputs = understood(request, choices, demand)
    notes = [*choices.notes, *request.notes, *failure_notes(demand), *cpu_notes(choices.model.asked, demand)]
    asked = Asked(inputs, digest(inputs, question.offers), notes, tables.sources, request.rows, missed_confidence)
    plan = answered_service(SERVICE, Context.of(question, solution), asked, request, tables)
    launches = service_launches(request.model, solution, len(plan.deployments))
    return plan.model_copy(update={"deployments": launched(plan.deployments, launches)})


def cpu_notes(question: EncoderQuestion, demand: Demand) -> list[str]:
    """Whether CPUs were measured doing as much work, of a text encoder; nobody prices them here."""
    if question.tower.takes is not Takes.TEXT or question.model.decoder is not None:
        return []
    asked = demand.workload.rate_requests_per_s * (1 + demand.headroom_ratio) * flop_per_input(question)
    ratio = asked / load_hosts()["encoding_flop_per_s"].value
    if ratio > 1:
        return []
    return [
        f"A machine without a GPU may do: the rate with its headroom is {ratio * PERCENT:.2g}% of the work that "
        "16 vCPUs of Intel Cascade Lake did with ONNX (bge-small, benchmark of Infinity); "
        "latency and price are not planned"
    ]


def latency_slo(request: EncoderServeRequest) -> Slo:
    """Limits on latency; an encoder has no tokens to wait for."""
    slo = slo_of(request.slo)
    others = [limit.label for limit in slo.limits if limit.metric != LATENCY]
    if others:
        hint = "Its answer comes whole, after a pass: --slo 'latency.p95<50ms'."
        raise UsageError(f"{request.model} is not a decoder: {', '.join(others)} do not apply to it", hint=hint)
    return slo


def demand_of(request: EncoderServeRequest, choices: EncoderChoices, slo: Slo) -> Demand:
    """The rate with its slack, checked."""
    refuse_rate(request.rate)
    size = choices.model.asked.size
    return with_slack(request, Workload(size.tokens, size.output_tokens, request.rate, slo))


def understood(request: EncoderServeRequest, choices: EncoderChoices, demand: Demand) -> list[Input]:
    """The question as it was read, each part with its origin."""
    limits = ", ".join(f"{x.label} < {x.limit_s:g} s" for x in demand.workload.slo.limits)
    rows: list[InputRow] = [
        *encoder_rows(request, choices),
        ("rate", "rate", f"{request.rate:g}/s", True),
        ("objectives", "slo", limits or "none", request.slo),
        *market_rows(request, choices.market.offers),
        headroom_row(request, demand.headroom_ratio),
        ("least replicas", "min_replicas", str(demand.min_replicas), request.min_replicas),
        *slack_rows(request),
    ]
    return inputs_of(request, rows)
