"""A plan that can be asked further: why, why not something else, what flips it, what else there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from gpufleet.domain.requests import Requests
from gpufleet.results.levers import Flip, Lever
from gpufleet.results.plan import BreakEven, Front, ServePlan, WhyNot
from gpufleet.results.verification import Verification

if TYPE_CHECKING:
    from gpufleet.api.serve_questions import Prepared
    from gpufleet.optimize.demand import Demand
    from gpufleet.pricing.token_price import TokenPrice


class ServeAnswer(ServePlan):
    """A serving plan that knows its question and its solution, so that it can be asked further."""

    _prepared: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, plan: ServePlan, prepared: Prepared) -> ServeAnswer:
        """The answer of a plan to the question that it was made for."""
        answer = cls.model_construct(**dict(plan))
        answer._prepared = prepared
        return answer

    def with_basis(self) -> ServePlan:
        """The plan with what it rests on: digests and every price that counts."""
        from gpufleet.api.plan_basis import basis_of_plan

        return self.model_copy(update={"basis": self.basis or basis_of_plan(self._prepared)})

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plan that is written down says what it rests on."""
        return dict(write(self.with_basis() if self.basis is None and self._prepared is not None else self))

    def why(self) -> str:
        """The reasons for the answer in words; without one, what would have to give way."""
        from gpufleet.report.plan import reasons

        return reasons(self)

    def why_not(self, setup: str) -> WhyNot:
        """Why GPUs ('L40S:4': replicas of four, 'L40S': of any size) or a machine type are not the answer."""
        from gpufleet.api.inquiries import why_not

        return why_not(self._prepared, self, setup)

    def what_flips(self) -> list[Flip]:
        """The nearest price, rate, limit and length at which another machine type wins."""
        from gpufleet.api.inquiries import what_flips

        return what_flips(self._prepared)

    def every_lever(self) -> list[Lever]:
        """Single changes of the question that save much, those among them for which it is solved again."""
        from gpufleet.api.levers import dear_levers

        return dear_levers(self._prepared, self)

    def pareto(self, figure: str | None = None) -> Front:
        """Deployments that none beats in both cost and a latency figure such as 'ttft.p95'."""
        from gpufleet.api.inquiries import pareto

        return pareto(self._prepared, figure)

    def against_tokens(self, price: str | TokenPrice) -> BreakEven:
        """The answer beside an API that charges by the token: '0.6/1.2' USD per million in and out."""
        from gpufleet.api.inquiries import against_tokens

        return against_tokens(self._prepared, price)

    def verify(self, trace: Requests | None = None, promised: Demand | None = None) -> Verification:
        """The answer and the next two with their requests replayed: drawn ones, and those of a trace too."""
        from gpufleet.api.verification import verification

        question, tables = self._prepared.question, self._prepared.tables
        demand = question.demand
        rows, arch = list(self.deployments), question.model.arch
        return verification(rows, arch, demand.workload, tables, trace, promised or demand, self._prepared.request)

    def to_json(self) -> str:
        """The plan as JSON, which `gpufleet explain` reads."""
        from gpufleet.report.formats import as_json

        return as_json(self)

    def _repr_html_(self) -> str:
        from gpufleet.report.html import page_as_fragment
        from gpufleet.report.plan import plan_page

        return page_as_fragment(plan_page(self))


def asked_further(
    plan: ServeAnswer,
    *,
    why_not: Sequence[str] = (),
    flips: bool = False,
    front: bool = False,
    token_price: str | TokenPrice | None = None,
    grid_g_co2_per_kwh: float | None = None,
) -> ServeAnswer:
    """The plan with whatever was asked about it; of a plan without an answer, only why not something else."""
    found: dict[str, object] = {"asked_about": [plan.why_not(setup) for setup in why_not]}
    if plan.deployments:
        found |= {"flips": plan.what_flips(), "levers": plan.every_lever()} if flips else {}
        found |= {"front": plan.pareto()} if front else {}
        found |= {} if token_price is None else {"break_even": plan.against_tokens(token_price)}
    if grid_g_co2_per_kwh is not None:
        from gpufleet.answers.decoder_service import with_grid

        found["deployments"] = [with_grid(d, grid_g_co2_per_kwh) for d in plan.deployments]
    return plan.model_copy(update=found)
