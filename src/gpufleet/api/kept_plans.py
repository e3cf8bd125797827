"""A plan that keeps its limits when requests are replayed, on no more machines than that takes.

Where it breaks one at the expected speed, it is asked again for a busier stretch than its machines carry, until the
replay keeps it. Then draws of the engine's speed size it, up or down: how many times what the closed form says a copy
of the answer carries there is known of such copies, and the question is asked again with it, until its answer is one
of those. The question of the kept plan says both, so it can be asked again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpufleet.answers.decoder_service import SERVICE
from gpufleet.answers.service_plan import Context, deployment
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.envelope import judged
from gpufleet.api.plans import answered_beside_today
from gpufleet.api.serve_questions import Prepared
from gpufleet.api.verification import broken_limits, enough_replicas, machines_with_spares, ways_to_arrive
from gpufleet.domain.requests import Requests
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.helping import is_sensible
from gpufleet.optimize.service import solve_serve
from gpufleet.records import dataclass
from gpufleet.report.numbers import usd_per_hour
from gpufleet.results.levers import FlipWinner
from gpufleet.results.plan import Deployment

JUST_MORE, FIRST_GROWTH, MOST_GROWTH, NEAR_RATIO = 1 + 1e-6, 1.05, 4.0, 1.02
MOST_SIZED = 12
"""Kinds of copies that draws size at most: where each makes another the answer, the plan stays as it was."""
NO_MIX = "Two offers together are not replayed: this plan is of one offer"
MIX_UNSEEN = "Two offers together are not replayed: whether they keep the limits was not checked"


@dataclass(frozen=True, eq=False)
class Tried:
    """A plan for a busiest rate: what it rents first, what that carries, and which limits the replay breaks."""

    prepared: Prepared
    carried_per_s: float
    broken: tuple[str, ...]

    @property
    def is_kept(self) -> bool:
        """Whether the replay breaks none."""
        return not self.broken


def kept_in_replay(plan: ServeAnswer, trace: Requests | None) -> ServeAnswer:
    """The plan with its replay, sized by it; or the cheapest for a busier stretch whose replay keeps every limit.

    Where none is found up to MOST_GROWTH times what the first carries, the plan stands as it was, with the replay that
    it breaks.
    """
    prepared: Prepared = plan._prepared
    if not plan.deployments:
        return plan if plan.mix is None else plan.model_copy(update={"notes": [MIX_UNSEEN, *plan.notes]})
    first, promised = tried(prepared, trace), prepared.question.demand
    kept = first if first.is_kept else least_kept(lambda rate: at_busiest(prepared, rate, trace), first)
    if kept is None:
        return replayed(plan, trace, promised)
    sized = sized_by_draws(kept.prepared, trace, promised)
    repaired = without_mix(plan if sized is prepared else answered_beside_today(sized))
    if not first.is_kept:
        broken = ", ".join(first.broken)
        told = f"Replayed one by one, {bought(plan.answer)} breaks {broken}: this plan keeps every limit"
        repaired = repaired.model_copy(update={"notes": [told, *repaired.notes]})
    return replayed(repaired, trace, promised, None if sized is kept.prepared else answer_of(kept.prepared))


def replayed(
    plan: ServeAnswer, trace: Requests | None, promised: Demand, planned: Deployment | None = None
) -> ServeAnswer:
    """The plan beside the replay of its answer and of the next two; `planned`: what draws made another answer of."""
    found = plan.verify(trace, promised)
    if planned is not None and found.drawn is not None:
        before = FlipWinner(**{name: getattr(planned, name) for name in FlipWinner.model_fields})
        found = found.model_copy(update={"drawn": found.drawn.model_copy(update={"planned": before})})
    return judged(plan.model_copy(update={"verification": found}))


def sized_by_draws(prepared: Prepared, trace: Requests | None, promised: Demand) -> Prepared:
    """The question that says what copies of its answer carry in draws of their speed, as far as it changes machines.

    The same question where draws ask for what is planned, or where nothing on offer of sensible size keeps them.
    """
    found = prepared
    for _ in range(MOST_SIZED):
        first, known = found.solution.ranked[0].placement, dict(found.request.played or {})
        name = found.solution.copies.played_name(first.row)
        if name in known:
            return found
        answer, demand = answer_of(found), found.question.demand
        how = ways_to_arrive(found.question.model.arch, demand.workload, found.tables, trace, found.request)
        enough = enough_replicas(answer, how, promised)
        if enough is not None and machines_with_spares(answer, enough, demand) == answer.instance_count:
            return found
        carried = float(found.solution.found.requests_per_s[first.row])
        known[name] = JUST_MORE * demand.planned_requests_per_s / carried / (enough or MOST_GROWTH * answer.replicas)
        again = with_played(found, known)
        if not again.solution.ranked or not is_sensible(again.question, again.solution):
            return prepared
        found = again
    return prepared


def with_played(prepared: Prepared, played: Mapping[str, float]) -> Prepared:
    """The same question where copies carry what they did in a replay."""
    question = prepared.question
    demand = replace(question.demand, played=tuple(sorted(played.items())))
    question = replace(question, demand=demand)
    request = replace(prepared.request, played=played)
    return replace(prepared, request=request, question=question, solution=solve_serve(question, prepared.calibration))


def without_mix(plan: ServeAnswer) -> ServeAnswer:
    """The plan of one offer, where two together would cost less: those are not replayed."""
    return plan if plan.mix is None else plan.model_copy(update={"mix": None, "notes": [NO_MIX, *plan.notes]})


def bought(d: Deployment) -> str:
    """What is rented, in words."""
    return f"{d.instance_count}x {d.cloud} {d.instance} ({usd_per_hour(d.usd_per_hour)})"


def least_kept(at: Callable[[float], Tried | None], broken: Tried) -> Tried | None:
    """The plan for the least busiest rate that is kept, found by growing steps and then by halving to 2 %."""
    low, rate, growth = broken.carried_per_s, broken.carried_per_s * JUST_MORE, FIRST_GROWTH
    most = broken.carried_per_s * MOST_GROWTH
    kept = at(rate)
    while kept is not None and not kept.is_kept:
        low = kept.carried_per_s
        if rate >= most or low >= most:
            return None
        rate, growth = min(max(low * JUST_MORE, rate * growth), most), growth**2
        kept = at(rate)
    while kept is not None and rate > low * NEAR_RATIO:
        middle = math.sqrt(low * rate)
        found = at(middle)
        if found is not None and found.is_kept:
            kept, rate = found, middle
        else:
            low = middle if found is None else max(middle, found.carried_per_s)
    return kept


def at_busiest(prepared: Prepared, rate_per_s: float, trace: Requests | None) -> Tried | None:
    """The same question for a busier stretch, replayed; None where no offer alone carries it."""
    question = prepared.question
    busier = replace(question, demand=replace(question.demand, busiest_requests_per_s=rate_per_s))
    solution = solve_serve(busier, prepared.calibration)
    request = replace(prepared.request, busiest_rate=rate_per_s)
    again = replace(prepared, request=request, question=busier, solution=solution)
    return tried(again, trace) if solution.ranked else None


def tried(prepared: Prepared, trace: Requests | None) -> Tried:
    """The first answer of a question, replayed."""
    question, solution = prepared.question, prepared.solution
    first, demand = solution.ranked[0], question.demand
    working = first.placement.instance_count - demand.spare_machines
    working -= math.ceil(working / demand.zones) if demand.zones > 1 else 0
    replicas = first.placement.replicas / first.placement.instance_count * working
    carried = replicas * float(solution.found.requests_per_s[first.placement.row])
    how = ways_to_arrive(question.model.arch, demand.workload, prepared.tables, trace, prepared.request)
    return Tried(prepared, carried, broken_limits(answer_of(prepared), how))


def answer_of(prepared: Prepared) -> Deployment:
    """The first answer of a question."""
    return deployment(SERVICE, Context.of(prepared.question, prepared.solution), prepared.solution.ranked[0])
