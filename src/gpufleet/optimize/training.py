"""Training runs: which machines train a model on so many tokens, in which layout, at least cost.

Every machine of a run waits for every other: a layout spans them all, one that stops stops all, and the work goes on
from the last checkpoint (`performance.restarts`). `training_search` finds the layouts; here are the numbers of machines
that are bought, the deadline and the money.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from operator import itemgetter

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import NEVER, Spread
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.layout.training import Cluster, coarse
from gpufleet.memory.training import checkpoint_bytes
from gpufleet.optimize.caution import doubt_ratio, planned_value, slow_ratio
from gpufleet.optimize.job import Late
from gpufleet.optimize.market import BEYOND_QUOTA, NO_PRICE, effective_price, likely_price
from gpufleet.optimize.played_rows import PlayedRows, type_of
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.spot_plays import PlannedJob, SpotPlay
from gpufleet.optimize.training_search import MOST_GPUS, Best, RatedCluster, TrainingQuestion, TrainingSearch
from gpufleet.performance.checkpoints import checkpoint_s, restart_s
from gpufleet.performance.restarts import checkpoint_interval_s, elapsed_run_s, mean_between_s, stops_in, stops_per_s
from gpufleet.performance.training_bounds import grade_of
from gpufleet.pricing.commitment import TERM_KINDS, billed_s
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.units import HOUR, HOURS_PER_YEAR

LATE, NEVER_ENDS = Reason("training_late"), Reason("training_never_ends")
SPOT_GANG = Reason("training_spot_gang")
BINDS_LONGER = Reason("training_binds_longer")
MOST_SPOT_MACHINES = 8
"""More machines on spot at once are seldom had, and taken away together: rented only where spot is asked for."""
MOST_REFINED, NEVER_S, SAME_TIME_RATIO = 12, 10 * HOURS_PER_YEAR * HOUR, 1.05
"""Ten years count as never; of those that end about so soon the cheapest is the soonest."""
MOST_PROMISING, MOST_GAIN_RATIO = 16, 1.4
"""So many clusters are searched finely that cost up to this ratio of the least: a finer layout gains no more."""


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Runs at one end of the ranges, one element a cluster: from the start to the end, what is paid, and stops."""

    elapsed_s: FloatArray
    paid_s: FloatArray
    stops: FloatArray
    interval_s: FloatArray

    def of(self, row: int) -> RunTimes:
        """One of them."""
        return RunTimes(**{f.name: np.asarray(getattr(self, f.name))[row] for f in fields(self)})


@dataclass(frozen=True, eq=False)
class TrainingPlacement:
    """A run on machines of one offer in one layout, with what is expected and both ends of its ranges."""

    instance: Instance
    offer: Offer
    machines: int
    rated: RatedCluster
    expected: RunTimes
    low: RunTimes
    high: RunTimes
    planned_s: float
    work_s: float
    write_s: float
    per_hour: Spread
    play: SpotPlay | None = None

    @property
    def usd(self) -> float:
        """What the run is expected to cost: on drawn spot markets where it was played."""
        if self.play is not None:
            return float(self.play.usd.mean())
        return self.usd_of(self.expected)

    @property
    def elapsed_s(self) -> float:
        """When the run is expected to end."""
        return float(self.expected.elapsed_s if self.play is None else self.play.elapsed_s.mean())

    def usd_of(self, times: RunTimes) -> float:
        """What all machines cost where each is paid for such a time."""
        return float(self.machines * effective_price(self.offer) * times.paid_s / HOUR)

    @property
    def num_gpus(self) -> int:
        """GPUs that are paid for."""
        return round(self.machines * self.instance.gpu_count)


