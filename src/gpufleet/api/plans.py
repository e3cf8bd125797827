"""Which machines serve a workload within its objectives at least cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from os import PathLike
from typing import Any

from gpufleet.answers.beside import kept_by, notes_of_copy
from gpufleet.answers.decoder_service import SERVICE, mixed_deployment, with_rest_of_bill
from gpufleet.answers.levers import certainty_of, flips_of
from gpufleet.answers.plan_parts import Asked, price_days, price_sources
from gpufleet.answers.service_plan import Context, deployment, service_plan
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.demands import demand_notes
from gpufleet.api.envelope import in_full
from gpufleet.api.input_rows import digest
from gpufleet.api.launches import launched, serve_launches
from gpufleet.api.levers import other_ways, told_levers
from gpufleet.api.machine_notes import doubts_of, said_of_prices, supply_notes
from gpufleet.api.market import best_on_spot, missing_prices
from gpufleet.api.remarks import beyond_context, image_notes, unmeasured_kernels
from gpufleet.api.serve_questions import Prepared, choices_of, prepare, quality_costs, understood
from gpufleet.api.speculating import drafts_told, without_drafts
from gpufleet.api.spoken import spoken
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.slices import SLICE_NOTE
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.layout import Layout
from gpufleet.domain.offer import Offer
from gpufleet.domain.precision import FP8
from gpufleet.optimize.beside import beside_placements
from gpufleet.optimize.copies.decoder import Decoder, WriterQuestion, WriterSolution
from gpufleet.optimize.flips import Standing, price_flips
from gpufleet.optimize.market import BEYOND_QUOTA
from gpufleet.optimize.mix import Mix, cheapest_mix, may_mix
from gpufleet.optimize.own_pace import own_runs_note
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import ServeRequest
from gpufleet.results.plan import Deployment, ServePlan

NO_MIX = "Two offers together are not tried with quiet hours or a spot share"
NO_BILL = "Lines of bill_lines.csv are not added to two offers together"


def plan_serve(
    request: ServeRequest | str | PathLike[str] | Architecture, catalog: Catalog | None = None, **said: Any
) -> ServeAnswer:
    """The cheapest machines, layout and engine that keep every objective, ranked, with what was rejected and why.

    `request` is a request, or a model whose question the words `said` ask as the command line does.
    The answer can be asked further: `.why()`, `.why_not("L40S:4")`, `.what_flips()`, `.pareto()`, `.against_tokens()`.

    >>> plan = plan_serve("llama-3.1-8b", rate="5/s", input_tokens=1000, output_tokens=200, slo="tpot.p95<50ms")
    >>> plan.answer.usd_per_hour > 0
    True
    """
    asked = spoken(ServeRequest, request, said)
    prepared = prepare(asked, load_catalog() if catalog is None else catalog)
    return in_full(answered_beside_today(prepared), prepared.tables, asked)


def answered_beside_today(prepared: Prepared) -> ServeAnswer:
    """The plan of a question, beside what runs today where that is said."""
    plan = answered(prepared)
    if prepared.request.fleet_today is None:
        return plan
    from gpufleet.api.today import with_today

    return with_today(plan, prepared)


def answered(prepared: Prepared) -> ServeAnswer:
    """The plan of a question, with the alternatives that were not asked for."""
    request, tables, question, solution = prepared.request, prepared.tables, prepared.question, prepared.solution
    inputs, arch = understood(request, question), question.model.arch
    longest = question.demand.mix.longest_tokens
    of_model = [*image_notes(arch), *beyond_context(arch, longest), *unmeasured_kernels(arch), *arch.notes]
    sliced = [SLICE_NOTE] if request.fractions else []
    said = [*prepared.notes, *sliced, *request.notes, *demand_notes(question.demand), *of_model]
    missed = prepared.missed_confidence
    asked = Asked(inputs, digest(inputs, question.offers), said, tables.sources, request.rows, missed)
    context = Context.of(question, solution)
    plan = service_plan(SERVICE, context, asked).model_copy(update={"quality_costs": quality_costs(question.model)})
    plan = pooled(with_mix(plan, prepared), prepared)
    plan = plan.model_copy(update={"notes": [*said_of_prices(chosen_of(plan), tables, plan.deployments), *plan.notes]})
    if not plan.deployments:
        plan = plan.model_copy(update={"relaxations": [*plan.relaxations, *other_ways(prepared)]})
        unbilled = [NO_BILL] if plan.mix is not None and tables.bill_lines else []
        return ServeAnswer.of(plan.model_copy(update={"notes": [*plan.notes, *unbilled]}), prepared)
    spot = best_on_spot(request, solution.placements, tables)
    ranked = solution.ranked[: len(plan.deployments)]
    launches = serve_launches(request.model, question, solution, ranked)
    beside = beside_placements(question, solution.copies.candidates, ranked, prepared.calibration)
    standing, lower = Standing.of(question, solution), lower_precision_alternative(prepared, plan)
    alternatives = {
        "deployments": kept_by(launched(plan.deployments, launches), beside),
        "spot_alternative": spot and deployment(SERVICE, context, spot),
        "missing_prices": missing_prices(question, solution, request, tables),
        "flips": flips_of(price_flips(standing)),
        "certainty": certainty_of(question, solution, standing.contest) if request.confidence is None else [],
        "lower_precision_alternative": lower,
        **told_levers(prepared, standing.contest, lower),
    }
    whole = with_every_source(plan.model_copy(update=alternatives), question, tables)
    doubts = doubts_of((), [whole.spot_alternative, whole.lower_precision_alternative])
    had = [
        *drafts_notes(prepared, plan),
        *supply_notes(whole.deployments, tables, request.easily_had),
        *notes_of_copy(whole.answer.beside),
        *own_runs_notes(question, whole),
    ]
    whole = whole.model_copy(update={"notes": list(dict.fromkeys([*had, *whole.notes, *doubts]))})
    return ServeAnswer.of(with_rest_of_bill(whole, tables.bill_lines), prepared)


def drafts_notes(prepared: Prepared, plan: ServePlan) -> list[str]:
    """What drafts yield, and what the cheapest machines cost without them."""
    request, question = prepared.request, prepared.question
    if question.model.arch.draft is None:
        return []
    plain, arch = without_drafts(request), replace(question.model.arch, draft=None)
    others = replace(question, model=Decoder(arch, choices_of(plain, arch, prepared.tables)))
    ranked = solve_serve(others, prepared.calibration).ranked
    return drafts_told(question.model.choices.palette.engines, plan.answer, ranked[0].usd_per_hour if ranked else None)


def own_runs_notes(question: WriterQuestion, plan: ServePlan) -> list[str]:
    """What the user's own runs moved of what is ranked."""
    copies = [
        (d.gpu, d.weight_format, Layout(d.ranks.tp, d.ranks.pp, d.ranks.ep, d.ranks.attention_dp))
        for d in plan.deployments
        if d.ranks is not None
    ]
    engines, model = question.model.choices.palette.engines, question.model.name
    return [note for engine in engines if (note := own_runs_note(engine, model, copies))]


