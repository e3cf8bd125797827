"""How the seconds of an operator are computed, as an explained estimate says it."""

from __future__ import annotations

from gpufleet.performance.elementwise import FIXED_S, STREAM_RATIO
from gpufleet.units import MICROSECOND

PRODUCT = "max(2 m n k / peak, bytes / bandwidth), over the measured product curve"
STREAM = f"{FIXED_S / MICROSECOND:g} us + bytes / ({STREAM_RATIO:g} bandwidth)"