@dataclass(frozen=True, eq=False)
class TrainingSolution:
    """The run on each machine type, cheapest first; what else was found on the way.

    `undated`: the cheapest at a price without a date, where it costs less; `unmeasured`: the cheapest as expected,
    where the first counts less because its speed is surer; `faster` the soonest, `steady` the cheapest that nobody
    takes away; `least_gpus` meet a deadline that nothing asked for meets.
    """

    ranked: list[TrainingPlacement]
    rejections: Rejections
    num_layouts: int
    num_configurations: int
    undated: TrainingPlacement | None = None
    unmeasured: TrainingPlacement | None = None
    faster: TrainingPlacement | None = None
    steady: TrainingPlacement | None = None
    least_gpus: int | None = None


@dataclass(frozen=True, eq=False)
class Ways:
    """A run on each cluster of one kind of machine, bought one way: arrays, one element a cluster."""

    rated: list[RatedCluster]
    machines: FloatArray
    work_s: FloatArray
    write_s: FloatArray
    expected: RunTimes
    low: RunTimes
    high: RunTimes
    planned_s: FloatArray
    per_hour: Spread


def run_times(
    work_s: FloatArray, stops: FloatArray, write_s: FloatArray, restarted_s: Floats, wait_s: Floats, startup_s: float
) -> RunTimes:
    """Runs of so much work: every stop costs a restart and what was not saved; waits for machines are not paid."""
    interval = checkpoint_interval_s(write_s, mean_between_s(stops))
    elapsed = ending(elapsed_run_s(work_s, stops, write_s, restart_s(restarted_s, 0.0, wait_s), interval))
    paid = np.where(np.isfinite(elapsed), elapsed_run_s(work_s, stops, write_s, restarted_s, interval), np.inf)
    return RunTimes(startup_s + elapsed, startup_s + paid, stops_in(elapsed, stops), interval)


def beyond(expected: RunTimes, moved: RunTimes, sign: int) -> RunTimes:
    """An end of the ranges: what each uncertainty moves alone, a row each, its logarithms in quadrature; up or down."""

    def end(name: str) -> FloatArray:
        usual = np.asarray(getattr(expected, name))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.nan_to_num(np.log(getattr(moved, name) / usual), posinf=np.inf, neginf=-np.inf)
            moved_to = usual * np.exp(sign * np.sqrt((logs**2).sum(axis=0)))
        return np.where(np.isfinite(usual), moved_to, np.inf)

    return RunTimes(end("elapsed_s"), end("paid_s"), end("stops"), expected.interval_s)


def end_of_run(
    times: Callable[..., RunTimes],
    expected: RunTimes,
    work_s: FloatArray,
    usual: Sequence[float],
    moved_work_s: FloatArray,
    moved: Sequence[float],
    sign: int,
) -> RunTimes:
    """An end of the ranges of runs, `times` of their work and of what is usual: each is moved alone, up or down."""
    apart = [i for i, each in enumerate(moved) if each != usual[i]]
    work = np.stack([moved_work_s, *[work_s] * len(apart)])
    others = np.tile(np.array(usual, dtype=np.float64), (len(work), 1))
    others[range(1, len(work)), apart] = [moved[i] for i in apart]
    columns = others.T.reshape(len(usual), len(work), *[1] * work_s.ndim)
    return beyond(expected, times(work, *columns), sign)


def ending(elapsed_s: FloatArray) -> FloatArray:
    """The same; infinite where so many stops leave a run that nobody sees the end of."""
    return np.where(elapsed_s < NEVER_S, elapsed_s, np.inf)


