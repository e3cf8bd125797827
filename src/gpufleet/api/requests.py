"""Requests as the api takes them, and what is refused of all of them."""

from __future__ import annotations

from gpufleet.errors import UsageError
from gpufleet.questions.fields import MOST_ROWS
from gpufleet.questions.fields import PlanRequest as PlanRequest
from gpufleet.questions.fields import RequestKind as RequestKind
from gpufleet.questions.fields import ServeRequest as ServeRequest
from gpufleet.questions.fields import ServiceRequest as ServiceRequest
from gpufleet.questions.fields import WriterRequest as WriterRequest


def refuse_rows(rows: int) -> None:
    """Refuse a number of rows that no page holds."""
    if not 1 <= rows <= MOST_ROWS:
        raise UsageError("the number of rows is out of range", found=rows, expected=f"from 1 to {MOST_ROWS}")
