"""Which law of scaling costs least and still keeps the target on every day: each is played as documented and tuned.

Settings are searched on the first days alone, and held to the target on all of them: what is recommended keeps it on
days that its settings were not searched on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.records import dataclass
from gpufleet.simulate.keda_policies import CronWindows, KedaRate
from gpufleet.simulate.perfect import perfect_play
from gpufleet.simulate.predictive import Forecasting, Predictive
from gpufleet.simulate.scaling import NONE_AT_ALL, Bound, Played, Policy, Service, play, play_within
from gpufleet.simulate.scaling_policies import (
    Hpa,
    HpaRate,
    Keda,
    QueueDepth,
    Schedule,
    SkyServe,
    Static,
    Utilisation,
    Wva,
)
from gpufleet.simulate.week_of_windows import Clocked, HeldOut, Learnt, WeekOfWindows
from gpufleet.units import DAY, HOUR, MINUTE

Settings = Mapping[str, float | None]
QUARTER_HOUR_S = 15 * MINUTE
PERFECT, OURS, OURS_TO_ZERO = "perfect forecast", "predictive", "predictive-zero"
MOST_TICKS, ROOM_RATIO = 2_000_000, 2.0
TUNED_RATIO, LEAST_DAYS_TO_JUDGE = 0.6, 3
ROUNDING_RATIO = 1e-6
SPARED_RATIO = 0.5
"""Of the misses that the target allows, what careful settings leave unused on the days that they are searched on: other
days are worse. A judgement."""
HPA, KEDA_SCALER, FIXED = "HorizontalPodAutoscaler", "KEDA", "Deployment"
WRITTEN = frozenset({HPA, KEDA_SCALER, FIXED})
"""Controllers whose objects `gpufleet deploy` writes."""


@dataclass(frozen=True)
class Preset:
    """A law with its documented settings, the values that are tried of each, and where it is documented.

    A setting without a value of its own takes what the service needs at its peak: as many as static machines would be.
    `controller` is what runs it as it is played; nothing where none does.
    """

    name: str
    title: str
    law: Callable[..., Policy]
    settings: Mapping[str, float | None]
    grid: Mapping[str, Sequence[float | None]]
    source: str
    controller: str = ""

    @property
    def is_written(self) -> bool:
        """Whether a controller runs it whose objects `gpufleet deploy` writes."""
        return self.controller in WRITTEN

    @property
    def has_windows(self) -> bool:
        """Whether it goes by windows of the week that are learnt."""
        return bool(self.settings.keys() & set(OF_WINDOWS))

    def made(self, traffic: Traffic, settings: Settings) -> Policy:
        """The law at the beginning of its work; numbers that count are whole."""
        if not self.has_windows:
            return self.law(traffic.service, **settings)
        own = {name: value for name, value in settings.items() if name not in OF_WINDOWS}
        return self.law(traffic.service, windows=traffic.windows(settings), **own)

    def first_settings(self, traffic: Traffic) -> dict[str, float | None]:
        """As documented, where that says it."""
        peak = traffic.peak_replicas
        return {name: peak if name in PEAKS and value is None else value for name, value in self.settings.items()}

    def tried(self, traffic: Traffic) -> list[dict[str, float | None]]:
        """Every combination of values to be tried, the documented one first."""
        first = self.first_settings(traffic)
        axes = {name: traffic.numbers if name in PEAKS else values for name, values in self.grid.items()}
        found = [first, *({**first, **dict(zip(axes, row, strict=True))} for row in itertools.product(*axes.values()))]
        return [row for i, row in enumerate(found) if row not in found[:i]]


@dataclass(frozen=True, eq=False)
class Traffic:
    """A service and the requests of every tick, drawn from a curve.

    `history` is what windows are learnt from: the days that settings are searched on. While they are searched a day is
    held out of what it is played with (`is_searched`).
    """

    service: Service
    curve: RateCurve
    arrivals: FloatArray
    history: Learnt | None = None
    is_searched: bool = False

    @property
    def initial(self) -> int:
        """Replicas that are ready when it begins: what the first rate needs, for every law alike."""
        return self.service.replicas_for(float(self.curve.rate_per_s[0]))

    @property
    def peak_replicas(self) -> int:
        """What the highest rate of the curve needs."""
        return self.service.replicas_for(float(self.curve.rate_per_s.max()))

    @property
    def numbers(self) -> list[float | None]:
        """Numbers of replicas that are worth a try, at most about forty."""
        most = max(self.peak_replicas, 1)
        step = max(math.ceil(most / 40), 1)
        return [float(number) for number in range(step, most + step + 1, step)]

    @property
    def num_days(self) -> int:
        """Whole days."""
        return int(len(self.arrivals) * self.service.tick_s // DAY)

    @property
    def num_tuned_days(self) -> int | None:
        """The first days, on which settings are searched; None: all of it, too short to be judged on other days."""
        return round(TUNED_RATIO * self.num_days) if self.num_days >= LEAST_DAYS_TO_JUDGE else None

    @cached_property
    def perfect(self) -> Played:
        """What somebody would run who knows what comes."""
        return perfect_play(self.service, self.arrivals, self.curve.start_s)

    @cached_property
    def learnt(self) -> Learnt:
        """What windows are learnt from."""
        ticks = None if self.num_tuned_days is None else round(self.num_tuned_days * DAY / self.service.tick_s)
        return self.history or Learnt.of(self.arrivals[:ticks], self.service.tick_s, self.curve.start_s)

    def week(self, settings: Settings) -> WeekOfWindows:
        """The week that a law of windows goes by."""
        return self.learnt.week(self.service, *(float(settings.get(name) or 0.0) for name in OF_WINDOWS))

    def windows(self, settings: Settings) -> Clocked:
        """The same; while settings are searched, for each day what the others teach."""
        if not self.is_searched:
            return self.week(settings)
        said = (float(settings.get(name) or 0.0) for name in OF_WINDOWS)
        found: HeldOut = self.learnt.held_out(self.service, *said)
        return found

    def first(self, num_days: int) -> Traffic:
        """The first days of it, of the same curve; windows are those of all that was to be learnt from."""
        arrivals = self.arrivals[: round(num_days * DAY / self.service.tick_s)]
        return replace(self, arrivals=arrivals, history=self.learnt)

    def played(self, policy: Policy) -> Played:
        """The law against all ticks."""
        return play(self.service, self.arrivals, policy, self.initial, self.curve.start_s)

    def played_within(self, bound: Bound, policy: Policy) -> Played | None:
        """The same, given up as soon as it is of no use."""
        return play_within(bound, self.service, self.arrivals, policy, self.initial, self.curve.start_s)

    @cached_property
    def needed(self) -> Bound:
        """What keeping the target on every whole day needs, looked at every hour.

        Of a day no more may miss than all that may of that day, the others are served after they came, by replicas
        that serve no more than they sustain.
        """
        day, every = round(DAY / self.service.tick_s), max(round(HOUR / self.service.tick_s), 1)
        by_day = self.arrivals[: self.num_days * day].reshape(self.num_days, day)
        may_miss = (1 - self.service.target_ratio + NONE_AT_ALL) * by_day.sum(axis=1, keepdims=True)
        today = np.maximum(by_day[:, ::-1].cumsum(axis=1)[:, ::-1] - may_miss, 0.0)
        later = today[::-1, :1].cumsum(axis=0)[::-1] - today[:, :1]
        each = self.service.replica.sustained_per_s * self.service.tick_s * (1 + ROUNDING_RATIO)
        least = np.zeros(len(self.arrivals) + 1)
        least[: self.num_days * day] = (today + later).ravel() / each
        return Bound(math.inf, least[::every], every)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A law with its settings, and how it did.

    `num_tried` settings were searched where it is tuned, on the first `num_tuned_days`; None: on all that was played.
    Careful ones leave `SPARED_RATIO` of the misses that the target allows unused there.
    """

    preset: str
    settings: Settings
    played: Played
    target_ratio: float
    num_tried: int = 1
    is_tuned: bool = False
    num_tuned_days: int | None = None
    is_careful: bool = False

    @cached_property
    def days(self) -> FloatArray:
        """The share of requests that kept their limits, of every whole day; of all where there is no whole one."""
        return kept_by(self.played, DAY)

    @property
    def worst_day(self) -> float:
        """The least of them."""
        return float(self.days.min())

    @property
    def worst_unseen_day(self) -> float | None:
        """The least of those that settings were not searched on; None where there is none."""
        seen = (len(self.days) if self.num_tuned_days is None else self.num_tuned_days) if self.is_tuned else 0
        return float(self.days[seen:].min()) if len(self.days) > seen else None

    @property
    def mean(self) -> float:
        """Over all requests."""
        came = float(self.played.arrivals.sum())
        return float(self.played.kept.sum()) / came if came else 1.0

    @property
    def worst_quarter(self) -> float:
        """The least of every quarter of an hour in which anything came."""
        return float(kept_by(self.played, QUARTER_HOUR_S).min())

    @property
    def cold(self) -> float:
        """Requests that found no ready replica."""
        return float(self.played.cold.sum())

    @property
    def replica_hours(self) -> float:
        """What is paid."""
        return self.played.replica_s / HOUR

    @property
    def meets_target(self) -> bool:
        """Whether every day keeps the target."""
        return self.spares(0.0)

    def spares(self, spared_ratio: float) -> bool:
        """Whether every day keeps the target and leaves so much of the misses that it allows unused."""
        return self.worst_day >= 1 - (1 - self.target_ratio) * (1 - spared_ratio) - NONE_AT_ALL