@dataclass(frozen=True, eq=False)
class Placing:
    """What places rated clusters on offers; runs are `known` of the same clusters on machines that are alike."""

    question: TrainingQuestion
    search: TrainingSearch
    rejections: Rejections
    known: dict[tuple[object, ...], Ways] = field(default_factory=dict)

    def placements(self, rated: Iterable[RatedCluster]) -> list[TrainingPlacement]:
        """The cheapest number of machines of every offer that is done in time; all numbers where they are played."""
        placed, late = [], {}
        for instance, offer, ways in self.bought(rated):
            rows = self.chosen(ways, offer)
            placed += [self.placement(instance, offer, ways, row) for row in rows]
            if not rows:
                late[offer.cloud, offer.instance, offer.price_kind.value] = (offer, ways)
        self.count_late(late, {(p.offer.cloud, p.offer.instance, p.offer.price_kind.value) for p in placed})
        self.count_unsold({(i.cloud, i.name): i for i in self.question.instances if self.search.runs_on(i)})
        return placed

    def bought(self, rated: Iterable[RatedCluster]) -> Iterator[tuple[Instance, Offer, Ways]]:
        """Every offer of a machine type with rated clusters, and the runs on them; offers alike share the runs."""
        by_device: dict[int, list[RatedCluster]] = {}
        for each in rated:
            by_device.setdefault(each.cluster.device, []).append(each)
        instances = {(i.cloud, i.name): i for i in self.question.instances if self.search.runs_on(i)}
        of_device = {device: tuple(map(id, of)) for device, of in by_device.items()}
        for offer in self.buyable():
            instance = instances.get((offer.cloud, offer.instance))
            device = None if instance is None else self.search.hosts[self.search.host_of(instance)]
            if instance is None or device not in by_device:
                continue
            key = (device, instance.gpu_count, self.hazard_of(offer), of_device[device])
            if key not in self.known:
                self.known[key] = self.ways(instance, offer, by_device[device])
            yield instance, offer, self.known[key]

    def in_time(self, rated: Iterable[RatedCluster], deadline_s: float) -> list[tuple[float, Cluster]]:
        """GPUs that are paid for of every cluster that is done by then, whatever it costs and can be had."""
        return [
            (float(machines * instance.gpu_count), each.cluster)
            for instance, _, ways in self.bought(rated)
            for each, machines, planned_s in zip(ways.rated, ways.machines, ways.planned_s, strict=True)
            if planned_s <= deadline_s
        ]

    def promising(self, rated: Iterable[RatedCluster]) -> list[Cluster]:
        """Clusters that may turn out the cheapest in a better layout: they cost little more than the cheapest now."""
        near_s = self.question.goal.deadline_s * MOST_GAIN_RATIO
        cheapest: dict[tuple[int, PriceKind, bool], tuple[Offer, Ways]] = {}
        for _, offer, ways in self.bought(rated):
            key = (id(ways), offer.price_kind, offer.is_dated)
            if key not in cheapest or likely_price(offer) < likely_price(cheapest[key][0]):
                cheapest[key] = (offer, ways)
        costs: dict[bool, dict[tuple[int, int], tuple[float, Cluster]]] = {True: {}, False: {}}
        for offer, ways in cheapest.values():
            usd = likely_price(offer) * ways.machines * self.billed(offer, ways.expected).paid_s
            for each, cost in zip(ways.rated, np.where(ways.planned_s <= near_s, usd, np.inf), strict=True):
                place, found = (each.cluster.device, each.cluster.num_gpus), costs[offer.is_dated]
                if cost < found.get(place, (math.inf,))[0]:
                    found[place] = float(cost), each.cluster
        ordered = sorted((costs[True] or costs[False]).values(), key=itemgetter(0))
        near = [cluster for cost, cluster in ordered if cost <= ordered[0][0] * MOST_GAIN_RATIO]
        return near[:MOST_PROMISING]

    def hazard_of(self, offer: Offer) -> str | None:
        """What decides how often machines of an offer are taken away; None where they never are."""
        return f"spot {offer.interruption}" if offer.price_kind is PriceKind.SPOT else None

    def buyable(self) -> list[Offer]:
        """Offers that a run may buy: one that runs once buys no term, which is counted by machine type."""
        terms = {(o.cloud, o.instance, o.price_kind.value) for o in self.question.offers if o.price_kind in TERM_KINDS}
        for cloud, name, kind in sorted(terms):
            self.rejections.add(Rejection(BINDS_LONGER, f"{cloud} {name}, {kind.replace('_', ' ')}"))
        return [offer for offer in self.question.offers if offer.price_kind not in TERM_KINDS]

    def ways(self, instance: Instance, offer: Offer, rated: list[RatedCluster]) -> Ways:
        """Runs on all clusters of a kind of machine, bought as an offer is."""
        q, around, goal = self.question, self.question.around, self.question.goal
        gpus = np.array([each.cluster.num_gpus for each in rated], dtype=np.float64)
        machines = np.ceil(gpus / instance.gpu_count)
        step_s, low_ratio, high_ratio = (
            np.array([getattr(each, name) for each in rated]) for name in ("step_s", "low_ratio", "high_ratio")
        )
        work_s = goal.steps(q.recipe) * step_s
        failures = around.failures.per_gpu_hour(rated[0].cluster.machine.accelerator.generation)
        is_spot = offer.price_kind is PriceKind.SPOT
        taken = around.interruptions.per_hour(offer.interruption) if is_spot else NEVER
        wait = around.interruptions.wait_s if is_spot else NEVER
        rate, shared = around.runs.write_bytes_per_s_per_machine.value, around.runs.shared_bytes_per_s.value
        write_s = checkpoint_s(checkpoint_bytes(q.arch, q.recipe), machines, rate, shared)
        recovery = around.runs.recovery_s
        recovered = Spread(recovery.low or recovery.value, recovery.value, recovery.high or recovery.value)

        def times(work: FloatArray, failed: Floats, reclaimed: Floats, waited: Floats, recovered: Floats) -> RunTimes:
            stops = stops_per_s(machines * instance.gpu_count, failed, machines, reclaimed)
            return run_times(work, stops, write_s, recovered + write_s, waited, goal.startup_s)

        spreads = (failures, taken, wait, recovered)
        usual = [each.expected for each in spreads]
        expected = times(work_s, *usual)
        slow = np.maximum(1 + goal.headroom_ratio, slow_ratio(goal.confidence, high_ratio))

        def end(work: FloatArray, others: Sequence[float], sign: int) -> RunTimes:
            return end_of_run(times, expected, work_s, usual, work, others, sign)

        return Ways(
            rated,
            machines,
            work_s,
            write_s,
            expected,
            end(work_s * low_ratio, [each.low for each in spreads], -1),
            end(work_s * high_ratio, [each.high for each in spreads], 1),
            end(work_s * slow, [planned_value(goal.confidence, each) for each in spreads], 1).elapsed_s,
            taken,
        )

    def chosen(self, ways: Ways, offer: Offer) -> list[int]:
        """The cheapest cluster of those in time, of equals the one with the fewest machines; none where none is.

        One's own machines cost what they cost: there the soonest. What is played on drawn markets costs least on a
        number of machines that nobody knows before: there all.
        """
        most = offer.most_instances
        had = ways.machines <= (math.inf if most is None else most)
        is_spot = offer.price_kind is PriceKind.SPOT
        if is_spot and not self.question.goal.takes_spot_gangs:
            had &= ways.machines <= MOST_SPOT_MACHINES
        ends = np.isfinite(ways.high.elapsed_s) & (ways.planned_s <= self.question.goal.deadline_s)
        able = np.flatnonzero(had & ends)
        if not len(able) or (is_spot and self.question.around.plays is not None):
            return [int(row) for row in able]
        paid_s = ways.machines * self.billed(offer, ways.expected).paid_s
        least = ways.planned_s if offer.price_kind is PriceKind.OWNED else paid_s
        return [int(able[np.lexsort((ways.machines[able], least[able]))[0]])]

    def placement(self, instance: Instance, offer: Offer, ways: Ways, row: int) -> TrainingPlacement:
        """One cluster on machines of an offer."""
        expected, low, high = (self.billed(offer, each.of(row)) for each in (ways.expected, ways.low, ways.high))
        return TrainingPlacement(
            instance,
            offer,
            int(ways.machines[row]),
            ways.rated[row],
            expected,
            low,
            high,
            float(ways.planned_s[row]),
            float(ways.work_s[row]),
            float(ways.write_s[row]),
            ways.per_hour,
        )

    def billed(self, offer: Offer, times: RunTimes) -> RunTimes:
        """What is paid for: whole days of capacity blocks, all the time of machines of one's own."""
        if offer.price_kind in (PriceKind.ON_DEMAND, PriceKind.SPOT):
            return times
        paid = np.minimum(times.paid_s, times.elapsed_s)
        if offer.price_kind is PriceKind.OWNED:
            return replace(times, paid_s=times.elapsed_s)
        return replace(times, paid_s=billed_s(offer.price_kind, paid, 0.0))

    def count_late(
        self, late: Mapping[tuple[str, str, str], tuple[Offer, Ways]], in_time: set[tuple[str, str, str]]
    ) -> None:
        """Count machine types that are not done in time, with when they would be."""
        goal = self.question.goal
        for key, (offer, ways) in late.items():
            if key in in_time:
                continue
            had = ways.machines <= (math.inf if offer.most_instances is None else offer.most_instances)
            enough = ways.machines[ways.planned_s <= goal.deadline_s]
            soonest = float(np.min(ways.planned_s[had], initial=np.inf))
            missed = Late(soonest, int(enough.min()) if len(enough) else None)
            unending = not np.isfinite(ways.high.elapsed_s[had]).any()
            reason = BEYOND_QUOTA if not had.any() else NEVER_ENDS if unending else LATE
            machine = f"{key[0]} {key[1]}, {key[2].replace('_', ' ')}"
            if offer.price_kind is PriceKind.SPOT and len(enough):
                reason = SPOT_GANG
            miss = missed.miss(offer.most_instances, goal.confidence)
            self.rejections.add(Rejection(reason, machine, miss, missed.soonest_s))

    def count_unsold(self, instances: Mapping[tuple[str, str], Instance]) -> None:
        """Count machine types that would do but have no price under the chosen terms."""
        priced = {(o.cloud, o.instance) for o in self.question.offers}
        for cloud, name in sorted(set(instances) - priced):
            self.rejections.add(Rejection(NO_PRICE, f"{cloud} {name}"))


