"""Seconds that a vision tower takes to turn images into tokens, before the language model reads them."""

from __future__ import annotations

import numpy as np

from gpufleet.architecture.vision import vision_flop
from gpufleet.domain.architecture import VisionTower
from gpufleet.domain.arrays import FloatArray, Floats

VISION_FLOP_RATIO = 0.4


def vision_s(
    tower: VisionTower, image_tokens: Floats, patches_per_image: Floats, peak_flop_per_s: Floats
) -> FloatArray:
    """Seconds on one device, in 16 bits, for images of `image_tokens` in all.

    t = flop / (0.4 peak)   [s]   A judgement: what dense products of these widths reach; no tower was measured.
    An image of 1,024 x 1,024 for Qwen3.5-35B-A3B on an H100:

    >>> tower = VisionTower(27, 1152, 16, 4, 446571248, 413233152, 30670848)
    >>> round(float(vision_s(tower, 1024, 4096, 989e12)) * 1e3, 1)
    14.0
    """
    flop = vision_flop(tower, image_tokens, patches_per_image)
    return np.asarray(flop / (VISION_FLOP_RATIO * np.asarray(peak_flop_per_s)))
