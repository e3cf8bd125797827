"""A question that is read once: names resolved, what is on sale, its solution. Whatever else is asked stands on it."""

from __future__ import annotations

from gpufleet.api.price_age import refuse_too_old
from gpufleet.api.requests import ServeRequest
from gpufleet.api.serve_questions import architecture_of, serve_question, sold_tables
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.domain.calibration import Calibration
from gpufleet.errors import Infeasible
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.dated import solved_on_dated
from gpufleet.optimize.service import solve_serve
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request with its tables, the question that it asks, its solution, and notes on how its names were read."""

    request: ServeRequest
    tables: Catalog
    question: WriterQuestion
    solution: WriterSolution
    notes: tuple[str, ...]

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
    question, solution = solved_on_dated(question, lambda asked: solve_serve(asked, calibration_of(sold)))
    return Prepared(request, sold, question, solution, tuple(notes))
