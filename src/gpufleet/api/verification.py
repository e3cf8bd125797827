"""Whether a plan holds when its requests are replayed one by one, and how many replicas it takes where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.answers.simulation import objective_of
from gpufleet.api.simulated_copies import CopyQuestion, FoundCopy, copy_in, copy_of
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.confidence import EXPECTED, HIGH_END
from gpufleet.domain.requests import Requests
from gpufleet.domain.routing import ROUTINGS
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.optimize import placement
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.demand import Demand
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.request_mix import mix_of
from gpufleet.performance.step import StepModel
from gpufleet.questions.fields import WriterRequest
from gpufleet.records import dataclass
from gpufleet.results.plan import Deployment
from gpufleet.results.verification import DrawnSpeeds, Verification, VerifiedDeployment, VerifiedObjective
from gpufleet.simulate.cluster import Cluster, Member, replay
from gpufleet.simulate.generated import requests_of_workload
from gpufleet.simulate.metrics import LimitMeasured, measured
from gpufleet.simulate.reshape import at_rate, repeated, thinned

POISSON, TRACE = "Poisson", "trace"
NUM_VERIFIED, NUM_REQUESTS, SEED = 3, 20_000, 0
MOST_MEMBERS = 12
"""More replicas are played by so many at their share of the rate; four times as many wait some 5 % less at p99."""
MOST_GROWTH, NUM_DRAWS = 3, 20


@dataclass(frozen=True, eq=False)
class Verifying:
    """What is replayed: the model, and its requests at the planned rate, drawn or those of a trace."""

    arch: Architecture
    workload: Workload
    tables: Catalog
    request: WriterRequest | None = None
    seen: Requests | None = None

    @property
    def arrivals(self) -> str:
        """How requests come."""
        return POISSON if self.seen is None else TRACE

    def requests(self, share: float) -> Requests:
        """Such a share of all requests, the same for every deployment."""
        generator, rate = np.random.default_rng(SEED), self.workload.rate_requests_per_s
        if self.seen is None:
            return requests_of_workload(self.workload.at_rate(rate * share), generator, NUM_REQUESTS)
        own = repeated(at_rate(self.seen, rate), max(len(self.seen), NUM_REQUESTS / share))
        return own if share == 1 else thinned(own, generator, share)

    def copy(self, d: Deployment, requests: Requests) -> FoundCopy:
        """A copy of a deployment that holds such requests."""
        return copy_of(copy_in(d, CopyQuestion(self.arch, ""), self.request), requests, catalog=self.tables)


def verification(
    deployments: list[Deployment],
    arch: Architecture,
    workload: Workload,
    tables: Catalog,
    seen: Requests | None,
    promised: Demand,
    request: WriterRequest | None = None,
) -> Verification:
    """The answer and the next two, under Poisson arrivals and under those that were seen, at the planned rate.

    The answer is also played in draws of its engine's speed, one for all copies, and on as few machines as keep what
    is `promised`. Engines are started as the `request` says.
    """
    asked = ways_to_arrive(arch, workload, tables, seen, request)
    rows = [verified(d, how) for d in deployments[:NUM_VERIFIED] for how in asked]
    drawn = drawn_speeds(deployments[0], asked, promised) if deployments else None
    return Verification(deployments=rows, routing=ROUTINGS[0], seed=SEED, drawn=drawn)


def drawn_speeds(d: Deployment, ways: Sequence[Verifying], promised: Demand) -> DrawnSpeeds:
    """In how many draws of the engine's speed the answer keeps every limit, and the fewest machines that do."""
    slow = SlowEnd.of(d, ways[0])
    broken = fewest_replicas(
        lambda n: not all(keeps(d, slow.dilated(how, (n - 0.5) / NUM_DRAWS, 1.0), d.replicas) for how in ways),
        0,
        NUM_DRAWS,
    )
    fewest = enough_replicas(d, ways, promised)
    machines = None if fewest is None else machines_with_spares(d, fewest, promised)
    other = machines if machines != d.instance_count else None
    return DrawnSpeeds(
        num_draws=NUM_DRAWS,
        kept_draws=NUM_DRAWS if broken is None else broken - 1,
        confidence=promised.confidence,
        sufficient_instance_count=other,
        sufficient_usd_per_hour=None if other is None else d.usd_per_hour * other / d.instance_count,
    )


def enough_replicas(d: Deployment, ways: Sequence[Verifying], promised: Demand) -> int | None:
    """The fewest replicas that keep every limit at the speed that the confidence plans for, and as expected carry what
    capacity is bought for; None where over thrice those of the plan do not.
    """
    slow = SlowEnd.of(d, ways[0])

    def suffices(replicas: int) -> bool:
        asked = ((promised.confidence, 1.0), (EXPECTED, promised.planned_ratio))
        return all(keeps(d, slow.dilated(how, *speed_and_load), replicas) for speed_and_load in asked for how in ways)

    return fewest_replicas(suffices, 0, d.replicas) or fewest_replicas(suffices, d.replicas, MOST_GROWTH * d.replicas)