def kept_by(played: Played, span_s: float) -> FloatArray:
    """The share of requests that kept their limits in each whole span from the beginning on; of all where none is."""
    ticks = round(span_s / played.tick_s)
    number = len(played.arrivals) // ticks
    if not number:
        ticks, number = len(played.arrivals), 1
    came = played.arrivals[: number * ticks].reshape(number, ticks).sum(axis=1)
    kept = played.kept[: number * ticks].reshape(number, ticks).sum(axis=1)
    return np.asarray(np.divide(kept, came, out=np.ones(number), where=came > 0))


PEAKS = frozenset({"replicas", "day", "max_replicas"})
OF_WINDOWS = ("quantile_ratio", "days_apart", "spare_ratio")
"""Settings of windows in the order of `Learnt.week`: which rate of an hour, how many kinds of days, machines beyond."""
K8S, KEDA = "kubernetes.io horizontal-pod-autoscale", "keda.sh scaledobject-spec"
DOWN_S, TARGETS = (0.0, 60.0, 300.0, 900.0), (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
KEDA_GRID = {"waiting": (2.0, 5.0, 10.0, 30.0), "down_window_s": (60.0, 300.0, 900.0)}
KV_GRID = {**KEDA_GRID, "kv_ratio": (0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6)}
RATE_GRID = {
    "target_ratio": (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0),
    "drain_s": (30.0, 120.0),
    "down_window_s": (0.0, 300.0, 900.0),
}


def cron_windows(service: Service, windows: Clocked) -> Policy:
    """Machines by the clock alone, as a law of any service."""
    return CronWindows(windows)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "hpa", "Kubernetes HPA, requests in flight", Hpa,
            {"target_ratio": 0.8, "down_window_s": 300.0}, {"target_ratio": TARGETS, "down_window_s": DOWN_S}, K8S, HPA,
        ),
        Preset(
            "hpa-rate", "HPA on requests per second", HpaRate,
            {"target_ratio": 0.8, "down_window_s": 300.0}, {"target_ratio": TARGETS, "down_window_s": DOWN_S},
            "keda.sh scalers/prometheus", KEDA_SCALER,
        ),
        Preset(
            "keda-rate", "KEDA on requests per second and those that wait", KedaRate,
            {"target_ratio": 0.8, "drain_s": 60.0, "down_window_s": 300.0}, RATE_GRID,
            "keda.sh scalers/prometheus", KEDA_SCALER,
        ),
        Preset(
            "keda-cron-rate", "KEDA by windows of the week, and as keda-rate", KedaRate,
            {"quantile_ratio": 0.5, "days_apart": 7.0, "target_ratio": 0.8, "drain_s": 60.0, "down_window_s": 300.0},
            {"quantile_ratio": (0.1, 0.5, 0.9), "days_apart": (1.0, 7.0), "target_ratio": (0.8, 0.9, 1.0),
             "down_window_s": (0.0, 900.0)},
            "keda.sh scalers/cron", KEDA_SCALER,
        ),
        Preset(
            "cron-windows", "windows of the week, a forecast by the clock", cron_windows,
            {"quantile_ratio": 0.9, "days_apart": 7.0, "spare_ratio": 0.1},
            {"quantile_ratio": (0.75, 0.9, 1.0), "days_apart": (1.0, 2.0, 7.0), "spare_ratio": (0.0, 0.1, 0.2, 0.4)},
            "keda.sh scalers/cron", KEDA_SCALER,
        ),
        Preset(
            "keda-queue", "KEDA of vLLM's production stack: 5 wait", Keda,
            {"waiting": 5.0, "kv_ratio": None, "poll_s": 15.0, "cooldown_s": 360.0, "down_window_s": 300.0}, KEDA_GRID,
            "github vllm-project/production-stack", KEDA_SCALER,
        ),
        Preset(
            "keda-kv", "KEDA of llm-d: KV cache 60 %, 30 wait", Keda,
            {"waiting": 30.0, "kv_ratio": 0.6, "poll_s": 15.0, "cooldown_s": 300.0, "down_window_s": 300.0}, KV_GRID,
            "github llm-d pull 1517", KEDA_SCALER,
        ),
        Preset(
            "keda-zero", "KEDA to zero: 5 wait, none after 300 s", Keda,
            {"waiting": 5.0, "kv_ratio": None, "poll_s": 30.0, "cooldown_s": 300.0, "down_window_s": 300.0,
             "min_replicas": 0}, {**KEDA_GRID, "cooldown_s": (300.0, 1800.0)}, KEDA, KEDA_SCALER,
        ),
        Preset(
            "wva", "llm-d WVA, saturation", Wva,
            {"kv_threshold": 0.8, "queue_threshold": 5.0, "kv_spare": 0.1, "queue_spare": 3.0},
            {"kv_threshold": (0.08, 0.1, 0.15, 0.2, 0.3, 0.8), "kv_spare": (0.01, 0.02, 0.04, 0.1),
             "queue_spare": (1.0, 3.0, 4.5)}, "github llm-d-workload-variant-autoscaler docs/saturation-analyzer.md",
            "llm-d WVA",
        ),
        Preset(
            "skyserve", "SkyServe, requests per second", SkyServe,
            {"target_ratio": 0.8, "up_delay_s": 300.0, "down_delay_s": 1200.0},
            {"target_ratio": TARGETS, "up_delay_s": (0.0, 60.0, 300.0),
             "down_delay_s": (0.0, 60.0, 300.0, 600.0, 1200.0)},
            "docs.skypilot.co serving/autoscaling", "SkyServe",
        ),
        Preset(
            "utilisation", "GPU busier than 90 % for 10 min", Utilisation,
            {"high": 0.9, "low": 0.3, "for_s": 600.0, "max_replicas": None}, {"max_replicas": ()}, "seed documents",
            "AWS Auto Scaling",
        ),
        Preset(
            "queue-depth", "by queue depth", QueueDepth,
            {"depth": 10.0, "quiet_s": 300.0, "max_replicas": None},
            {"depth": (2.0, 5.0, 10.0, 30.0), "quiet_s": (60.0, 300.0, 900.0)}, "seed documents",
        ),
        Preset(
            "schedule", "none from 22:00, from 06:00 as at the peak", lambda service, **how: Schedule(**whole(how)),
            {"day": None, "night": 0.0}, {"day": (), "night": (0.0, 2.0, 8.0)}, "seed documents",
            KEDA_SCALER,
        ),
        Preset(
            "static", "as many as the peak needs", lambda service, **how: Static(**whole(how)),
            {"replicas": None}, {"replicas": ()}, "the plan", FIXED,
        ),
        Preset(
            "seasonal-naive", "as the day before", Forecasting.seasonal_naive,
            {"headroom_ratio": 0.1}, {"headroom_ratio": (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)}, "Hyndman 5.2",
        ),
        Preset(
            "holt-winters", "Holt-Winters, season of a day", Forecasting.holt_winters,
            {"headroom_ratio": 0.1, "level": 0.3},
            {"headroom_ratio": (0.0, 0.1, 0.2, 0.3, 0.5, 1.0), "level": (0.1, 0.3, 0.6, 0.9)}, "Hyndman 8.3",
        ),
        Preset(
            OURS, "ours: forecast over a start", Predictive,
            {"hold_ratio": 0.7, "min_replicas": 1}, {}, "docs/autoscale.md",
        ),
        Preset(
            OURS_TO_ZERO, "ours, none after an empty hour", Predictive,
            {"hold_ratio": 0.7, "min_replicas": 0}, {}, "docs/autoscale.md",
        ),
    )
}  # fmt: skip
FORECASTS = frozenset({"seasonal-naive", "holt-winters"})
LEARNING = frozenset({OURS, OURS_TO_ZERO})