def pooled(plan: ServePlan, prepared: Prepared) -> ServePlan:
    """The plan with pools beside it where they were asked for; what finds them is loaded then."""
    if not prepared.request.disagg:
        return plan
    from gpufleet.api.pooled_plans import with_pools

    return with_pools(plan, prepared)


def chosen_of(plan: ServePlan) -> list[Deployment]:
    """What a plan advises to rent: its answer, and two offers together."""
    return [*plan.deployments[:1], *(part.deployment for part in (plan.mix.parts if plan.mix else ()))]


def with_every_source(plan: ServePlan, question: WriterQuestion, tables: Catalog) -> ServePlan:
    """The plan with the sources of every price that it says: of alternatives, mixes and who wins elsewhere too."""
    others = (plan.spot_alternative, plan.lower_precision_alternative, plan.undated_alternative)
    beside = [d for d in others if d is not None]
    beside += [part.deployment for part in plan.mix.parts] if plan.mix is not None else []
    winners = [flip.winner for flip in plan.flips or () if flip.winner is not None]
    named = {(w.cloud, w.region, w.instance, w.price_kind) for w in winners}
    named |= {(x.cloud, x.region, x.instance, x.price_kind) for x in plan.looser_limits}
    told = [x.winner for x in plan.certainty] + [x.winner for x in plan.levers]
    told += [w for edge in plan.edges for w in (edge.tighter, edge.looser)]
    named |= {(w.cloud, w.region, w.instance, w.price_kind) for w in told if w is not None}
    used = [*price_days([*plan.deployments, *beside]), *days_of(named, question.offers, tables.offers)]
    if plan.pools is not None:
        used += [(pool.price_source, pool.price_as_of) for pool in (plan.pools.prefill, plan.pools.decode)]
    return plan.model_copy(update={"price_sources": price_sources(used, tables.sources)})


