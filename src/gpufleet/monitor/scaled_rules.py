"""Alerts on copies that come and go: what their law of scaling promises, and limits that move with the copies.

No limit here is a number of copies that a law changes by day: what one copy carries is taken times those that there
are, or that are wanted. A HorizontalPodAutoscaler, KEDA's too, does nothing within a tenth of its target
(kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, `--horizontal-pod-autoscaler-tolerance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.monitor.copies_commands import controller_seen, fewer_copies, more_copies
from gpufleet.monitor.copies_rules import constant, metric, pods_command
from gpufleet.monitor.promql import OWN, duration, number, of_copies, own_labels, summed
from gpufleet.monitor.rules import CRITICAL, INFO, WARNING, Alert, Proof, RuleGroup, Series, Watching
from gpufleet.monitor.serving_rules import (
    FEW,
    FULL_S,
    IDLE_RATIO,
    IDLE_S,
    QUEUED_S,
    about,
    counter,
    gauge,
    logs_command,
    needed,
    own,
    queue_limit,
)
from gpufleet.monitor.serving_rules import full_kv as kv_full
from gpufleet.monitor.watched import ScalingLaw, WatchedCopies, WatchedPlan
from gpufleet.units import MINUTE, PERCENT

INTERVAL_S = MINUTE
TOLERANCE = 1.1
"""Of a target, within which an autoscaler leaves the number of copies as it is."""
BINDS_S, OUTSIDE_S, TOO_FEW_S = 15 * MINUTE, 5 * MINUTE, 2 * MINUTE
"""How long a law is at its most, outside of its bounds or below its fewest before somebody is told; judgements."""
ON, TIMES = f"on ({OWN})", 300
Targets = Sequence[tuple[str, str, float, Sequence[str], str]]
"""Name of the alert, the series, the target of one copy, what measures it, and what is above it in words."""


def watched_by(plan: WatchedPlan) -> Watching:
    """A group of rules for each group of copies that a law scales."""
    known, groups, unwatched = plan.cluster_metrics, [], []
    for copies in plan.copies:
        if copies.law is not None and known is not None:
            groups.append(RuleGroup(f"{copies.name}-scaling", INTERVAL_S, alerts=list(alerts_of(copies, known))))
            unwatched += list(unwatched_of(copies, copies.law))
    return Watching(groups, unwatched)


def unwatched_of(copies: WatchedCopies, law: ScalingLaw) -> Iterator[str]:
    """Targets that the engine's version measures nothing for, and windows, which nothing shows."""
    read = {"its queue": law.waiting, "its KV use": law.kv_ratio, "its requests": law.in_flight or law.requests_per_s}
    if not any(read.values()):
        yield f"windows of {copies.name}: no metric says which is open; copies wanted and their bounds are watched"


def alerts_of(copies: WatchedCopies, known: EngineMetrics) -> Iterator[Alert]:
    """Bounds of the law, its targets, copies that do not come, and what copies carry."""
    law = copies.law
    assert law is not None, "a group of rules is of a law"
    scaled = Scaled(copies, law, known)
    yield scaled.too_few()
    yield scaled.missing()
    yield scaled.outside()
    if law.least < law.most:
        yield scaled.at_the_most()
        yield from (scaled.above(*target) for target in scaled.targets())
    for alert in (scaled.long_queue(), scaled.full_kv(), scaled.slow_tokens(), scaled.idle()):
        if alert is not None:
            yield alert