def whole(settings: Settings) -> dict[str, int]:
    """Numbers of replicas as integers."""
    return {name: int(value or 0) for name, value in settings.items()}


def preset_named(name: str) -> Preset:
    """The law of a name."""
    key = name.strip().casefold()
    if key not in PRESETS:
        raise UnknownName("policy", name, PRESETS, hint=f"Known: {', '.join(PRESETS)}.")
    return PRESETS[key]


def outcome(traffic: Traffic, preset: Preset, settings: Settings | None = None) -> Outcome:
    """A law played with its settings, the documented ones unless said."""
    used = preset.first_settings(traffic) if settings is None else settings
    return Outcome(preset.name, used, traffic.played(preset.made(traffic, used)), traffic.service.target_ratio)


def played_laws(traffic: Traffic, presets: Sequence[Preset], is_searched: bool) -> list[Outcome]:
    """Every law as documented, and tuned on the first days where settings are searched and it has any."""
    documented = [outcome(traffic, preset) for preset in presets]
    searched = [p for p in presets if p.grid] if is_searched else []
    return [*documented, *(row for p in searched for row in tuned_plays(traffic, p, traffic.num_tuned_days))]


def tuned(traffic: Traffic, preset: Preset, num_days: int | None = None) -> Outcome:
    """A law with the cheapest settings that keep the target on every one of the first days; all days unless said.

    Where none keeps it: those that miss it least.
    """
    return tuned_plays(traffic, preset, num_days)[0]


