"""The one facade: load, call, return an answer. Each question has a module of its own, loaded when it is asked.

Answers are read back from their JSON by their own classes: `BatchPlan.model_validate_json(text)`. What is public, and
where it is, stands in `gpufleet.table`; `__init__.pyi` says it to type checkers (`python -m tools.stub`).
"""

from __future__ import annotations

from importlib import import_module

from gpufleet.table import HOMES

__all__ = sorted(HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    """Public names, loaded when they are first used."""
    if name not in HOMES:
        raise AttributeError(f"module 'gpufleet.api' has no attribute {name!r}")
    return getattr(import_module(f"gpufleet.{HOMES[name]}"), name)
