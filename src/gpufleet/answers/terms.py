"""Parts of a total, as users get them."""

from __future__ import annotations

from gpufleet.provenance import Term
from gpufleet.results.base import ExplainedTerm


def explained(term: Term) -> ExplainedTerm:
    """A term with its formula, the numbers put in, and the name of its grade."""
    return ExplainedTerm(
        name=term.name,
        value=term.value,
        unit=term.unit,
        formula=term.formula,
        inputs=term.inputs,
        source=term.source,
        grade=term.grade.label,
        low=term.low,
        high=term.high,
    )