def cheapest_of_each_type(placed: Iterable[TrainingPlacement]) -> list[TrainingPlacement]:
    """The cheapest region of each machine type and price kind, in order; ties keep a fixed order."""
    best: dict[tuple[str, str, str], TrainingPlacement] = {}
    for p in sorted(placed, key=lambda p: (p.usd * p.offer.age_ratio, p.offer.cloud, p.offer.instance, p.offer.region)):
        best.setdefault((p.offer.cloud, p.offer.instance, p.offer.price_kind.value), p)
    return list(best.values())


def within_usd(placed: Sequence[TrainingPlacement], most_usd: float, rejections: Rejections) -> list[TrainingPlacement]:
    """What the budget pays for; the rest is counted with its price."""
    budget = Reason.of("over_job_budget", budget_usd=most_usd)
    for p in (p for p in placed if p.usd > most_usd):
        machines = f"{p.machines}x {p.offer.cloud} {p.offer.instance}"
        rejections.add(Rejection(budget, machines, Reason.of("costs", usd=p.usd), p.usd))
    return [p for p in placed if p.usd <= most_usd]


def solve_training(question: TrainingQuestion, calibration: Calibration) -> TrainingSolution:
    """Rate the clusters, join the offers, then search the layouts of what is shown finely."""
    rejections, search = Rejections(), TrainingSearch(question, calibration)
    count_devices(search, rejections)
    count_undivided(search, rejections)
    is_fixed = question.goal.counts is not None or question.is_layout_fixed
    clusters = search.clusters()
    best = search.best(clusters, question.grid if is_fixed else coarse(question.grid), rejections)
    placing = Placing(question, search, rejections)
    placed = placing.placements(best.rated.values())
    if placed and not is_fixed:
        placed, best = refined(search, placing, best, placed)

    rows = played_rows(question)

    def cheapest(of: Iterable[TrainingPlacement], num_rows: int) -> list[TrainingPlacement]:
        found = rows.cheapest(of, num_rows)
        count_late_on_spot(rows, found, rejections)
        return found

    dated = cheapest((p for p in placed if p.offer.is_dated), question.around.num_rows)
    ranked = within_usd(dated or cheapest(placed, question.around.num_rows), question.goal.most_usd, rejections)
    beside = cheapest((p for p in placed if not p.offer.is_dated), 1)[:1] if dated else []
    soonest = soonest_of(ranked)
    return TrainingSolution(
        ranked,
        rejections,
        len(best.rated),
        best.num_configurations,
        rows.cheaper_if_true(ranked, next(iter(beside), None)),
        rows.cheaper_in_doubt(ranked),
        faster=None if soonest is None else rows.played(soonest),
        steady=next((p for p in ranked if p.offer.price_kind is not PriceKind.SPOT), None),
    )


