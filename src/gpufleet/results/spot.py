"""A job with a deadline on spot machines: where, by which rules, for how much, and how sure."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import SCHEMA_VERSION, Figure, Input, Result


class SpotPrice(Result):
    """The price of an hour of one machine, and where it stands; of a price that somebody says, `basis` is `given`."""

    usd_per_hour: float
    basis: str
    source: str = ""
    as_of: date | None = None
    doubt: str = ""


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


class SpotRules(Result):
    """A policy as data: a state machine whose thresholds are slack, and the safety net under it.

    Slack is the time left less the work left and what is left of a start. Every `tick_s` the first rule that fits what
    runs and what can be had is looked up. The net: whatever the rules say, on demand is taken while the time left
    after the tick holds the work left, `restart_s` and `loss_s`.
    """

    schema_version: str = SCHEMA_VERSION
    policy: str
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


class SpotAnswer(Result):
    """What each kind of question about spot is answered with: the markets, and what availability rests on.

    `alone`: without spot, where that is cheapest.
    `most_usd_per_hour`: the price of a spot machine above which on demand alone is cheaper.
    """

    schema_version: str = SCHEMA_VERSION
    num_machines: int
    market: SpotMarketRow
    markets: list[SpotMarketRow]
    alone: OnDemandAlone
    most_usd_per_hour: float
    zones: int
    availability_ratio: float
    availability_source: str
    grade: str
    num_draws: int
    seed: int
    inputs: list[Input]
    notes: list[str] = []


class SpotPlan(SpotAnswer):
    """A job with a deadline on spot, with machines on demand as the net: the answer, the policies, the markets.

    `usd_if_seldom_taken`: at the advisor's rate of interruptions, the optimistic end.
    `late_if_refused_ratio`: of draws that end late where on demand is refused for `refused_s` whenever it is asked for.
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
    rules: SpotRules

    @property
    def saved_ratio(self) -> float:
        """What it saves over on demand alone where that is cheapest."""
        return 1 - self.answer.usd.value / self.alone.usd
