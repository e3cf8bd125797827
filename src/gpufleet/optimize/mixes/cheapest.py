"""The cheapest mix that holds: of requests that are sent whole, or with lengths apart where that costs less."""

from __future__ import annotations

import math

from gpufleet.domain.mix import ROUNDING, Mix, MixProblem
from gpufleet.optimize.mixes.corrected import Rated, corrected_mix, cut_as, on_one_type, proved_to
from gpufleet.optimize.mixes.dominated import without_beaten
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.planned import as_planned, cheapest_of
from gpufleet.optimize.mixes.program import PROVED_GAP
from gpufleet.optimize.mixes.question import MixQuestion, posed_of
from gpufleet.optimize.mixes.search import Sought, cheaper_mix
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.records import dataclass

MOST_CUT = 12
"""Services whose lengths are told apart."""
WHOLE_SHARE, SEARCH_SHARE = 0.5, 0.8
"""Of the effort, until a mix that sends no length apart is found, and until the mix itself is.

The rest is for what limits, shares and machine types are worth (`worth`).
"""
ROUND_SHARE = 0.6
"""Of the effort that is left for the mix, for each round of it, where loads may need more than one."""
WORTH_NOTHING = 1e-4


@dataclass(frozen=True, eq=False)
class CheapestMix:
    """The cheapest mix that was found and the problem that it is of; `mix`: None where none keeps all limits.

    `whole`: the problem that sends no length apart; `num_buckets`: of the one that would. `is_proved_together`: no
    mix that does so costs less.
    """

    whole: Posed
    posed: Posed
    mix: Rated | None
    num_buckets: int
    is_proved_together: bool


def cheapest_mix_of(asked: MixQuestion) -> CheapestMix:
    """The cheapest mix of all services, with as few rows as keep its cost."""
    whole = posed_of(asked, is_cut=False)
    found = sound_mix(whole, asked.effort.until(WHOLE_SHARE), start_of(asked, whole))
    cut = whole if len(asked.services) > MOST_CUT else posed_of(asked)
    posed, best = (whole, found) if cut is whole else with_lengths_apart(asked, whole, found, cut)
    is_together = found is not None and found.mix.gap_ratio < PROVED_GAP and posed is whole
    return CheapestMix(whole, posed, best, cut.problem.num_buckets, is_together)


def is_over_budget(asked: MixQuestion, found: Rated) -> bool:
    """Whether the cheapest mix that was found costs more than may be spent."""
    usd = float(found.mix.machines @ found.problem.usd_per_hour)
    return usd > asked.terms.most_usd_per_hour * (1 + ROUNDING)


def with_lengths_apart(asked: MixQuestion, whole: Posed, found: Rated | None, cut: Posed) -> tuple[Posed, Rated | None]:
    """A mix that sends lengths apart, with its problem, where it costs less than one that does not."""
    start = start_of(asked, cut) if found is None else cut_as(cut, whole, found)
    known_usd = math.inf if found is None else found.mix.usd_per_hour
    routed = sound_mix(cut, asked.effort.until(SEARCH_SHARE), start, known_usd)
    if found is None or (routed is not None and routed.mix.usd_per_hour < found.mix.usd_per_hour - WORTH_NOTHING):
        return cut, routed
    least = found.mix.least_usd_per_hour
    return whole, found if routed is None else proved_to(found, min(least, routed.mix.least_usd_per_hour))


def found_mix(asked: MixQuestion, posed: Posed) -> Rated | None:
    """The cheapest sound mix that was found; None where none keeps all limits."""
    return sound_mix(posed, asked.effort.until(SEARCH_SHARE), start_of(asked, posed))


def start_of(asked: MixQuestion, posed: Posed) -> Rated | None:
    """A mix that holds: the plan of `plan serve`, or one machine type for each service, whichever costs less."""
    return cheapest_of(as_planned(posed, asked.plan), on_one_type(posed))


def sound_mix(posed: Posed, effort: Effort, first: Rated | None, known_usd_per_hour: float = math.inf) -> Rated | None:
    """The cheapest mix that holds as its requests are mixed, as far as the effort allows; `first`: one that does.

    `known_usd_per_hour`: of a mix that this problem cannot hold; none that costs as much is looked for.
    """

    has_solved, is_exact = False, all(len(service.buckets) == 1 for service in posed.services)

    def solve(problem: MixProblem, best: Mix | None) -> Sought | None:
        nonlocal has_solved
        if has_solved and effort.is_over:
            return None
        has_solved = True
        known_usd = min(known_usd_per_hour, math.inf if best is None else best.usd_per_hour)
        return cheaper_mix(without_beaten(problem), effort.part(1.0 if is_exact else ROUND_SHARE), known_usd)

    return corrected_mix(posed, solve, first)
