"""Versions of engines in order."""

from __future__ import annotations

import re

NAMED_BUILD = (999_999_999,)
"""A build with a name and no number: newer than all."""


def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version in order: '0.11.2' before '1.0.0rc3'; a name without numbers counts as newest.

    >>> version_key("0.8.0") < version_key("0.14.0") < version_key("nightly")
    True
    """
    numbers = re.match(r"v?([0-9]+(?:\.[0-9]+)*)", version.strip())
    return tuple(int(n) for n in numbers.group(1).split(".")) if numbers else NAMED_BUILD
