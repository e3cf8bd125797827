"""The cheapest two offers together, against trying every pair, layout and number of machines one by one."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest
from tests.effort import cases
from tests.properties.random_questions import Dice, shipped

from gpufleet.answers.decoder_service import mixed_deployment
from gpufleet.api import ServeRequest
from gpufleet.api.plans import plan_serve
from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import GpuQuota, Offer
from gpufleet.optimize.contest import key_of
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.dated import solved_on_dated
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.mix import cheapest_mix
from gpufleet.optimize.placement import place
from gpufleet.optimize.service import solve_serve

pytestmark = pytest.mark.slow
NUM_MARKETS, MOST_OFFERS = cases(32, 40), 7
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b")
SMALL_MARKETS, ANSWERED = range(NUM_MARKETS), (2, 11, 28, 30)
SHARED_QUOTAS = range(1020, 1020 + NUM_MARKETS // 2)


Layout = tuple[int, float]


def market(seed: int) -> tuple[ServeRequest, Catalog]:
    """A few offers, most of them with a quota, and a question that the smallest quotas do not serve."""
    dice = random.Random(seed)
    known = {(i.cloud, i.name): i for i in shipped().instances.values() if i.gpu_count >= 1}
    offers = [o for o in shipped().offers if (o.cloud, o.instance) in known and o.price_kind in ("on_demand", "spot")]
    chosen = [bounded(dice, o) for o in dice.sample(offers, MOST_OFFERS)]
    request = ServeRequest(
        dice.choice(MODELS),
        round(10 ** dice.uniform(0.5, 1.8), 2),
        float(dice.randint(200, 2000)),
        float(dice.randint(50, 400)),
        "tpot.p95<100ms" if dice.random() < 0.7 else None,
        pricing=["on_demand", "spot"],
        headroom=dice.choice([0.0, 0.2]),
        min_replicas=dice.choice([None, None, 3, 9]),
        spare_machines=dice.choice([None, None, 1, 3]),
        zones=dice.choice([None, None, 3]),
        confidence=0.5,
    )
    if seed in SHARED_QUOTAS:
        chosen = sharing_gpus(dice, dice.sample(offers, 200))
    return request, replace(shipped(), offers=tuple(chosen))


def sharing_gpus(dice: Dice, offers: list[Offer]) -> list[Offer]:
    """Offers of which all of one GPU share a quota, whatever their machine type."""
    machine = {o: shipped().instances[o.cloud, o.instance] for o in offers}
    quotas = {
        name: dice.choice([4, 8, 12, 16, 24])
        for name, _ in Counter(m.accelerator for m in machine.values()).most_common(2)
    }
    kept = [o for name in quotas for o in [o for o in offers if machine[o].accelerator == name][:4]]
    return [replace(o, gpu_quotas=(quota_of(machine[o], quotas),)) for o in kept]


def quota_of(machine: Instance, quotas: dict[str, int]) -> GpuQuota:
    return GpuQuota(machine.accelerator, quotas[machine.accelerator], machine.gpu_count)


def bounded(dice: Dice, offer: Offer) -> Offer:
    return replace(offer, max_instances=dice.choice([None, 1, 2, 3, 5, 9]))


@cache
def solved(seed: int) -> tuple[WriterQuestion, WriterSolution]:
    request, tables = market(seed)
    question, _ = serve_question(request, architecture_of(request), tables)
    return solved_on_dated(question, lambda asked: solve_serve(asked, calibration_of(tables)))


def needed_alone(question: WriterQuestion, solution: WriterSolution, offer: Offer) -> float:
    instance = next(i for i in question.instances if (i.cloud, i.name) == (offer.cloud, offer.instance))
    placed = place(instance, solution.copies, solution.found, question.demand)
    return math.inf if placed is None else placed.instance_count


def layouts(question: WriterQuestion, solution: WriterSolution, offer: Offer) -> set[Layout]:
    """(replicas, requests/s) of one machine, for every candidate that it holds."""
    instance = next(i for i in question.instances if (i.cloud, i.name) == (offer.cloud, offer.instance))
    hosted = solution.copies.on(instance)
    rows = hosted[solution.found.is_feasible[hosted]]
    each = [int(instance.gpu_count // solution.copies.candidates.num_devices[row]) for row in rows]
    return {(n, n * float(solution.found.requests_per_s[row])) for n, row in zip(each, rows, strict=True)}


def survives(
    question: WriterQuestion, counts: tuple[int, int], one: tuple[int, float], other: tuple[int, float]
) -> bool:
    """Rate and replicas hold whichever spare machines fail, and without the fullest zone."""
    demand = question.demand
    for lost in range(min(demand.spare_machines, counts[0]) + 1):
        left = [counts[0] - lost, counts[1] - min(demand.spare_machines - lost, counts[1])]
        left = [n if demand.zones == 1 else n - math.ceil(n / demand.zones) for n in left]
        if left[0] * one[1] + left[1] * other[1] < demand.planned_requests_per_s * (1 - 1e-12):
            return False
        if left[0] * one[0] + left[1] * other[0] < demand.min_replicas:
            return False
    return True


def cheapest_by_trying(question: WriterQuestion, solution: WriterSolution) -> float:
    """USD per hour of the cheapest pair, every pair, layout and number tried."""
    alone = {offer: needed_alone(question, solution, offer) for offer in question.offers}
    best = math.inf
    for scarce, partner in permutations(question.offers, 2):
        if scarce.most_instances is None or scarce.most_instances >= alone[scarce]:
            continue
        if key_of(scarce) == key_of(partner) or math.isinf(alone[scarce] + alone[partner]):
            continue
        had = math.inf if partner.most_instances is None else partner.most_instances
        most = int(min(had, alone[partner]))
        for first in range(1, scarce.most_instances + 1):
            for second in range(1, most + 1):
                if is_over_a_shared_quota((scarce, first), (partner, second)):
                    continue
                usd = first * effective_price(scarce) + second * effective_price(partner)
                if usd < best and any(
                    survives(question, (first, second), one, other)
                    for one in layouts(question, solution, scarce)
                    for other in layouts(question, solution, partner)
                ):
                    best = usd
    return best


def is_over_a_shared_quota(*parts: tuple[Offer, int]) -> bool:
    taken: Counter[str] = Counter()
    for offer, count in parts:
        for quota in offer.gpu_quotas:
            taken[quota.name] += count * round(quota.gpus_per_machine)
    return any(taken[quota.name] > quota.max_gpus for offer, _ in parts for quota in offer.gpu_quotas)


@pytest.mark.parametrize("seed", [*SMALL_MARKETS, *SHARED_QUOTAS])
def test_no_pair_of_offers_is_cheaper_than_the_one_told(seed: int) -> None:
    question, solution = solved(seed)
    found = cheapest_mix(question, solution)
    assert (math.inf if found is None else found.usd_per_hour) == pytest.approx(cheapest_by_trying(question, solution))


def test_the_small_markets_have_mixes_of_every_sort() -> None:
    """Some with a plan of one offer beside, some without, some without any mix: else nothing was tested."""
    found = [(cheapest_mix(*pair), bool(pair[1].ranked)) for pair in map(solved, SMALL_MARKETS)]
    assert {(mix is not None, is_served) for mix, is_served in found} >= {(True, True), (True, False), (False, True)}


def test_some_pairs_are_over_the_quota_that_they_share() -> None:
    """Each part within its bound, both together over it: else the shared quota was not tested."""
    dearer = 0
    for question, solution in map(solved, SHARED_QUOTAS):
        mix = cheapest_mix(question, solution)
        free = cheapest_mix(replace(question, offers=tuple(map(apart, question.offers))), solution)
        dearer += free is not None and (mix is None or mix.usd_per_hour > free.usd_per_hour + 1e-9)
        assert mix is None or free is not None
    assert dearer


def apart(offer: Offer) -> Offer:
    """The same with its bound alone, whatever others take."""
    return replace(offer, max_instances=offer.most_instances, gpu_quotas=())


def test_both_parts_carry_all_requests_and_keep_every_objective() -> None:
    mixes = [(cheapest_mix(*solved(seed)), solved(seed)) for seed in SMALL_MARKETS]
    for found, (question, solution) in mixes:
        if found is None:
            continue
        mix = mixed_deployment(question, solution, found, [None, None])
        rate = question.demand.workload.rate_requests_per_s
        assert sum(part.requests_per_s for part in mix.parts) == pytest.approx(rate)
        assert mix.usd_per_hour == pytest.approx(sum(part.deployment.usd_per_hour for part in mix.parts))
        one, other = (part.deployment for part in mix.parts)
        assert one.headroom_ratio == pytest.approx(other.headroom_ratio)
        assert one.headroom_ratio >= question.demand.headroom_ratio - 1e-9
        for d in (one, other):
            assert all(slack >= -1e-9 for slack in d.slack_ratio.values())


def test_a_plan_tells_a_mix_only_where_it_is_cheaper_than_every_offer_alone() -> None:
    told = {"alone": 0, "together": 0}
    for seed in ANSWERED:
        plan = plan_serve(*market(seed))
        if plan.mix is None:
            continue
        assert plan.is_feasible
        assert not plan.deployments or plan.mix.usd_per_hour < plan.answer.usd_per_hour
        told["alone" if plan.deployments else "together"] += 1
    assert all(told.values()), told
