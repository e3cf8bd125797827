"""The simulator's inner functions, compiled where Numba is installed; without it they are what they were written as.

They add, multiply, divide and compare, and draw nothing: compiled and plain give the same numbers to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
HOW = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""Division by zero raises nothing; nothing is allocated, so that references need not be counted."""

try:
    numba = import_module("numba")
except ImportError:
    IS_COMPILED = False
else:
    IS_COMPILED = True


def compiled(function: Function) -> Function:
    """A function in machine code that others call; fused or reordered arithmetic is not allowed."""
    return cast("Function", numba.njit(no_cpython_wrapper=True, **HOW)(function)) if IS_COMPILED else function


def compiled_and_kept(function: Function) -> Function:
    """The same for one that Python calls, kept for the next start with all that it calls.

    Loops are not put into vectors: there are none to gain from it, and to look for them takes half of the compiler's
    time. Numba has that as a setting of the process, which holds for our calls alone.
    """
    if not IS_COMPILED:
        return function
    machine = numba.njit(cache=True, **HOW)(function)

    @wraps(function)
    def called(*arguments: Any) -> Any:
        settings = numba.config
        others, settings.LOOP_VECTORIZE = settings.LOOP_VECTORIZE, 0
        try:
            return machine(*arguments)
        finally:
            settings.LOOP_VECTORIZE = others

    return cast("Function", called)
