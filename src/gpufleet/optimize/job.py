"""The batch question: which machines get a number of requests done by a deadline at least cost.

Whatever a model does with a request, `WorkRates` says how many a copy gets done at each batch and `Hosts` where it
runs: all that follows (waves, machines, interruptions, money) rests on these alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeAlias

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import NEVER, Interruptions, Spread
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.optimize.caution import doubt_ratio, planned_value, slow_ratio
from gpufleet.optimize.copies.protocol import C_co, Copies, Model, WorkRates
from gpufleet.optimize.market import BEYOND_QUOTA, NO_PRICE, effective_price
from gpufleet.optimize.placement import once_per_host
from gpufleet.optimize.played_rows import PlayedRows, type_of
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import M_co, ServeQuestion
from gpufleet.optimize.spot_plays import PlannedJob, SpotPlay, SpotPlays
from gpufleet.performance.uncertainty import Bounds
from gpufleet.pricing.commitment import TERM_KINDS, billed_s
from gpufleet.pricing.owned import running_usd_per_hour
from gpufleet.pricing.spot import elapsed_work_s, paid_work_s
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.units import HOUR

MOST_COUNTED, MACHINE_RATIO, MOST_MACHINES = 200, 1.02, 10_000
NOT_IN_TIME, LATE_ON_SPOT, BINDS_LONGER = Reason("late"), Reason("late_on_spot"), Reason("binds_longer")
SPOT_MACHINES = (*range(1, 9), *(n for power in range(3, 13) for n in (3 << (power - 1), 2 << power)))
"""Numbers of machines on spot that are played: each up to 8, then 12, 16, 24, 32, ..."""
Terms: TypeAlias = tuple[str, str, str, str | None, int | None]
ONE_MACHINE, DEADLINE, STARTUP, WAIT_FOR_SPOT = "one_machine", "deadline", "starting", "wait_for_spot"


@dataclass(frozen=True)
class Job:
    """So many requests, done within `deadline_s` of the start of the machines.

    Machines take `startup_s` before they work. The job is done in time if the work takes `headroom_ratio` longer than
    expected, and with `confidence` if it does not: 0.9 is the high end of the range of its time. `longest_ratio` is the
    longest answer over the mean one: the last wave waits for it. The job comes again every `period_s`; None: it runs
    once, and buys nothing for a term.
    """

    requests: float
    deadline_s: float
    startup_s: float
    headroom_ratio: float
    longest_ratio: float
    most_machines: int
    most_usd: float
    period_s: float | None
    confidence: float

    @property
    def held_s(self) -> float:
        """The time for which a machine that is paid round the clock is paid for one job."""
        return self.deadline_s if self.period_s is None else self.period_s


@dataclass(frozen=True)
class JobMarket:
    """A job, the offers to buy machines from, and how often spot machines are taken away; on drawn markets, `plays`."""

    job: Job
    offers: tuple[Offer, ...]
    interruptions: Interruptions
    plays: SpotPlays | None = None


@dataclass(frozen=True)
class BatchQuestion(Generic[M_co]):
    """A model with its offers and request lengths, the job, and how often spot machines are taken away.

    `num_rows` of the answer are looked at: so many are played on drawn spot markets, by `plays`.
    """

    service: ServeQuestion[M_co]
    job: Job
    interruptions: Interruptions
    plays: SpotPlays | None = None
    num_rows: int = 1

    @property
    def market(self) -> JobMarket:
        """The job in inputs of the model, of which a request may have several, and where machines are bought."""
        inputs = replace(self.job, requests=self.job.requests * self.service.model.inputs_per_request)
        return JobMarket(inputs, self.service.offers, self.interruptions, self.plays)


@dataclass(frozen=True)
class Hosts:
    """Machine types, the rows of `WorkRates` that each can host, and the GPUs of a copy of each row.

    A copy of a row is planned to work `slow_ratio` times as long as expected: 1 where the expected value is planned.
    """

    instances: Mapping[tuple[str, str], Instance]
    rows: Mapping[tuple[str, str], IntArray]
    num_devices: IntArray
    slow_ratio: FloatArray

    @classmethod
    def of(cls, instances: Iterable[Instance], copies: Copies, rates: WorkRates, confidence: float) -> Hosts:
        """Which copies that get anything done each machine type can host."""
        works = rates.best_per_s > 0
        hosted = once_per_host(tuple(instances), lambda i: (rows := copies.on(i))[works[rows]])
        high_ratio = copies.time_ratios(rates.best_batch)["latency"].high_ratio
        return cls(
            {(i.cloud, i.name): i for i, _ in hosted},
            {(i.cloud, i.name): rows for i, rows in hosted},
            np.asarray(copies.num_devices),
            slow_ratio(confidence, np.asarray(high_ratio)),
        )


@dataclass(frozen=True)
class JobPlacement:
    """A job on machines of one offer; `work_s` is what each of them works without interruption, as expected.

    It is planned to be `slow_ratio` times as long where the job is to be done in time with more confidence. `play` is
    what drawn spot markets make of it.
    """

    instance: Instance
    offer: Offer
    row: int
    machines: int
    replicas: int
    requests_per_replica: float
    work_s: float
    wave_s: float
    per_hour: Spread
    wait_s: Spread
    held_s: float
    slow_ratio: float
    play: SpotPlay | None = None

    def used_s(self, startup_s: float, work_s: float, per_hour: float) -> float:
        """Time that each machine runs for the job."""
        return float(paid_work_s(work_s, per_hour / HOUR, startup_s, self.wave_s / 2))

    def paid_s(self, startup_s: float, work_s: float, per_hour: float) -> float:
        """Time that each machine is paid for."""
        return float(billed_s(self.offer.price_kind, self.used_s(startup_s, work_s, per_hour), self.held_s))

    def elapsed_s(self, startup_s: float, work_s: float, per_hour: float, wait_s: float) -> float:
        """Time from the start to the end."""
        return float(elapsed_work_s(work_s, per_hour / HOUR, startup_s, self.wave_s / 2, wait_s))

    def planned_s(self, job: Job, work_s: float) -> float:
        """Time to the end that has to meet the deadline: with the headroom, or at the confidence of the job."""
        slow_s = work_s * max(1 + job.headroom_ratio, self.slow_ratio)
        per_hour, wait_s = (planned_value(job.confidence, spread) for spread in (self.per_hour, self.wait_s))
        return self.elapsed_s(job.startup_s, slow_s, per_hour, wait_s)

    def usd(self, paid_s: float) -> float:
        """What all machines cost where each is paid for such a time."""
        return self.machines * effective_price(self.offer) * paid_s / HOUR

    def running_usd(self, used_s: float) -> float | None:
        """What machines of one's own cost for running such a time, purchase aside; None of rented ones."""
        power = self.offer.own_power
        return None if power is None else self.machines * running_usd_per_hour(power) * used_s / HOUR


