"""What became of a plan: made again today, and what changed since it was written."""

from __future__ import annotations

from datetime import date

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.fleet import MissingMachines
from gpufleet.results.plan import Deployment, RejectionCount, Relaxation
from gpufleet.results.today import Today

TypeKey = tuple[str, str, str]


class PriceChange(Result):
    """The cheapest region of one machine type and price kind, then and now; None where there was no price.

    `is_decisive`: this change alone turns the choice of then, at today's model, into today's choice. `alone_gives`: the
    machine type that would be chosen had this price alone changed; empty where that is the choice of then.
    """

    cloud: str
    instance: str
    price_kind: str
    was_usd_per_hour: float | None
    now_usd_per_hour: float | None
    was_region: str | None
    now_region: str | None
    was_as_of: date | None
    now_as_of: date | None
    is_decisive: bool = False
    alone_gives: str = ""


class DigestChange(Result):
    """Something that predictions rest on and that is not what it was: the release, the model, the engine, a machine."""

    what: str
    was: str | None
    now: str | None


class QuotaChange(Result):
    """How many machines of an offer can be had, then and now; None where nothing bounds them."""

    cloud: str
    region: str
    instance: str
    price_kind: str
    was: int | None
    now: int | None


class QuestionChange(Result):
    """An input that a workload file gives another value than the plan has; None where nothing was said."""

    what: str
    was: str | None
    now: str | None


class PlanChanges(Answer):
    """A plan of some day beside the same question asked today.

    `was`: the answer in the file; `at_old_prices`: today's tables and equations with the prices and quotas of the file;
    `at_todays_quotas`: the same within today's quotas, reservations and racks; `now`: today's answer. From `was` to
    `at_old_prices` the model changed the answer, from there to `at_todays_quotas` quotas did, from there prices.
    `was_today`, `now_today`: the verdicts on what ran when the plan was made. `is_feasible`: whether anything serves
    today within objectives, budget and quotas; `relaxations` and `rejections` say what hinders where nothing does.
    `question_changes`: what a workload file, where one was named, asks otherwise; the answers are to the old question.
    """

    model: str
    was_hash: str
    now_hash: str
    was: Deployment | None
    at_old_prices: Deployment | None
    at_todays_quotas: Deployment | None
    now: Deployment | None
    price_changes: list[PriceChange]
    quota_changes: list[QuotaChange] = []
    digest_changes: list[DigestChange]
    num_prices: int
    was_today: Today | None = None
    now_today: Today | None = None
    is_feasible: bool = True
    relaxations: list[Relaxation] = []
    rejections: list[RejectionCount] = []
    question_changes: list[QuestionChange] = []

    @property
    def is_reproduced(self) -> bool:
        """Whether question and prices are what they were, and the answer is too."""
        return self.was_hash == self.now_hash and self.stands

    @property
    def stands(self) -> bool:
        """Whether the answer is what it was, and the verdict on what ran then, whatever changed around it."""
        return is_same(self.was, self.now) and self.verdict_stands

    @property
    def is_unchanged(self) -> bool:
        """Whether it stands, and nothing else is asked."""
        return self.stands and not self.is_asked_otherwise

    @property
    def is_asked_otherwise(self) -> bool:
        """Whether a workload file asks something else."""
        return bool(self.question_changes)

    @property
    def verdict_stands(self) -> bool:
        """Whether the verdict on what ran when the plan was made is what it was."""
        was, now = (None if t is None else (t.step, t.is_close) for t in (self.was_today, self.now_today))
        return was == now

    @property
    def model_changed_it(self) -> bool:
        """Whether the answer would differ at the prices of the file."""
        return not is_same(self.was, self.at_old_prices)

    @property
    def quotas_changed_it(self) -> bool:
        """Whether how many machines can be had makes a difference to today's model at the prices of the file."""
        return not is_same(self.at_old_prices, self.at_todays_quotas)

    @property
    def prices_changed_it(self) -> bool:
        """Whether prices alone make a difference to today's model within today's quotas."""
        return not is_same(self.at_todays_quotas, self.now)


class FleetChanges(Answer):
    """A plan of several models beside the same questions asked today: each model alone, and all together.

    `is_feasible`: whether all are served today within the budget, and no more machines than can be had; else
    `unserved` names who is not, and `missing` of what there is too little for all together.
    """

    models: list[PlanChanges]
    was_hash: str
    now_hash: str
    was_usd_per_hour: float | None
    now_usd_per_hour: float | None
    budget_usd_per_hour: float | None = None
    is_feasible: bool = True
    unserved: list[str] = []
    missing: list[MissingMachines] = []
    question_changes: list[QuestionChange] = []

    @property
    def is_unchanged(self) -> bool:
        """Whether it stands, and nothing else is asked."""
        return self.stands and not self.is_asked_otherwise

    @property
    def is_asked_otherwise(self) -> bool:
        """Whether a workload file asks something else of all models or of any."""
        return bool(self.question_changes) or any(model.question_changes for model in self.models)

    @property
    def stands(self) -> bool:
        """Whether every answer and the cost of all are what they were."""
        return all(is_same(m.was, m.now) for m in self.models) and is_close(
            self.was_usd_per_hour, self.now_usd_per_hour
        )


def is_close(one: float | None, other: float | None) -> bool:
    """Two costs that are the same, or both unknown."""
    if one is None or other is None:
        return one is other
    return abs(one / other - 1) < COST_TOLERANCE


def is_same(one: Deployment | None, other: Deployment | None) -> bool:
    """The same machines, layout and cost."""
    if one is None or other is None:
        return one is other
    return bought(one) == bought(other) and abs(one.usd_per_hour / other.usd_per_hour - 1) < COST_TOLERANCE


COST_TOLERANCE = 1e-9


def bought(d: Deployment) -> tuple[object, ...]:
    """What a deployment rents and runs."""
    return d.cloud, d.instance, d.price_kind, d.instance_count, d.engine, d.layout, d.weight_format
