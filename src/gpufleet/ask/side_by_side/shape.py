"""Models side by side for one load."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.levers import CertaintyPrice, Lever
from gpufleet.results.plan import Deployment, MixedDeployment, RejectionCount, Relaxation


class ModelRow(Result):
    """What one model needs by itself, as its own plan says it.

    `asked`: the model as it was named. `deployment` is the answer of its plan, or `mix` where that is two offers
    together; both None where nothing serves: then `rejections` say why and `relaxations` what would have to give way,
    the smallest first. It costs `least_usd_per_hour` to `most_usd_per_hour` as limits hold as expected to at the high
    end of ranges (`certainty`); `most` is None where nothing holds so surely. `dearer_ratio`: how much more it costs
    than the cheapest of all. It would cost as little if each of its machines cost `wins_below_usd_per_hour`, or with
    `lever`, a single change of its question, all else as it is. `plan_hash` is that of its plan.
    """

    asked: str
    model: str
    num_parameters: int
    num_active_parameters: int
    deployment: Deployment | None
    mix: MixedDeployment | None = None
    usd_per_hour: float | None
    least_usd_per_hour: float | None = None
    most_usd_per_hour: float | None = None
    usd_per_million_output_tokens: float | None = None
    certainty: list[CertaintyPrice] = []
    verdict: str
    grade: str
    dearer_ratio: float | None = None
    wins_below_usd_per_hour: float | None = None
    lever: Lever | None = None
    rejections: list[RejectionCount] = []
    relaxations: list[Relaxation] = []
    plan_hash: str

    @property
    def parts(self) -> list[Deployment]:
        """Everything that is rented for it."""
        if self.deployment is not None:
            return [self.deployment]
        return [] if self.mix is None else [part.deployment for part in self.mix.parts]


class ModelComparison(Answer):
    """Models for one load, the cheapest first, those that nothing serves last.

    `saved_ratio`: how much less the first costs than the second. `sureness` says whether it is the cheaper one:
    `sure` (what they cost at any confidence does not overlap), `shared` (it does, but both run the same engine on the
    same GPU, so that errors are shared, and it costs no more at each confidence), `open`, `equal` (they cost the same),
    `unasked` (a confidence was asked for, so there is no range), `alone` (no other serves); "" where none serves.
    """

    rate_requests_per_s: float
    input_tokens: float
    output_tokens: float
    objectives: dict[str, float]
    rows: list[ModelRow]
    saved_ratio: float | None
    sureness: str

    @property
    def is_feasible(self) -> bool:
        """Whether every model is served."""
        return all(row.usd_per_hour is not None for row in self.rows)

    @property
    def cheapest(self) -> ModelRow | None:
        """The row of the cheapest model; None where none is served."""
        return self.rows[0] if self.rows[0].usd_per_hour is not None else None
