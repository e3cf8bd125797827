"""Bounds on the sizes that a shape may have: anything beyond is a mistake in a file, not a model."""

from __future__ import annotations

MAX_DIMENSION = 2**24
MAX_LAYERS = 4096


def require_positive(owner: str, **dimensions: int) -> None:
    """Refuse a dimension that is not a whole number between 1 and 2**24."""
    for name, value in dimensions.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_DIMENSION:
            raise ValueError(f"{owner}: {name} must be a whole number from 1 to {MAX_DIMENSION}, found {value!r}")
