"""Where no mix keeps all limits: by how much the least of them have to give way; and how near to them a mix is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.domain.mix import Mix
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.mixes.corrected import Rated
from gpufleet.optimize.mixes.question import MixQuestion
from gpufleet.optimize.mixes.search import least_relaxation, nearest_shares
from gpufleet.optimize.mixes.terms import BUDGET, ON_SPOT, SHARE_OF, Terms
from gpufleet.optimize.mixes.ways import Posed

TOLERANCE, LEAST_TO_RELAX = "tolerance of shares", 0.1


class GivesWay(NamedTuple):
    """A limit by its name, and what it would have to be."""

    name: str
    limit: float
    needed: float
    is_share: bool = False


def given_budget(asked: MixQuestion, dear: Mix) -> GivesWay:
    """The budget that a mix needs."""
    return GivesWay(BUDGET, asked.terms.most_usd_per_hour, dear.usd_per_hour)


def given_shares(asked: MixQuestion, posed: Posed) -> Iterator[GivesWay]:
    """Shares of clouds as near as they can come, where they alone are why there is no mix."""
    near = nearest_shares(posed.problem, asked.effort) if posed.problem.shares else None
    if near is None:
        return
    found = weight_shares(posed, near[1], asked.terms)
    if asked.terms.tolerance_ratio is not None:
        yield GivesWay(name=TOLERANCE, is_share=True, limit=asked.terms.tolerance_ratio, needed=near[0])
    for share in posed.problem.shares:
        has = found[share.name.removeprefix(SHARE_OF)]
        yield GivesWay(name=share.name, is_share=True, limit=share.share_ratio, needed=has)


def given_limits(asked: MixQuestion, posed: Posed) -> Iterator[GivesWay]:
    """Limits that have to give way whatever clouds have, as little as possible."""
    problem = replace(posed.problem, shares=())
    relaxed = least_relaxation(problem, asked.effort.at_least(LEAST_TO_RELAX))
    if relaxed is None:
        return
    for name, excess in relaxed.excess.items():
        yield given_way(posed, name, excess) if name != ON_SPOT else given_spot(asked, posed, relaxed.mix)
    if BUDGET not in relaxed.excess and relaxed.mix.usd_per_hour > asked.terms.most_usd_per_hour:
        yield given_budget(asked, relaxed.mix)


def given_spot(asked: MixQuestion, posed: Posed, mix: Mix) -> GivesWay:
    """The share of spot machines that some mix keeps."""
    is_spot = np.array([offer.price_kind is PriceKind.SPOT for offer in posed.offers])
    has = float(mix.machines[is_spot].sum() / mix.machines.sum())
    return GivesWay(name=ON_SPOT, is_share=True, limit=asked.terms.most_spot_ratio, needed=has)


def given_way(posed: Posed, name: str, excess: float) -> GivesWay:
    """A limit in words, with what it would have to be."""
    kind, _, number = name.partition(" ")
    if kind == "machines" and number.isdecimal():
        offer, most = posed.offers[int(number)], float(posed.problem.most_machines[int(number)])
        return GivesWay(name=f"{offer.cloud} {offer.instance} {offer.region}", limit=most, needed=most + excess)
    limit = next(x for x in posed.problem.limits if x.name == name)
    return GivesWay(name=name, limit=limit.most, needed=limit.most + excess)


def weight_shares(posed: Posed, mix: Mix, terms: Terms) -> dict[str, float]:
    """The share of every cloud in what shares are of, the largest first."""
    gpus = np.array([i.gpu_count for i in posed.instances])
    weight = mix.machines * (gpus if terms.is_of_gpus else posed.problem.usd_per_hour)
    clouds = {o.cloud for o, w in zip(posed.offers, weight, strict=True) if w > 0} | {s.cloud for s in terms.shares}
    of = {c: sum(float(w) for o, w in zip(posed.offers, weight, strict=True) if o.cloud == c) for c in clouds}
    total = sum(of.values()) or 1.0
    return {c: of[c] / total for c in sorted(of, key=lambda c: -of[c])}


def quotas_used(terms: Terms, posed: Posed, found: Rated) -> dict[str, float]:
    """GPUs that count for each quota that was said."""
    said = {quota.name for quota in terms.quotas}
    return {x.name: float(x.per_machine @ found.mix.machines) for x in posed.problem.limits if x.name in said}