def tuned_plays(traffic: Traffic, preset: Preset, num_days: int | None = None) -> list[Outcome]:
    """The same, and with careful settings where they are others and there are days that they were not searched on."""
    tried = preset.tried(traffic)
    seen = replace(traffic if num_days is None else traffic.first(num_days), history=traffic.learnt, is_searched=True)
    found = searched(seen, preset, tried, 0.0 if num_days is None else SPARED_RATIO)
    best = recommended(found)
    chosen = {False: best}
    careful = [row for row in found if row.spares(SPARED_RATIO)]
    if num_days is not None and careful and not best.spares(SPARED_RATIO):
        chosen[True] = recommended(careful)
    return [
        replace(
            outcome(traffic, preset, row.settings),
            num_tried=len(tried),
            is_tuned=True,
            num_tuned_days=num_days,
            is_careful=is_careful,
        )
        for is_careful, row in chosen.items()
    ]


def searched(traffic: Traffic, preset: Preset, tried: Sequence[Settings], spared_ratio: float = 0.0) -> list[Outcome]:
    """Settings that keep the target on every day, but for those that cannot win; where none does, what misses it least.

    A law sees no future, so its first day is the same in a shorter play: settings that miss the target there are
    not played on.
    """
    is_screened = traffic.num_days > 1 and len(tried) > 1
    found = [outcome(traffic.first(1) if is_screened else traffic, preset, settings) for settings in tried]
    kept = [row for row in found if row.meets_target] or [max(found, key=lambda row: row.worst_day)]
    return played_on(traffic, preset, kept, spared_ratio) if is_screened else kept


