"""Figures, ranges, terms and layouts of the core as users get them."""

from __future__ import annotations

from gpufleet.domain.calibration import StreamFormula
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.cold_start import ColdStart, StartStage
from gpufleet.domain.interruption import Spread
from gpufleet.memory.band import Band
from gpufleet.provenance import Grade, Term
from gpufleet.results.base import ExplainedTerm, Figure, Input
from gpufleet.results.cold_start import ColdStartResult, StartStageResult
from gpufleet.units import MICROSECOND

PRODUCT = "max(2 m n k / peak, bytes / bandwidth), over the measured product curve"


def spread_figure(spread: Spread | Band, unit: str, grade: str) -> Figure:
    """A spread, or a band of one row, in its unit."""
    low, expected, high = float(spread.low), float(spread.expected), float(spread.high)
    return Figure(value=expected, unit=unit, low=low, high=high, grade=grade)


def spread_of(figure: Figure) -> Spread:
    """A figure's range; where an end is not known, the value."""
    low, high = (figure.value if end is None else end for end in (figure.low, figure.high))
    return Spread(low, figure.value, high)


def accepted_tokens(candidates: Candidates, row: int) -> Figure | None:
    """Tokens that a step of decoding gives each sequence, for a candidate that drafts; stated ones have no range."""
    if candidates.palette.engines[candidates.engine[row]].drafts is None:
        return None
    low, high = (float(end) for end in candidates.engine_range("accepted_length")[:, row])
    grade = Grade.MEASURED if low == high else Grade.TRANSFERRED
    return Figure(value=float(candidates.tokens_per_step[row]), unit="tokens", low=low, high=high, grade=grade.label)


def explained(term: Term) -> ExplainedTerm:
    """A term with its formula, the numbers put in, and the name of its grade."""
    return ExplainedTerm.made_of(term, grade=term.grade.label)


def stream_words(formula: StreamFormula) -> str:
    """The formula of kernels that only move memory."""
    return f"{formula.fixed_s.value / MICROSECOND:g} us + bytes / ({formula.bandwidth_ratio.value:g} bandwidth)"


def cold_start_result(
    start: ColdStart, *, model: str, gpus: str, engine: str, storage: str, weights_bytes: float, inputs: list[Input]
) -> ColdStartResult:
    """The stages with their ranges and sources as users get them."""
    whole = Figure(value=start.seconds, unit="s", low=start.low_s, high=start.high_s, grade=start.grade.label)
    return ColdStartResult(
        model=model,
        gpus=gpus,
        engine=engine,
        storage=storage,
        weights_bytes=weights_bytes,
        stages=[stage_result(stage) for stage in start.stages],
        seconds=whole,
        inputs=inputs,
    )


def stage_result(stage: StartStage) -> StartStageResult:
    """One stage."""
    took = Figure(value=stage.seconds, unit="s", low=stage.low_s, high=stage.high_s, grade=stage.grade.label)
    return StartStageResult(name=stage.name, seconds=took, source=stage.source)
