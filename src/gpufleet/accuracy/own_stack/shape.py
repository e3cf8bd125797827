"""What runs of one's own say of an engine on a GPU."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result


class StackFactor(Result):
    """A factor on a time of all models of the stack, of one model, or of one layout of it.

    `measured_ratio` is the median of measured / predicted over its runs, `ratio` what is taken of it, `low_ratio` and
    `high_ratio` its 10th and 90th percentile. `range_ratio`: the half-width of a range (in ln) over what it was.
    Factors hold at 16 sequences together; for e times as many they are e^`slope` times that.
    """

    time: str
    model: str = ""
    layout: str = ""
    runs: int
    measured_ratio: float
    ratio: float
    low_ratio: float
    high_ratio: float
    range_ratio: float
    slope: float = 0.0


class FarRun(Result):
    """A run that disagrees with the others, and counts for less."""

    name: str
    time: str
    measured_ratio: float


class StackCalibration(Answer):
    """Factors of one engine on one GPU from `runs` runs, what all models share last.

    `toml` is the text of the file that questions take (`--calibration`), `saved` where it was written.
    """

    engine: str
    engine_version: str
    gpu: str
    runs: int
    factors: list[StackFactor]
    far: list[FarRun]
    toml: str
    saved: str = ""