def soonest_of(ranked: Sequence[TrainingPlacement]) -> TrainingPlacement | None:
    """The cheapest of those that end about as soon as any."""
    soonest_s = min((p.elapsed_s for p in ranked), default=0.0)
    return next((p for p in ranked if p.elapsed_s <= soonest_s * SAME_TIME_RATIO), None)


def played_rows(question: TrainingQuestion) -> PlayedRows[TrainingPlacement]:
    """What ranks the rows of a question, and plays those on spot."""
    confidence = question.goal.confidence

    return PlayedRows(
        question.around.plays,
        confidence,
        question.goal.deadline_s,
        lambda p: p.usd,
        lambda p: speed_doubt(question, p) * p.offer.age_ratio,
        lambda p: p.planned_s,
        lambda p: planned_job(p, question),
        lambda p, play: replace(p, play=play),
        {},
    )


def speed_doubt(question: TrainingQuestion, p: TrainingPlacement) -> float:
    """How many times its expected cost a run counts for what is not known of its speed."""
    return doubt_ratio(
        run_grade(question, p), float(slow_ratio(question.goal.confidence, np.array(p.rated.high_ratio)))
    )


def run_grade(question: TrainingQuestion, p: TrainingPlacement) -> Grade:
    """How the speed of a run is known: over several machines no better than their network."""
    found = grade_of(p.rated.time, p.rated.cluster.device)
    network = question.around.networks[p.offer.cloud, p.offer.instance]
    return max(found, network.grade) if p.machines > 1 else found