def played_on(traffic: Traffic, preset: Preset, begun: Sequence[Outcome], spared_ratio: float = 0.0) -> list[Outcome]:
    """Settings of which one day was played against all days, in their order, but for those that cannot win.

    The cheapest of the first day first: who must cost more than one that keeps the target, and spares so much of what
    it may miss, is given up.
    """
    bound, found = traffic.needed, dict[int, Outcome]()
    for i in sorted(range(len(begun)), key=lambda i: begun[i].replica_hours):
        played = traffic.played_within(bound, preset.made(traffic, begun[i].settings))
        if played is not None:
            found[i] = Outcome(preset.name, begun[i].settings, played, traffic.service.target_ratio)
            if found[i].spares(spared_ratio):
                bound = replace(bound, most=min(bound.most, float(played.paid.sum())))
    return [found[i] for i in sorted(found)]


def recommended(outcomes: Sequence[Outcome]) -> Outcome:
    """The cheapest that keeps the target on every day, the first of equals; where none does, what misses it least."""
    keeping = [row for row in outcomes if row.meets_target]
    if keeping:
        return min(keeping, key=lambda row: (row.replica_hours, row.cold))
    return max(outcomes, key=lambda row: (row.worst_day, -row.replica_hours))


def taken(outcomes: Sequence[Outcome], is_free: bool) -> Outcome:
    """The one to take: where nobody named laws, the cheapest that a controller runs whose objects are written.

    Of all laws where they are named, and where none of those keeps the target.
    """
    run = [row for row in outcomes if PRESETS[row.preset].is_written] if is_free else []
    return recommended(run if any(row.meets_target for row in run) else outcomes)