class Scaled:
    """The alerts on one group of copies under a law; a start may take `start_s`."""

    def __init__(self, copies: WatchedCopies, law: ScalingLaw, known: EngineMetrics) -> None:
        self.copies, self.law = copies, law
        self.there = of_copies(metric(known, "available_copies"), copies)
        self.wanted = of_copies(metric(known, "wanted_copies"), copies)
        self.labels = {**own_labels(copies), "about": "copies"}
        self.ups_s = max(copies.start_s, QUEUED_S)

    def one(self) -> WatchedCopies:
        """A single copy, with its part of what all carry."""
        held, copies = self.copies.requests_per_s_capacity, self.copies.replicas
        part = replace(held, value=held.value / copies, low=None if held.low is None else held.low / copies)
        return replace(self.copies, replicas=1, requests_per_s_capacity=part)

    def too_few(self) -> Alert:
        """Fewer copies than the law ever goes to."""
        least = self.law.least
        told = "No copy is" if least == 1 else f"Fewer than {least} copies are"
        return Alert(
            name="TooFewCopies",
            expression=f"{self.there} < {least}",
            for_s=TOO_FEW_S,
            severity=CRITICAL,
            summary=f"{told} available, below the law's fewest",
            action="See why pods do not run: a lost machine, no node with free GPUs, an engine that fails to start",
            command=pods_command(self.copies),
            metrics=[self.there],
            labels=self.labels,
            proof=Proof([constant(self.there, least - 1)], [constant(self.there, least)]),
        )

    def missing(self) -> Alert:
        """Copies that were wanted for all of a start are not there: those of a rise have their time."""
        start, law = duration(self.copies.start_s), self.law
        return Alert(
            name="CopyMissing",
            expression=f"{summed(self.there)} < {ON} {summed(f'min_over_time({self.wanted}[{start}])')}",
            for_s=self.copies.start_s,
            severity=WARNING,
            summary=f"A copy that is wanted is away for longer than a start may take ({start})",
            action="See why the pod does not run: often no node with free GPUs came for it",
            command=pods_command(self.copies),
            metrics=[self.there, self.wanted],
            labels=self.labels,
            proof=Proof(
                [constant(self.there, law.most - 1), constant(self.wanted, law.most)],
                [constant(self.there, law.most - 1), flapping(self.wanted, law.most - 1)],
            ),
        )

    def at_the_most(self) -> Alert:
        """A limit that binds."""
        most = self.law.most
        return Alert(
            name="CopiesAtTheMost",
            expression=f"{self.wanted} >= {most}",
            for_s=BINDS_S,
            severity=WARNING,
            summary=f"The law {self.law.name} wants all {most} copies that it may have: its limit binds",
            action="See whether the rate is that of the forecast; raise the most if it is meant",
            command=more_copies(self.copies),
            metrics=[self.wanted],
            labels=self.labels,
            proof=Proof([constant(self.wanted, most)], [constant(self.wanted, most - 1)]),
        )

    def outside(self) -> Alert:
        """Somebody else sets the number: no controller runs, or another does."""
        least, most = self.law.least, self.law.most
        return Alert(
            name="CopiesOutsideTheLaw",
            expression=f"{self.wanted} < {least} or {self.wanted} > {most}",
            for_s=OUTSIDE_S,
            severity=WARNING,
            summary=f"Not {least} to {most} copies are wanted: the law {self.law.name} is not in force",
            action="See whether its controller runs, and whether somebody scales by hand",
            command=controller_seen(self.copies),
            metrics=[self.wanted],
            labels=self.labels,
            proof=Proof([constant(self.wanted, most + 1)], [constant(self.wanted, least)]),
        )

    def targets(self) -> Iterator[tuple[str, str, float, Sequence[str], str]]:
        """What the law reads, as far as the version measures it."""
        law, known = self.law, self.copies.metrics
        waiting, running = "deployment:requests_waiting:sum", "deployment:requests_running:sum"
        in_flight = f"({own(running, self.copies)} + {own(waiting, self.copies)})"
        asked = [
            ("QueueAboveTarget", own(waiting, self.copies), law.waiting, ["waiting_requests"], "wait"),
            ("KvAboveTarget", "", law.kv_ratio, ["kv_use"], "of the KV room is taken"),
            ("InFlightAboveTarget", in_flight, law.in_flight, ["running_requests", "waiting_requests"], "run or wait"),
            (
                "RateAboveTarget",
                own("deployment:requests:rate5m", self.copies),
                law.requests_per_s,
                ["finished_requests"],
                "are answered a second",
            ),
        ]
        for name, series, target, whats, words in asked:
            if target is not None and all(known.of(what) for what in whats):
                yield name, series or summed(needed(self.copies, "kv_use")[0]), target, whats, words

    def above(self, name: str, series: str, target: float, whats: Sequence[str], words: str) -> Alert:
        """What the law reads is above its target for longer than a start, though more copies may come."""
        wanted, law = summed(self.wanted), self.law
        num_copies = law.most - 1
        return Alert(
            name=name,
            expression=(f"{series} > {ON} {number(TOLERANCE * target)} * {wanted} and {ON} {wanted} < {law.most}"),
            for_s=self.ups_s,
            severity=WARNING,
            summary=f"More than {target:.3g} a copy {words}, the law's target, and no copies are added",
            action="See what its controller reads, and whether it reads anything",
            command=controller_seen(self.copies),
            metrics=[*needed(self.copies, *whats), self.wanted],
            labels=about("queue", self.copies),
            proof=Proof(
                [*self.read(whats, 2 * target * num_copies), constant(self.wanted, num_copies)],
                [*self.read(whats, target * num_copies), constant(self.wanted, num_copies)],
            ),
        )

    def read(self, whats: Sequence[str], value: float) -> list[Series]:
        """Series that add up to what the law reads."""
        if whats == ["finished_requests"]:
            return counter("finished_requests", self.copies, value)
        return [series for what in whats for series in gauge(what, self.copies, value / len(whats))]

    def long_queue(self) -> Alert | None:
        """More requests wait than those copies that are there take on in time; a law on the queue has its own limit."""
        limit = queue_limit(self.one())
        if limit is None or self.law.waiting is not None or self.copies.metrics.of("waiting_requests") is None:
            return None
        waiting = own("deployment:requests_waiting:sum", self.copies)
        there = constant(self.there, self.law.least)
        return Alert(
            name="RequestsWait",
            expression=f"{waiting} > {ON} {limit} * {summed(self.there)}",
            for_s=self.ups_s,
            severity=WARNING,
            summary=f"More than {limit} requests a copy wait for longer than a start takes",
            action="See whether copies start, and whether the law wants more",
            command=controller_seen(self.copies),
            metrics=[*needed(self.copies, "waiting_requests"), self.there],
            labels=about("queue", self.copies),
            proof=Proof(
                [there, *gauge("waiting_requests", self.copies, limit * self.law.least + 1)],
                [there, *gauge("waiting_requests", self.copies, limit * self.law.least)],
            ),
        )

    def full_kv(self) -> Alert | None:
        """No room while some wait, for longer than a start takes; a law on KV use has its own limit."""
        found = None if self.law.kv_ratio is not None else kv_full(self.copies)
        return None if found is None else replace(found, for_s=max(self.ups_s, FULL_S))

    def slow_tokens(self) -> Alert | None:
        """Fewer tokens than the low end of what those copies that are there give, though some always wait."""
        low, copies = self.one().requests_per_s_capacity.low, self.copies
        if not low or copies.metrics.of("generated_tokens") is None or copies.metrics.of("waiting_requests") is None:
            return None
        least, waiting = low * copies.output_tokens, own("deployment:requests_waiting:sum", copies)
        tokens, there = own("deployment:output_tokens:rate5m", copies), constant(self.there, self.law.least)
        slow = [there, *counter("generated_tokens", copies, least * self.law.least / 2)]
        return Alert(
            name="TokensBelowPredicted",
            expression=(
                f"{tokens} < {ON} {number(least)} * {summed(self.there)} and min_over_time({waiting}[10m]) > 0"
            ),
            for_s=max(self.ups_s, FULL_S),
            severity=WARNING,
            summary=f"Less than {least:.0f} output tokens/s a copy while requests wait: slower than the plan's range",
            action="Look for a throttled GPU, another version or longer prompts; plan again if they changed",
            command=logs_command(copies),
            metrics=[*needed(copies, "generated_tokens", "waiting_requests"), self.there],
            labels=about("throughput", copies),
            proof=Proof(
                [*slow, *gauge("waiting_requests", copies, FEW)], [*slow, *gauge("waiting_requests", copies, 0.0)]
            ),
        )

    def idle(self) -> Alert | None:
        """More copies than the fewest are kept for a load that does not come."""
        copies, law = self.copies, self.law
        if copies.metrics.of("generated_tokens") is None:
            return None
        one = self.one().requests_per_s_capacity.value * copies.output_tokens
        tokens, least = own("deployment:output_tokens:rate5m", copies), law.least
        there = summed(self.there)
        many = [constant(self.there, law.most)]
        return Alert(
            name="PaidButIdle",
            expression=f"{tokens} < {ON} {number(IDLE_RATIO * one)} * {there} and {ON} {there} > {least}",
            for_s=IDLE_S + law.settles_s,
            severity=INFO,
            summary=(
                f"For over an hour more copies than the fewest ({least}) give less than {PERCENT * IDLE_RATIO:g} % of "
                f"the {one:.0f} output tokens/s that each carries"
            ),
            action="See why the law keeps them: a window that is out of date, a metric that does not fall",
            command=fewer_copies(copies),
            metrics=[*needed(copies, "generated_tokens"), self.there],
            labels=about("money", copies),
            proof=Proof(
                [*many, *counter("generated_tokens", copies, IDLE_RATIO * one * law.most / 2)],
                [*many, *counter("generated_tokens", copies, one * law.most)],
            ),
        )


def flapping(series: str, value: float) -> Series:
    """A series that is one more each other minute: no copy of it is wanted for as long as a start."""
    return Series(series, " ".join([f"{number(value + 1)} {number(value)}"] * TIMES))