def days_of(
    named: Collection[tuple[str, str, str, str]], asked: Sequence[Offer], known: Sequence[Offer]
) -> list[tuple[str, date]]:
    """Source and day of each of these prices: of the offers that were asked about, else of all that are known."""
    offers = [o for o in asked if key_of_price(o) in named]
    others = set(named) - {key_of_price(o) for o in offers}
    offers += [o for o in known if key_of_price(o) in others] if others else []
    return [(o.source, o.as_of) for o in offers]


def key_of_price(offer: Offer) -> tuple[str, str, str, str]:
    """What a plan says of a price: the machine type, where it is and how it is bought."""
    return offer.cloud, offer.region, offer.instance, offer.price_kind.value


def with_mix(plan: ServePlan, prepared: Prepared) -> ServePlan:
    """The plan with two offers together where they cost less than any alone; where nothing serves, why not two."""
    question, solution, tables = prepared.question, prepared.solution, prepared.tables
    found = cheapest_mix(question, solution)
    least = min((row.usd_per_hour for row in solution.ranked), default=math.inf)
    if found is None or found.usd_per_hour > question.purse.most_usd_per_hour:
        told = [] if plan.deployments else no_mix_notes(question, solution, found)
        return plan.model_copy(update={"notes": [*plan.notes, *told]})
    if found.usd_per_hour >= least:
        return plan
    launches = serve_launches(prepared.request.model, question, solution, [part.priced for part in found.parts])
    mix = mixed_deployment(question, solution, found, launches)
    sources = price_sources(price_days([*plan.deployments, *(part.deployment for part in mix.parts)]), tables.sources)
    return plan.model_copy(update={"mix": mix, "price_sources": sources})


def no_mix_notes(question: WriterQuestion, solution: WriterSolution, found: Mix | None) -> list[str]:
    """Why two offers together do not help where no offer has enough machines."""
    if found is not None:
        return [f"Two offers together would cost ${found.usd_per_hour:,.2f}/h, over the budget"]
    is_short = BEYOND_QUOTA in solution.rejections.counts
    return [NO_MIX] if is_short and not may_mix(question) else []


def lower_precision_alternative(prepared: Prepared, plan: ServePlan) -> Deployment | None:
    """What fp8 weights would cost, where the question kept to a 16-bit checkpoint and they are cheaper."""
    request, arch = prepared.request, prepared.question.model.arch
    if request.precision or request.allow_lower_precision or arch.weights.name not in ("bf16", "fp16"):
        return None
    choices = choices_of(replace(request, precision=(FP8.name,)), arch, prepared.tables)
    question = replace(prepared.question, model=Decoder(arch, choices))
    solution = solve_serve(question, prepared.calibration)
    if not solution.ranked or solution.ranked[0].usd_per_hour >= plan.answer.usd_per_hour:
        return None
    return deployment(SERVICE, Context.of(question, solution), solution.ranked[0])