def undominated(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that none beats in both cost and the worst day, cheapest first."""
    ranked = sorted(outcomes, key=lambda row: (row.replica_hours, -row.worst_day))
    best, front = -1.0, []
    for row in ranked:
        if row.worst_day > best:
            front.append(row)
            best = row.worst_day
    return front


def refuse_service(service: Service) -> None:
    """Refuse a least above the most, no replica at all, a target that nothing keeps, and a replica that breaks it."""
    if service.min_replicas < 0:
        raise UsageError("the least number of machines is not negative", found=service.min_replicas)
    if service.min_replicas > service.max_replicas:
        found = f"least {service.min_replicas}, most {service.max_replicas}"
        raise UsageError("the least number of machines is above the most", found=found)
    if service.max_replicas < 1:
        raise UsageError("no machine at all serves nothing", found=service.max_replicas, expected="at most one or more")
    if not 0 < service.target_ratio < 1:
        expected = "above 0 and below 100%: waiting times have no end at which all are in time"
        raise UsageError("the target is out of range", found=service.target_ratio, expected=expected)
    if not (math.isfinite(service.cold_start_s) and service.cold_start_s >= 0):
        raise UsageError("a cold start is a time that is not negative", found=service.cold_start_s)
    if service.replica.rate_within(service.target_ratio) <= 0:
        reached = float(service.replica.share_within(service.replica.rate_per_s[:1], np.zeros(1))[0])
        raise Infeasible(
            "no replica keeps the limits for so many of its requests, whatever its load",
            found=f"{reached:.1%} without any other request",
            expected=f"the target of {service.target_ratio:.1%}",
        )


def autocorrelation(curve: RateCurve, lag_s: float = DAY) -> float | None:
    """How alike rates are a day apart, None of less than a day.

    sum((x[t] - m)(x[t + lag] - m)) / sum((x[t] - m)^2)   [-1..1]
    """
    lag = round(lag_s / curve.bin_s)
    apart = curve.rate_per_s - curve.rate_per_s.mean()
    whole_variance = float(apart @ apart)
    if not 0 < lag < len(apart) or whole_variance <= 0:
        return None
    return float(apart[:-lag] @ apart[lag:]) / whole_variance
