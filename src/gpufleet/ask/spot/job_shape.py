"""A job with a deadline on spot machines: where, by which rules, for how much, and how sure."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import SCHEMA_VERSION, Figure, Result
from gpufleet.results.rented import SpotPrice

WORTH_RATIO = 0.005
"""What spot has to save at least so that anything moves there."""


class SpotMarketRow(Result):
    """One machine type in one region: its prices, and what the job costs there, on spot with on demand as the net.

    `saved_ratio`: over on demand alone where that is cheapest.
    """

    cloud: str
    region: str
    instance: str
    gpu: str
    gpus_per_instance: float
    spot: SpotPrice
    on_demand: SpotPrice
    interruption: str | None = None
    usd: Figure
    saved_ratio: float


class OnDemandAlone(Result):
    """The job on demand from start to end, where that costs least of all regions and machines that were asked about."""

    cloud: str
    region: str
    instance: str
    price: SpotPrice
    usd: float


class SpotPlay(Result):
    """One policy, and how it did over all draws: figures are means, from the 10th to the 90th percentile of draws.

    `late_ratio`: of draws that end after the deadline. `losses`: machines taken away in a run. `on_demand_ratio`: of
    the machine time; `takes_over_ratio`: of draws that go on demand at all, half of them within `takes_over_s`.
    """

    policy: str
    title: str
    usd: Figure
    elapsed: Figure
    late_ratio: float
    losses: Figure
    on_demand_ratio: float
    takes_over_ratio: float
    takes_over_s: float | None = None


class SlackPoint(Result):
    """With so much time left, on demand is taken below so much slack."""

    left_s: float
    slack_s: float


class SpotRule(Result):
    """What holds for a job that runs so (waiting, spot, on demand) while a market is so, for so long."""

    running: str
    has_machine: bool
    from_s: float
    until_s: float | None = None
    on_demand_below: list[SlackPoint]
    otherwise: str


class SpotNet(Result):
    """What has to hold at a look for a job to wait, to begin on spot or to stay there; where it does not, on demand.

    Names are those of the policy. Nothing is done between two looks at worst: the machine goes just after one, with
    what was not saved, and is missed at the next.
    """

    to_wait: str = "work_left_s + restart_s + tick_s <= left_s"
    to_begin_on_spot: str = "work_left_s + restart_s + tick_s <= left_s"
    to_stay_on_spot: str = "work_left_s + loss_s + restart_s + tick_s <= left_s"


class SpotRules(Result):
    """A policy as data: a state machine whose thresholds are slack, and the safety net under it.

    `looks` says when to decide, `reads` what is read then and how, `threshold` how `on_demand_below` is looked up.
    """

    schema_version: str = SCHEMA_VERSION
    policy: str
    looks: str = (
        "every tick_s from the start on; also at the moment of a loss where that is known at once: sooner is as safe"
    )
    reads: dict[str, str] = {
        "left_s": "deadline_s less the time since the start",
        "work_left_s": "work not done yet; after a loss, what was lost with the machine is left again",
        "starting_left_s": "what is left of the start of the machine that runs; 0 without one",
        "slack_s": "left_s - work_left_s - starting_left_s",
        "running": "waiting, spot or on demand; a machine that was taken away leaves a job waiting",
        "has_machine": "whether the spot machine still runs, or one can be had",
        "age_s": "for how long has_machine has been so, as seen since the start, and tick_s more",
    }
    threshold: str = (
        "the rule whose running and has_machine fit, with from_s < age_s <= until_s: on demand where slack_s is less "
        "than slack_s of on_demand_below at left_s, in a straight line between its points; else what otherwise says, "
        "if the net holds for it"
    )
    net: SpotNet = SpotNet()
    tick_s: float
    work_s: float
    deadline_s: float
    restart_s: float
    loss_s: float
    rules: list[SpotRule]


class SpotDeviation(Result):
    """A tick in which a job ran otherwise than its policy says."""

    elapsed_s: float
    has_machine: bool
    ran: str
    should: str
    slack_s: float


class SpotAudit(Result):
    """A log beside its policy: where they differ, when the net was broken, how the job ended.

    `net_broken`: ticks in which the job was not on demand although nothing else was sure to be in time.
    """

    schema_version: str = SCHEMA_VERSION
    num_ticks: int
    deviations: list[SpotDeviation]
    net_broken: int
    ended_s: float | None
    deadline_s: float
    losses: int
    on_demand_ratio: float

    @property
    def is_followed(self) -> bool:
        """Whether the job did what the policy says, throughout."""
        return not self.deviations


class SpotAnswer(Answer):
    """What each kind of question about spot is answered with: the markets, and what availability rests on.

    `alone`: without spot, where that is cheapest.
    `most_usd_per_hour`: the price of a spot machine above which on demand alone is cheaper.
    """

    num_machines: int
    market: SpotMarketRow
    markets: list[SpotMarketRow]
    alone: OnDemandAlone
    most_usd_per_hour: float
    zones: int
    availability_ratio: float
    availability_source: str
    num_draws: int
    seed: int


class SpotPlan(SpotAnswer):
    """A job with a deadline on spot, with machines on demand as the net: the answer, the policies, the markets.

    `usd_if_seldom_taken`: at the advisor's rate of interruptions, the optimistic end.
    `late_if_refused_ratio`: of draws that end late where on demand is refused for `refused_s` whenever it is asked for.
    `has_time_for_spot`: whether the deadline is late enough for a machine to be lost at all.
    """

    job: str
    work: Figure
    restart: Figure
    checkpoint_interval_s: float
    checkpoint_write_s: float
    deadline_s: float
    mean_up_s: float
    answer: SpotPlay
    plays: list[SpotPlay]
    usd_if_seldom_taken: float | None = None
    refused_s: float
    late_if_refused_ratio: float
    has_time_for_spot: bool = True
    rules: SpotRules

    @property
    def saved_ratio(self) -> float:
        """What it saves over on demand alone where that is cheapest."""
        return 1 - self.answer.usd.value / self.alone.usd
