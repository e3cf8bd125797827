"""The same question put to the catalog and the model of the full install."""

from __future__ import annotations

from gpufleet.compat.classic.analysis import Analysis

HOW_TO_GET_IT = (
    "Needs the full install: 'pip install .' in the clone, or 'make plan' there and its .venv/bin/python instead of "
    "python3. The arithmetic above needs nothing."
)


def true_today(answer: Analysis) -> list[str]:
    """What catalog and model say of today's setup and of the recommended one, or how to get that."""
    try:
        from gpufleet.compat.classic.comparison import comparison
    except ImportError:
        return [HOW_TO_GET_IT]
    return comparison(answer)
