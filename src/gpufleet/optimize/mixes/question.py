"""A mix as it is asked: services, what it is held to and how long is searched; and the problem that this poses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.offer import Offer
from gpufleet.errors import Infeasible
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.mixes.corrected import may_be_had
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.planned import planned_offers
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.reach import Reach
from gpufleet.optimize.mixes.terms import Terms
from gpufleet.optimize.mixes.ways import Posed, Today, pose
from gpufleet.optimize.together import Together
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class MixQuestion:
    """Services, each with what measures it, their terms, how long is searched, and what `plan serve` makes of them.

    `by_answer`: requests are sent by a foretold answer too, not by their prompt alone. `reach`: where users are.
    """

    services: tuple[tuple[WriterQuestion, Calibration], ...]
    by_answer: bool
    terms: Terms
    today: Today
    effort: Effort
    plan: Together
    reach: Reach | None

    @property
    def offers(self) -> list[Offer]:
        """All offers of all services."""
        return list(dict.fromkeys(offer for question, _ in self.services for offer in question.offers))

    @property
    def posing_terms(self) -> Terms:
        """The terms of the programme. What costs least needs no budget there, unless something else is sought too."""
        only_cost_counts = not self.terms.shares and not self.today.leaving_usd_per_hour
        return replace(self.terms, most_usd_per_hour=math.inf) if only_cost_counts else self.terms

    def service(self, number: int, is_cut: bool) -> Service:
        """A service with its users, or in buckets of lengths, or whole."""
        question, calibration = self.services[number]
        if self.reach is not None:
            return Service.of_users(question, calibration, self.reach)
        return Service.of(question, calibration, self.by_answer, is_cut)


def posed_of(asked: MixQuestion, is_cut: bool = True) -> Posed:
    """The problem, with lengths cut or not; a service of which some length holds nowhere alone is sent as a whole."""
    services = [asked.service(s, is_cut) for s in range(len(asked.services))]
    terms, planned = asked.posing_terms, planned_offers(asked.plan)
    posed = pose(services, terms, asked.today, planned)
    lost = uncarried(posed) if is_cut and asked.reach is None else set[int]()
    if lost:
        services = [asked.service(s, is_cut=False) if s in lost else service for s, service in enumerate(services)]
        posed = pose(services, terms, asked.today, planned)
    for service in services:
        if not np.all((service.requests_per_s > 0).any(axis=1)):
            raise Infeasible(
                f"no machine type keeps the objectives of {service.question.model.name}",
                hint="'gpufleet plan serve' with these words says why.",
            )
    return posed


def uncarried(posed: Posed) -> set[int]:
    """Services with a bucket that no machine carries of which one may be bought."""
    problem = posed.problem
    each = np.eye(problem.num_offers)
    buyable = np.array([may_be_had(problem, machines) for machines in each], dtype=np.bool_)
    carried = (np.isfinite(problem.load_units) & buyable[problem.offer_of_way][None, :]).any(axis=1)
    return {int(s) for s in problem.service_of_bucket[~carried]}