@dataclass(frozen=True)
class Late:
    """A job that the machines to be had do not get done in time: infinitely late where none can be had.

    `enough_machines` would do it, could they be had; None: no number does.
    """

    soonest_s: float
    enough_machines: int | None

    def miss(self, most: int | None, confidence: float = EXPECTED) -> Reason:
        """When the soonest is done, how many can be had, and how many would do."""
        hours_s = None if math.isinf(self.soonest_s) else self.soonest_s
        had = {"to_be_had": most, "confidence": confidence}
        return Reason.of("soonest", hours_s=hours_s, **had, enough_machines=self.enough_machines)


@dataclass(frozen=True)
class Tried:
    """What candidates do with numbers of machines: `machines` [choice], `per_machine` replicas [row], the rest by both.

    `done_s` is the time to the end with the headroom or at the confidence of the job, the later; `paid_s` what each
    machine is expected to be paid for.
    """

    machines: FloatArray
    per_machine: FloatArray
    requests: FloatArray
    work_s: FloatArray
    wave_s: FloatArray
    done_s: FloatArray
    paid_s: FloatArray


@dataclass(frozen=True, eq=False)
class BatchSolution(Generic[C_co]):
    """Copies that run, what they get done, and the job on each machine type, cheapest first.

    `undated`: the cheapest at a price without a date, or on spot of an old list, where it costs less than the first;
    `unmeasured`: the cheapest as expected, where the first counts less because its speed is surer.
    """

    copies: C_co
    rates: WorkRates
    ranked: list[JobPlacement]
    rejections: Rejections
    undated: JobPlacement | None = None
    unmeasured: JobPlacement | None = None