def planned_job(p: TrainingPlacement, question: TrainingQuestion) -> PlannedJob:
    """What is played of a run."""
    rated = p.rated
    work_s = Spread(p.work_s * min(rated.low_ratio, 1.0), p.work_s, p.work_s * max(rated.high_ratio, 1.0))
    return PlannedJob(p.offer, p.machines, work_s, question.goal.startup_s, p.write_s)


def count_late_on_spot(
    rows: PlayedRows[TrainingPlacement], found: Iterable[TrainingPlacement], rejections: Rejections
) -> None:
    """Count what is late on spot, however it is played."""
    for key in sorted(rows.late.keys() - {type_of(p) for p in found}):
        p, play = rows.late.pop(key)
        miss = Late(play.end_s(rows.confidence), None).miss(p.offer.most_instances, rows.confidence)
        rejections.add(Rejection(LATE, f"{p.offer.cloud} {p.offer.instance}, spot", miss))


def count_devices(search: TrainingSearch, rejections: Rejections) -> None:
    """Count machine types on which no training stack runs, or not in this arithmetic."""
    no_device = Reason.of("training_device", arithmetic=search.question.recipe.formats.peak)
    for instance in search.question.instances:
        if not search.runs_on(instance):
            rejections.add(Rejection(no_device, f"{instance.cloud} {instance.name} ({instance.accelerator})"))