def machines_with_spares(d: Deployment, replicas: int, promised: Demand) -> int:
    """Machines that hold so many replicas, with those of a least number and those that may fail."""
    each, alike = np.array([d.replicas // d.instance_count]), np.ones(1)
    return int(placement.machines_for(float(replicas), each, alike, promised)[0])


@dataclass(frozen=True)
class SlowEnd:
    """How many times later than expected first tokens and steps of a deployment are at the high end of their range."""

    ttft_ratio: float
    tpot_ratio: float

    @classmethod
    def of(cls, d: Deployment, how: Verifying) -> SlowEnd:
        """Of its copy at the batch that it is planned to run."""
        candidates = how.copy(d, how.requests(1.0)).candidates
        model = StepModel.build(how.arch, candidates, calibration_of(how.tables))
        lengths = mix_of(how.workload).lengths
        caution = Caution.at(HIGH_END, model, np.array([max(d.batch, 1.0)]), lengths)
        assert caution is not None, "the high end is later than expected"
        return cls(float(caution.ttft_ratio[0, 0]), float(caution.tpot_ratio[0, 0]))

    def dilated(self, how: Verifying, share: float, more: float) -> Verifying:
        """The same requests where such a share of all draws is faster, and so many times as many of them come.

        Steps that take s times as long meet requests as the expected ones meet them s times as fast, all times s times
        later: rates grow and limits shrink by that.
        """
        power = float(normal_quantile(share) / normal_quantile(HIGH_END))
        ttft, tpot = self.ttft_ratio**power, self.tpot_ratio**power
        workload = how.workload.at_rate(how.workload.rate_requests_per_s * tpot * more)

        def tighter(slo: Slo) -> Slo:
            later = ((x, ttft if x.metric == "ttft" else tpot) for x in slo.limits)
            return Slo(tuple(replace(x, limit_s=x.limit_s / ratio) for x, ratio in later))

        classes = tuple(replace(c, slo=tighter(c.slo)) for c in workload.classes)
        return replace(how, workload=replace(workload, slo=tighter(workload.slo), classes=classes))


def ways_to_arrive(
    arch: Architecture, workload: Workload, tables: Catalog, seen: Requests | None, request: WriterRequest | None
) -> list[Verifying]:
    """Poisson arrivals, and those that were seen."""
    drawn = Verifying(arch, workload, tables, request)
    return [drawn] if seen is None or not seen.span_s else [drawn, replace(drawn, seen=seen)]


def broken_limits(deployment: Deployment, ways: Sequence[Verifying]) -> tuple[str, ...]:
    """The limits that a deployment breaks under any of some arrivals."""
    found = [limit for how in ways for limit in objectives_with(deployment, how, deployment.replicas)]
    return tuple(dict.fromkeys(limit.limit.label for limit in found if not limit.is_kept))


def verified(deployment: Deployment, how: Verifying) -> VerifiedDeployment:
    """One deployment: what came of its objectives, and what it takes where one breaks."""
    found = objectives_with(deployment, how, deployment.replicas)
    most = deployment.replicas * MOST_GROWTH
    is_kept = all(limit.is_kept for limit in found)
    needed = None if is_kept else fewest_replicas(lambda n: keeps(deployment, how, n), deployment.replicas, most)
    machines = None if needed is None else machines_for(deployment, needed)
    return VerifiedDeployment(
        cloud=deployment.cloud,
        region=deployment.region,
        instance=deployment.instance,
        instance_count=deployment.instance_count,
        replicas=deployment.replicas,
        arrivals=how.arrivals,
        num_requests=NUM_REQUESTS,
        objectives=[beside_plan(limit, deployment) for limit in found],
        is_kept=is_kept,
        needed_replicas=needed,
        needed_instance_count=machines,
        needed_usd_per_hour=None if machines is None else machines * deployment.price_per_instance_usd_per_hour,
        most_replicas=most,
    )


def fewest_replicas(is_enough: Callable[[int], bool], too_few: int, most: int) -> int | None:
    """The fewest replicas that suffice, found by halving; None where not even the most do.

    >>> fewest_replicas(lambda n: n >= 7, 4, 12), fewest_replicas(lambda n: n >= 70, 4, 12)
    (7, None)
    """
    if not is_enough(most):
        return None
    while most - too_few > 1:
        middle = (too_few + most) // 2
        too_few, most = (too_few, middle) if is_enough(middle) else (middle, most)
    return most


def keeps(deployment: Deployment, how: Verifying, replicas: int) -> bool:
    """Whether so many replicas keep every objective."""
    return all(limit.is_kept for limit in objectives_with(deployment, how, replicas))


def objectives_with(deployment: Deployment, how: Verifying, replicas: int) -> tuple[LimitMeasured, ...]:
    """What comes of the objectives on so many replicas of a deployment."""
    members = min(replicas, MOST_MEMBERS)
    requests = how.requests(members / replicas)
    copy = how.copy(deployment, requests).copy
    happened = replay(Cluster((copy,), (Member(),) * members), requests, np.random.default_rng(SEED))
    return measured(happened, how.workload.slo).limits


def machines_for(deployment: Deployment, replicas: int) -> int:
    """Machines that hold so many replicas."""
    on_one = math.floor(deployment.gpus_per_instance / deployment.gpus_per_replica)
    if on_one >= 1:
        return math.ceil(replicas / on_one)
    return math.ceil(replicas * deployment.instance_count / deployment.replicas)


def beside_plan(found: LimitMeasured, deployment: Deployment) -> VerifiedObjective:
    """An objective beside what was planned for it."""
    label = found.limit.label
    return VerifiedObjective(
        planned=deployment.latency[label], replayed=objective_of(found, deployment.grade, has_ranges=True)
    )