def solve_batch(question: BatchQuestion[Model[C_co]], calibration: Calibration) -> BatchSolution[C_co]:
    """Drop what breaks a rule or does not fit, find the best batch of the rest, join the offers."""
    rejections, service, market = Rejections(), question.service, question.market
    copies = service.model.copies(service.instances, service.demand, calibration, rejections)
    rates = copies.work_rates()
    hosts = Hosts.of(service.instances, copies, rates, market.job.confidence)
    placed = place_jobs(market, hosts, rates, rejections)
    ratios = copies.time_ratios(rates.best_batch)["latency"]

    rows = played_rows(market, ratios, copies.grades)

    def cheapest(of: Iterable[JobPlacement], num_rows: int) -> list[JobPlacement]:
        found = rows.cheapest(of, num_rows)
        count_late_on_spot(rows, found, market.job, rejections)
        return found

    dated = cheapest((p for p in placed if p.offer.is_dated), question.num_rows)
    ranked = within_usd(dated or cheapest(placed, question.num_rows), market.job, rejections)
    beside = cheapest((p for p in placed if not p.offer.is_dated), 1)[:1] if dated else []
    if_true = rows.cheaper_if_true(ranked, next(iter(beside), None))
    return BatchSolution(copies, rates, ranked, rejections, if_true, rows.cheaper_in_doubt(ranked))


def solve_promised_batch(
    question: BatchQuestion[Model[C_co]], calibration: Calibration, *, is_asked: bool
) -> tuple[Job, BatchSolution[C_co]]:
    """The solution and the job that it does: in time with a confidence that nobody asked for, or else as expected."""
    solution = solve_batch(question, calibration)
    if solution.ranked or is_asked or question.job.confidence == EXPECTED:
        return question.job, solution
    as_expected = replace(question.job, confidence=EXPECTED)
    return as_expected, solve_batch(replace(question, job=as_expected), calibration)


def work_s(rates: WorkRates, rows: IntArray, requests: FloatArray, longest_ratio: float) -> FloatArray:
    """Time that replicas take for `requests` each [row, choice]: full waves, then the rest and the longest answer.

    t = floor(n / B) B / rate + max(k / rate(k) L, (L - 1) B / rate), k = n mod B, L = longest / mean answer   [s]
    """
    batch, wave_s = rates.best_batch[rows][:, None], rates.wave_s(rows)[:, None]
    waves = np.floor(requests / batch)
    rest = requests - waves * batch
    at_rest = np.stack([np.interp(k, rates.batch, rates.requests_per_s[r]) for r, k in zip(rows, rest, strict=True)])
    rest_s = np.where(rest > 0, rest / np.maximum(at_rest, np.finfo(float).tiny), 0.0)
    return np.asarray(
        waves * wave_s + np.maximum(rest_s * longest_ratio, np.where(waves > 0, longest_ratio - 1, 0.0) * wave_s)
    )


def machine_choices(most: int) -> FloatArray:
    """Numbers of machines that are tried, the same for every job: each up to 200, then 2 % apart.

    More machines cost hardly more, as they work shorter: no number between is missed by more than 2 %.
    """
    steps = int(math.log(MOST_MACHINES / MOST_COUNTED) / math.log(MACHINE_RATIO)) + 1
    further = np.ceil(MOST_COUNTED * MACHINE_RATIO ** np.arange(1, steps + 1))
    choices = np.concatenate([np.arange(1, MOST_COUNTED + 1), np.minimum(further, MOST_MACHINES)])
    return np.asarray(np.unique(choices[choices <= most]), dtype=np.float64)


def place_jobs(market: JobMarket, hosts: Hosts, rates: WorkRates, rejections: Rejections) -> list[JobPlacement]:
    """The job through every offer by which it is done in time."""
    found: dict[Terms, list[JobPlacement] | Late] = {}
    placed = []
    for offer in buyable(market, hosts, rejections):
        key = (offer.cloud, offer.instance)
        if key in hosts.rows and len(hosts.rows[key]):
            terms = (*key, offer.price_kind.value, offer.interruption, offer.most_instances)
            if terms not in found:
                found[terms] = place_job(market, offer, hosts, rates)
            ways = found[terms]
            if isinstance(ways, list):
                placed += [p if p.offer is offer else replace(p, offer=offer) for p in ways]
    count_late(found, market.job, rejections)
    count_unsold(hosts, market.offers, rejections)
    return placed


def buyable(market: JobMarket, hosts: Hosts, rejections: Rejections) -> list[Offer]:
    """Offers that a job may buy: one that runs once buys no term, which is counted by machine type."""
    if market.job.period_s is not None:
        return list(market.offers)
    terms = {
        (o.cloud, o.instance, o.price_kind.value.replace("_", " "))
        for o in market.offers
        if o.price_kind in TERM_KINDS and len(hosts.rows.get((o.cloud, o.instance), ()))
    }
    for cloud, name, kind in sorted(terms):
        rejections.add(Rejection(BINDS_LONGER, f"{cloud} {name}, {kind}"))
    return [offer for offer in market.offers if offer.price_kind not in TERM_KINDS]


