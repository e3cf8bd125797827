"""Images as they are typed: '1x1024x1024'."""

from __future__ import annotations

import re

from gpufleet.domain.images import LONGEST_SIDE_PIXELS, MOST_IMAGES, Images
from gpufleet.errors import UsageError

EXPECTED = (
    f"count x width x height in pixels, such as 1x1024x1024; at most {MOST_IMAGES:,} images of "
    f"{LONGEST_SIDE_PIXELS:,} x {LONGEST_SIDE_PIXELS:,}"
)


def parse_images(text: str) -> Images:
    """How many images a request has, and their width and height in pixels.

    >>> parse_images("2 x 1024 x 768")
    Images(count=2, width_pixels=1024, height_pixels=768)
    """
    found = re.fullmatch(r"\s*(\d{1,9})\s*[x×]\s*(\d{1,9})\s*[x×]\s*(\d{1,9})\s*", str(text), re.IGNORECASE | re.ASCII)
    try:
        if found is not None:
            return Images(*map(int, found.groups()))
    except ValueError:
        pass
    raise UsageError("cannot read images", found=text, expected=EXPECTED)
