"""Seconds that a vision tower takes to turn images into tokens, before the language model reads them."""

from __future__ import annotations

import numpy as np

from gpufleet.architecture.vision import vision_flop
from gpufleet.domain.architecture import VisionTower
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import VisionFormula


def vision_s(
    formula: VisionFormula,
    tower: VisionTower,
    image_tokens: Floats,
    patches_per_image: Floats,
    peak_flop_per_s: Floats,
) -> FloatArray:
    """Seconds on one device, in 16 bits, for images of `image_tokens` in all.

    t = flop / (ratio x peak)   [s]   Constant: `data/calibration/formulas.toml`.
    An image of 1,024 x 1,024 for Qwen3.5-35B-A3B on an H100, with 0.4:

    >>> from gpufleet.provenance import Sourced
    >>> tower = VisionTower(27, 1152, 16, 4, 446571248, 413233152, 30670848)
    >>> formula = VisionFormula(Sourced(0.4, "ratio", "example"))
    >>> round(float(vision_s(formula, tower, 1024, 4096, 989e12)) * 1e3, 1)
    14.0
    """
    flop = vision_flop(tower, image_tokens, patches_per_image)
    return np.asarray(flop / (formula.flop_ratio.value * np.asarray(peak_flop_per_s)))
