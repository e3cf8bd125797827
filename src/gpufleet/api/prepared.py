"""A question that is read once: names resolved, what is on sale, its solution. Whatever else is asked stands on it."""

from __future__ import annotations

from gpufleet.api.market import refuse_too_old
from gpufleet.api.requests import ServeRequest
from gpufleet.api.serve_questions import architecture_of, serve_question, sold_tables
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.domain.calibration import Calibration
from gpufleet.errors import Infeasible
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.mix import cheapest_mix
from gpufleet.optimize.promise import missed_confidence, solved_as_promised
from gpufleet.optimize.service import solve_serve
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request with its tables, the question that it asks, its solution, and notes on how its names were read.

    Nothing keeps the limits with `missed_confidence`, which nobody asked for: the question is that of expected values.
    """

    request: ServeRequest
    tables: Catalog
    question: WriterQuestion
    solution: WriterSolution
    notes: tuple[str, ...]
    missed_confidence: float | None = None

    @property
    def calibration(self) -> Calibration:
        """The measured kernels."""
        return calibration_of(self.tables)

    @property
    def served(self) -> WriterSolution:
        """The solution; an error where no offer alone serves."""
        if not self.solution.ranked:
            raise Infeasible(f"no single offer serves {self.question.model.name} as asked", hint="The plan says why.")
        return self.solution


def prepare(request: ServeRequest, tables: Catalog) -> Prepared:
    """Read a request against tables and solve it; prices that are older than it allows are refused."""
    sold = sold_tables(request, tables)
    question, notes = serve_question(request, architecture_of(request), sold)
    refuse_too_old(request, question.offers)
    said = request.confidence is not None
    kept, solution = solved_as_promised(
        question, lambda asked: solve_serve(asked, calibration_of(sold)), is_asked=said, is_served=is_served
    )
    return Prepared(request, sold, kept, solution, tuple(notes), missed_confidence(question, kept))


def is_served(question: WriterQuestion, solution: WriterSolution) -> bool:
    """Whether one offer serves, or two together within the budget."""
    if solution.ranked:
        return True
    found = cheapest_mix(question, solution)
    return found is not None and found.usd_per_hour <= question.purse.most_usd_per_hour
