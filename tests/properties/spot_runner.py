"""A runner of a job on spot, written from nothing but what `gpufleet spot --rules` prints, in seconds as they pass.

It looks every tick: a machine that was taken away in between is missed at the next look, and all is lost that a
checkpoint may have left unsaved. `sees_losses` makes it decide at the moment of a loss as well.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DONE_S = 1e-6
Interval = tuple[float, float]


@dataclass
class Runner:
    """One job on one zone, which has machines in intervals of seconds, and what becomes of it."""

    policy: dict[str, Any]
    up: Sequence[Interval]
    work_s: float
    restart_s: float
    sees_losses: bool = False
    unsaved_s: float = 0.0
    starting_s: float = 0.0
    running: str = "waiting"
    had_machine: bool | None = None
    since_s: float = 0.0
    spent_s: float = 0.0
    losses: int = 0

    def finishes_s(self) -> float:
        """The time from the start to the end of the job."""
        now, tick, left_s = 0.0, 0, self.work_s
        while True:
            self.decide(now, left_s)
            tick += now >= tick * self.policy["tick_s"]
            until = tick * self.policy["tick_s"]
            gone = self.gone_after(now) if self.running == "spot" else float("inf")
            worked = self.works(min(until, gone) - now, left_s)
            if left_s - worked <= DONE_S:
                return now + self.spent_s
            left_s -= worked
            now = until
            if gone <= until:
                left_s += min(self.unsaved_s, self.policy["loss_s"])
                self.running, self.starting_s, self.losses = "waiting", 0.0, self.losses + 1
                now = gone if self.sees_losses else until

    def works(self, seconds: float, left_s: float) -> float:
        """Work done in so many seconds, starts first."""
        if self.running == "waiting":
            return 0.0
        started = min(self.starting_s, seconds)
        worked = min(seconds - started, left_s)
        self.starting_s -= started
        self.unsaved_s += worked
        self.spent_s = started + worked
        return worked

    def gone_after(self, now: float) -> float:
        """When the machine that is up goes."""
        return self.up[bisect.bisect_right(self.up, (now, float("inf"))) - 1][1]

    def is_up(self, now: float) -> bool:
        at = bisect.bisect_right(self.up, (now, float("inf"))) - 1
        return at >= 0 and self.up[at][0] <= now < self.up[at][1]

    def decide(self, now: float, work_left_s: float) -> None:
        """What runs next, by the rules and then by the net."""
        has_machine = self.is_up(now)
        if has_machine != self.had_machine:
            self.had_machine, self.since_s = has_machine, now
        read = {"left_s": self.policy["deadline_s"] - now, "work_left_s": work_left_s}
        read["slack_s"] = read["left_s"] - work_left_s - (self.starting_s if self.running != "waiting" else 0.0)
        rule = self.rule_of(has_machine, now - self.since_s + self.policy["tick_s"])
        wanted = rule["otherwise"]
        if read["slack_s"] < at(rule["on_demand_below"], read["left_s"]):
            wanted = "on demand"
        if wanted != "on demand":
            stays = "to_stay_on_spot" if self.running == "spot" else "to_begin_on_spot"
            net = self.policy["net"]["to_wait" if wanted == "waiting" else stays]
            if not holds(net, self.policy | read):
                wanted = "on demand"
        if wanted not in ("waiting", self.running):
            self.starting_s, self.unsaved_s = self.restart_s, 0.0
        self.running = wanted

    def rule_of(self, has_machine: bool, age_s: float) -> dict[str, Any]:
        [rule] = [
            each
            for each in self.policy["rules"]
            if (each["running"], each["has_machine"]) == (self.running, has_machine)
            and each["from_s"] < age_s <= (each["until_s"] or float("inf"))
        ]
        return rule


def holds(formula: str, values: dict[str, Any]) -> bool:
    """Whether a sum of named times is at most another, as the policy writes it."""
    less, more = formula.split("<=")
    return sum(values[name.strip()] for name in less.split("+")) <= values[more.strip()]


def at(points: list[dict[str, float]], left_s: float) -> float:
    """The value between points, in a straight line."""
    for a, b in itertools.pairwise(points):
        if a["left_s"] <= left_s <= b["left_s"]:
            share = (left_s - a["left_s"]) / (b["left_s"] - a["left_s"])
            return a["slack_s"] + (b["slack_s"] - a["slack_s"]) * share
    return points[0]["slack_s"] if left_s < points[0]["left_s"] else points[-1]["slack_s"]


def run(printed: str, up: Sequence[Interval], work_s: float, restart_s: float, sees_losses: bool = False) -> Runner:
    """A runner of what was printed."""
    return Runner(json.loads(printed), sorted(up), work_s, restart_s, sees_losses)


def merged(up: Sequence[Interval]) -> list[Interval]:
    """Intervals that touch, as one."""
    found: list[Interval] = []
    for begin, end in sorted(up):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
