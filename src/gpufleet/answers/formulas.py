"""How the seconds of an operator are computed, as an explained estimate says it."""

from __future__ import annotations

from gpufleet.domain.calibration import StreamFormula
from gpufleet.units import MICROSECOND

PRODUCT = "max(2 m n k / peak, bytes / bandwidth), over the measured product curve"


def stream_words(formula: StreamFormula) -> str:
    """The formula of kernels that only move memory."""
    return f"{formula.fixed_s.value / MICROSECOND:g} us + bytes / ({formula.bandwidth_ratio.value:g} bandwidth)"