def place_job(market: JobMarket, offer: Offer, hosts: Hosts, rates: WorkRates) -> list[JobPlacement] | Late:
    """The candidate and number of machines that cost least and are done in time: of equals the fewest, the fastest.

    What is played on drawn markets costs least with a number that nobody knows before: there the best candidate of
    each of `SPOT_MACHINES`. Where none is in time, when the soonest is done and how many machines would do.
    """
    tried = try_machines(market, offer, hosts, rates, machine_choices(had_machines(market.job, offer)))
    cost = np.where(tried.done_s <= market.job.deadline_s, tried.machines * tried.paid_s, np.inf)
    if not np.isfinite(cost).any():
        enough = enough_machines(market, offer, hosts, rates)
        return Late(float(np.min(tried.done_s, initial=np.inf)), enough)
    machines = np.broadcast_to(tried.machines, cost.shape)
    order = np.lexsort((tried.done_s.ravel(), machines.ravel(), cost.ravel()))
    rows, numbers = np.unravel_index(order[np.isfinite(cost.ravel()[order])], cost.shape)
    if market.plays is not None and offer.price_kind is PriceKind.SPOT:
        _, first = np.unique(numbers, return_index=True)
        played = first[np.isin(tried.machines[numbers[first]], SPOT_MACHINES)]
    chosen = played if market.plays is not None and offer.price_kind is PriceKind.SPOT and len(played) else [0]
    return [placement(market, offer, hosts, tried, int(rows[i]), int(numbers[i])) for i in chosen]


def placement(market: JobMarket, offer: Offer, hosts: Hosts, tried: Tried, i: int, j: int) -> JobPlacement:
    """One of the candidates with one of the numbers of machines of an offer."""
    key, count = (offer.cloud, offer.instance), int(tried.machines[j])
    row, (rate, wait) = int(hosts.rows[key][i]), interruptions_of(market, offer)
    return JobPlacement(
        hosts.instances[key],
        offer,
        row,
        count,
        count * int(tried.per_machine[i]),
        float(tried.requests[i, j]),
        float(tried.work_s[i, j]),
        float(tried.wave_s[i]),
        rate,
        wait,
        market.job.held_s,
        float(hosts.slow_ratio[row]),
    )


def try_machines(market: JobMarket, offer: Offer, hosts: Hosts, rates: WorkRates, machines: FloatArray) -> Tried:
    """What each candidate does with each number of machines of an offer."""
    job, key = market.job, (offer.cloud, offer.instance)
    rows = hosts.rows[key]
    per_machine = np.floor(hosts.instances[key].gpu_count / hosts.num_devices[rows])
    requests = np.ceil(job.requests / (machines[None, :] * per_machine[:, None]))
    seconds = work_s(rates, rows, requests, job.longest_ratio)
    rate, wait = interruptions_of(market, offer)
    per_s, wave_s = rate.expected / HOUR, rates.wave_s(rows)
    planned = seconds * np.maximum(1 + job.headroom_ratio, hosts.slow_ratio[rows])[:, None]
    often, waited_s = (planned_value(job.confidence, spread) for spread in (rate, wait))
    done = elapsed_work_s(planned, often / HOUR, job.startup_s, wave_s[:, None] / 2, waited_s)
    used = paid_work_s(seconds, per_s, job.startup_s, wave_s[:, None] / 2)
    paid = np.asarray(billed_s(offer.price_kind, used, job.held_s))
    return Tried(machines, per_machine, requests, seconds, wave_s, np.asarray(done), paid)


def enough_machines(market: JobMarket, offer: Offer, hosts: Hosts, rates: WorkRates) -> int | None:
    """The fewest machines with which the job is done in time, could so many be had; None: no number does."""
    choices = machine_choices(MOST_MACHINES)
    first = first_in_time(market, try_machines(market, offer, hosts, rates, choices))
    if first is None:
        return None
    before = choices[choices < first]
    between = np.arange((before[-1] if len(before) else 0) + 1, first + 1)
    return first_in_time(market, try_machines(market, offer, hosts, rates, between))


def first_in_time(market: JobMarket, tried: Tried) -> int | None:
    """The fewest of the numbers of machines with which a candidate is done in time."""
    in_time = (tried.done_s <= market.job.deadline_s).any(axis=0)
    return int(tried.machines[np.argmax(in_time)]) if in_time.any() else None


def had_machines(job: Job, offer: Offer) -> int:
    """How many machines may be rented: by the job, and by a quota, a reservation or one's own rack."""
    most = offer.most_instances
    return job.most_machines if most is None else min(job.most_machines, most)


def interruptions_of(market: JobMarket, offer: Offer) -> tuple[Spread, Spread]:
    """Interruptions per hour, and the wait after each; none for what is not spot."""
    if offer.price_kind is not PriceKind.SPOT:
        return NEVER, NEVER
    return market.interruptions.per_hour(offer.interruption), market.interruptions.wait_s


