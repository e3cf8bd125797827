"""How laws of scaling did on a curve of rates, and which is recommended."""

from __future__ import annotations

from pydantic import computed_field

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.cold_start import ColdStartResult
from gpufleet.results.plan import ServePlan
from gpufleet.results.seal import Sealed


class ScaledMachine(Result):
    """What is scaled: one machine of a plan, with the copies of the model that it holds.

    `requests_per_s_planned`: up to which the target share keeps the limits, of which `requests_planned` run at a time;
    `requests_per_s_sustained`: the most that it carries at all.
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
    requests_planned: float = 0.0


class PolicyPlay(Result):
    """One law with its settings, and how it did.

    A law stands here as documented, and once more where its settings were searched (`is_tuned`, of `num_tried`): on
    the first days alone, so that `kept_ratio_worst_unseen_day` is of days that they were not searched on; None where
    there is none. Careful settings (`is_careful`) leave half of the misses that the target allows unused on those
    days. `controller` runs the law as it was played; none where it is empty. `kept_ratio` is the share of requests
    that kept their limits: over all, of each whole day, of the worst day and of the worst quarter of an hour.
    `cold_requests` came while no machine was ready. `machine_hours` count machines that start and drain too.
    `over_perfect_ratio`: what it costs over somebody who knows the future.
    """

    policy: str
    title: str
    source: str
    controller: str = ""
    settings: dict[str, float | None]
    num_tried: int
    is_tuned: bool = False
    is_careful: bool = False
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


class MachinesFrom(Result):
    """Machines from `t_s` on: those that are paid, since they start, serve or drain, and those that serve."""

    t_s: float
    machines: int
    ready: int


class ScalingWindow(Result):
    """Machines from `start_s` to `end_s` after midnight, on days of the week from Monday = 1 on.

    They serve from the start on: a cold start before it they are ordered.
    """

    days: list[int]
    start_s: float
    end_s: float
    machines: int


class Saving(Result):
    """What a law would save that is not recommended, since no controller runs it, or none whose files are written."""

    policy: str
    controller: str
    usd: float
    saved_ratio: float


class Recommendation(Result):
    """What to set: the law, its least and most, targets and windows, and whether to go to none and why.

    `prewarm_lead_s`: how long before it is needed a machine is started, where the law looks ahead. `windows` are above
    the `least_in_windows` machines that there are at any time; where the trace has no dates (`is_dated`) its first day
    counts as a Monday. `machines` are those of the play, from each change on.
    """

    policy: str
    controller: str = ""
    is_tuned: bool = False
    is_careful: bool = False
    settings: dict[str, float | None]
    min_machines: int
    max_machines: int
    target_requests_per_s: float
    prewarm_lead_s: float | None
    scales_to_zero: bool
    why_zero: str
    saved_ratio: float
    windows: list[ScalingWindow] = []
    least_in_windows: int = 0
    is_dated: bool = True
    machines: list[MachinesFrom] = []
    could_save: Saving | None = None


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


class AutoscaleResult(Sealed, Answer):
    """Laws of scaling played on a curve of rates in ticks, cheapest first among those that keep the target.

    Machines are between `least_machines` and `most_machines`, beside those that drain. `plan` is what is scaled.

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
    least_machines: int = 0
    most_machines: int = 0
    cold_start_s: float
    cold_start: ColdStartResult | None = None
    is_tuned: bool
    num_tuned_days: int | None = None
    plays: list[PolicyPlay]
    perfect: PolicyPlay
    front: list[str]
    recommendation: Recommendation
    replayed: ReplayedDay | None = None
    plan: ServePlan | None = None

    @property
    def recommended(self) -> PolicyPlay:
        """The play that is recommended."""
        chosen = self.recommendation
        named = (play for play in self.plays if play.policy == chosen.policy)
        how = (chosen.is_tuned, chosen.is_careful)
        return next(play for play in named if (play.is_tuned, play.is_careful) == how)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether any law keeps the target on every day."""
        return any(play.meets_target for play in self.plays)