def count_undivided(search: TrainingSearch, rejections: Rejections) -> None:
    """Count machines of which no whole number holds the GPUs that were asked for, or more than work together."""
    counts = search.question.goal.counts or {}
    for device, machine in enumerate(search.machines):
        wanted = counts.get(machine.accelerator.name)
        if wanted is not None and not search.joined_counts(device):
            of_each = f"machines of {machine.num_gpus}x {machine.accelerator.name}"
            rejections.add(Rejection(Reason.of("training_counts", gpus=wanted), of_each))


def refined(
    search: TrainingSearch, placing: Placing, best: Best, placed: Sequence[TrainingPlacement]
) -> tuple[list[TrainingPlacement], Best]:
    """The placements of the cheapest machine types again, on the best of all layouts of their clusters."""
    shown = cheapest_of_each_type(placed)[:MOST_REFINED]
    soonest = min(placed, key=lambda p: float(p.expected.elapsed_s))
    quiet = replace(placing, rejections=Rejections())
    named = [*(p.rated.cluster for p in [*shown, soonest]), *quiet.promising(best.rated.values())]
    again = list({(cluster.device, cluster.num_gpus): cluster for cluster in named}.values())
    fine = search.best(again, search.question.grid, None)
    faster = {(again[i].device, again[i].num_gpus): rated for i, rated in fine.rated.items()}
    rated = [
        min(r, faster.get((r.cluster.device, r.cluster.num_gpus), r), key=lambda each: each.step_s)
        for r in best.rated.values()
    ]
    return quiet.placements(rated), Best(best.rated, best.num_configurations + fine.num_configurations)


def least_gpus(question: TrainingQuestion, calibration: Calibration) -> int | None:
    """The fewest GPUs of any machine type on offer that meet the deadline, could they be had; None: no number does."""
    free = replace(question.goal, counts=None, most_gpus=MOST_GPUS, most_usd=math.inf, most_machines=math.inf)
    q = replace(question, goal=free)
    search = TrainingSearch(q, calibration)
    placing = Placing(q, search, Rejections())
    rated = search.best(search.clusters(), q.grid if q.is_layout_fixed else coarse(q.grid), None).rated.values()
    least = min((gpus for gpus, _ in placing.in_time(rated, free.deadline_s)), default=math.inf)
    if not q.is_layout_fixed:
        near = sorted(placing.in_time(rated, free.deadline_s * MOST_GAIN_RATIO), key=itemgetter(0))
        fewer = {(c.device, c.num_gpus): c for gpus, c in near if gpus < least}
        again = search.best(list(fewer.values())[:MOST_PROMISING], q.grid, None).rated.values()
        least = min((gpus for gpus, _ in placing.in_time(again, free.deadline_s)), default=least)
    return None if math.isinf(least) else round(least)


def solved_training_as_promised(
    question: TrainingQuestion, calibration: Calibration, *, is_asked: bool
) -> tuple[TrainingSolution, float | None]:
    """The solution at the confidence of the goal, or as expected where nobody asked for it and nothing keeps it."""
    solution = solve_training(question, calibration)
    confidence = question.goal.confidence
    if not solution.ranked and not is_asked and confidence != EXPECTED and math.isfinite(question.goal.deadline_s):
        expected = replace(question, goal=replace(question.goal, confidence=EXPECTED))
        again = solve_training(expected, calibration)
        if again.ranked:
            return again, confidence
    if not solution.ranked and math.isfinite(question.goal.deadline_s):
        solution = replace(solution, least_gpus=least_gpus(question, calibration))
    return solution, None


def binding_of(q: TrainingQuestion, p: TrainingPlacement) -> str:
    """Why not fewer machines: they were fixed, one is enough, fewer would be late, or would cost no less."""
    if q.goal.counts is not None:
        return "stated_gpus"
    if p.machines == 1:
        return "one_machine"
    if q.goal.deadline_s < 2 * p.planned_s:
        return "deadline"
    return "cost" if q.goal.most_gpus == MOST_GPUS else "cost_of_few"
