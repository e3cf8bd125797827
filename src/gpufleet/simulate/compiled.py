"""The simulator's inner functions, compiled where Numba is installed; without it they are what they were written as.

They add, multiply, divide and compare, and draw nothing: compiled and plain give the same numbers to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    IS_COMPILED = False
else:
    IS_COMPILED = True


def compiled(function: Function) -> Function:
    """A function in machine code; fused or reordered arithmetic is not allowed, and nothing is allocated in it."""
    return function if not IS_COMPILED else cast("Function", numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def compiled_and_kept(function: Function) -> Function:
    """The same, kept for the next start with all that it calls."""
    if not IS_COMPILED:
        return function
    return cast("Function", numba.njit(cache=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)(function))
