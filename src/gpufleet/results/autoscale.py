"""How laws of scaling did on a curve of rates, and which is recommended."""

from __future__ import annotations

from pydantic import computed_field

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.cold_start import ColdStartResult


class ScaledMachine(Result):
    """What is scaled: one machine of a plan, with the copies of the model that it holds.

    `requests_per_s_planned`: up to which the target share keeps the limits; `requests_per_s_sustained`: the most that
    it carries at all.
    """

    cloud: str
    region: str
    instance: str
    price_kind: str
    price_per_instance_usd_per_hour: float
    gpu: str
    gpus_per_instance: float
    copies: int
    layout: str
    requests_per_s_planned: float
    requests_per_s_sustained: float


class PolicyPlay(Result):
    """One law with its settings, and how it did.

    A law stands here as documented, and once more where its settings were searched (`is_tuned`, of `num_tried`): on
    the first days alone, so that `kept_ratio_worst_unseen_day` is of days that they were not searched on; None where
    there is none. `kept_ratio` is the share of requests that kept their limits: over all, of each whole day, of the
    worst day and of the worst quarter of an hour. `cold_requests` came while no machine was ready. `machine_hours`
    count machines that start and drain too. `over_perfect_ratio`: what it costs over somebody who knows the future.
    """

    policy: str
    title: str
    source: str
    settings: dict[str, float | None]
    num_tried: int
    is_tuned: bool = False
    machine_hours: float
    gpu_hours: float
    usd: float
    usd_per_month: float
    over_perfect_ratio: float
    kept_ratio: float
    kept_ratio_by_day: list[float]
    kept_ratio_worst_day: float
    kept_ratio_worst_unseen_day: float | None = None
    kept_ratio_worst_quarter_hour: float
    cold_requests: float
    unserved_requests: float
    scale_ups: int
    scale_downs: int
    mean_machines: float
    least_machines: int
    most_machines: int
    meets_target: bool


class Recommendation(Result):
    """What to set: the law, its least and most, targets and windows, and whether to go to none and why.

    `prewarm_lead_s`: how long before it is needed a machine is started, where the law looks ahead.
    """

    policy: str
    is_tuned: bool = False
    settings: dict[str, float | None]
    min_machines: int
    max_machines: int
    target_requests_per_s: float
    prewarm_lead_s: float | None
    scales_to_zero: bool
    why_zero: str
    saved_ratio: float


class ReplayedDay(Result):
    """The worst day of the recommended law, request by request on its replicas as they came and went.

    `kept_ratio_played` is what the play on ticks says of that day, at the plan's confidence; the replay takes steps as
    they are expected. `day` counts from 1. A day of more requests than memory holds is replayed in its worst parts of
    `part_s`, `num_parts` of them; both figures are of these.
    """

    policy: str
    day: int
    num_parts: int
    part_s: float
    num_requests: int
    kept_ratio_played: float
    kept_ratio: float
    ttft_p95_s: float
    tpot_p95_s: float


class AutoscaleResult(Answer):
    """Laws of scaling played on a curve of rates in ticks, cheapest first among those that keep the target.

    `is_tuned`: settings were searched too, on the first `num_tuned_days`; None: on the days that they are judged on.

    `perfect` knows the future: the fewest machines of every tick. A file also says `is_feasible`: whether any law keeps
    the target on every day.
    """

    model: str
    machine: ScaledMachine
    objectives: dict[str, float]
    target_ratio: float
    tick_s: float
    seed: int
    num_ticks: int
    num_days: int
    requests: float
    mean_requests_per_s: float
    peak_requests_per_s: float
    daily_autocorrelation: float | None
    cold_start_s: float
    cold_start: ColdStartResult | None = None
    is_tuned: bool
    num_tuned_days: int | None = None
    plays: list[PolicyPlay]
    perfect: PolicyPlay
    front: list[str]
    recommendation: Recommendation
    replayed: ReplayedDay | None = None

    @property
    def recommended(self) -> PolicyPlay:
        """The play that is recommended."""
        chosen = self.recommendation
        named = (play for play in self.plays if play.policy == chosen.policy)
        return next(play for play in named if play.is_tuned == chosen.is_tuned)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether any law keeps the target on every day."""
        return any(play.meets_target for play in self.plays)