def played_rows(market: JobMarket, ratios: Bounds, grades: Sequence[Grade]) -> PlayedRows[JobPlacement]:
    """What ranks the placements of a job, and plays those on spot."""
    job = market.job
    return PlayedRows(
        market.plays,
        job.confidence,
        job.deadline_s,
        lambda p: expected_usd(p, job),
        lambda p: doubt_ratio(grades[p.row], p.slow_ratio) * p.offer.age_ratio,
        lambda p: p.planned_s(job, p.work_s),
        lambda p: planned_job(p, job, ratios),
        lambda p, play: replace(p, play=play),
        {},
    )


def count_late_on_spot(
    rows: PlayedRows[JobPlacement], found: Iterable[JobPlacement], job: Job, rejections: Rejections
) -> None:
    """Count what is late on spot, however it is played."""
    for key in sorted(rows.late.keys() - {type_of(p) for p in found}):
        p, play = rows.late.pop(key)
        miss = Late(play.end_s(job.confidence), None).miss(had_machines(job, p.offer), job.confidence)
        rejections.add(Rejection(LATE_ON_SPOT, f"{p.offer.cloud} {p.offer.instance}, spot", miss))


def planned_job(p: JobPlacement, job: Job, ratios: Bounds) -> PlannedJob:
    """What is played of a placement."""
    work_s = Spread(p.work_s * float(ratios.low_ratio[p.row]), p.work_s, p.work_s * float(ratios.high_ratio[p.row]))
    return PlannedJob(p.offer, p.machines, work_s, job.startup_s, checkpoint_every_s=p.wave_s)


def expected_usd(p: JobPlacement, job: Job) -> float:
    """What the job is expected to cost."""
    if p.play is not None:
        return float(p.play.usd.mean())
    return p.usd(p.paid_s(job.startup_s, p.work_s, p.per_hour.expected))


def within_usd(placed: Sequence[JobPlacement], job: Job, rejections: Rejections) -> list[JobPlacement]:
    """What the budget pays for; the rest is counted with its price."""
    for p in placed:
        if (usd := expected_usd(p, job)) > job.most_usd:
            machines = f"{p.machines}x {p.offer.cloud} {p.offer.instance}"
            budget = Reason.of("over_job_budget", budget_usd=job.most_usd)
            rejections.add(Rejection(budget, machines, Reason.of("costs", usd=usd), usd))
    return [p for p in placed if expected_usd(p, job) <= job.most_usd]


def count_late(found: Mapping[Terms, list[JobPlacement] | Late], job: Job, rejections: Rejections) -> None:
    """Count the machine types that are not done in time, with when they would be and how many machines would do."""
    in_time = {terms[:3] for terms, p in found.items() if isinstance(p, list)}
    for (cloud, name, kind, _, most), p in found.items():
        if isinstance(p, Late) and (cloud, name, kind) not in in_time:
            machine, miss = f"{cloud} {name}, {kind.replace('_', ' ')}", p.miss(most, job.confidence)
            rejections.add(Rejection(late_reason(p, job, most), machine, miss, p.soonest_s))


def late_reason(late: Late, job: Job, most: int | None) -> Reason:
    """What keeps a job from being done in time: a quota, the cap of the question, or time that no machine saves."""
    if late.enough_machines is None:
        return NOT_IN_TIME
    if most is not None and most <= job.most_machines:
        return BEYOND_QUOTA
    return Reason.of("late_with_cap", cap_machines=job.most_machines)


def count_unsold(hosts: Hosts, offers: Iterable[Offer], rejections: Rejections) -> None:
    """Count machine types that would do the job but have no price under the chosen terms."""
    priced = {(o.cloud, o.instance) for o in offers}
    for cloud, name in sorted(key for key, rows in hosts.rows.items() if len(rows) and key not in priced):
        rejections.add(Rejection(NO_PRICE, f"{cloud} {name}"))


def what_binds(job: Job, p: JobPlacement) -> str:
    """Why not fewer machines: fewer would be late, it is one already, or they wait less for spot; else starts cost."""
    if p.machines == 1:
        return ONE_MACHINE
    fewer_s = p.work_s * p.machines / next_fewer(p.machines)
    if p.planned_s(job, fewer_s) > job.deadline_s:
        return DEADLINE
    return STARTUP if p.play is None else WAIT_FOR_SPOT


def next_fewer(machines: int) -> float:
    """The next smaller number of machines that was tried."""
    return float(machine_choices(machines)[-2])
