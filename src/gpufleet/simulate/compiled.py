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


def kept_where_it_can(function: Function) -> Any:
    """A function in machine code that is kept, or is compiled anew at each start where no folder takes it.

    What is kept and cannot be read is forgotten: an interrupted copy or a full disk would else fail at every start.
    """
    try:
        machine = numba.njit(cache=True, **HOW)(function)
    except RuntimeError:
        return numba.njit(**HOW)(function)
    cache = machine._cache
    forget = unless_damaged(cache.flush, lambda: None)
    cache.load_overload = unless_damaged(cache.load_overload, forget)
    cache.save_overload = unless_damaged(cache.save_overload, forget)
    return machine


def unless_damaged(act: Callable[..., Any], forget: Callable[[], None]) -> Callable[..., Any]:
    """The same, which finds nothing and forgets all where what is kept is damaged."""

    def acted(*arguments: Any) -> Any:
        try:
            return act(*arguments)
        except Exception:
            forget()
            return None

    return acted


def compiled_and_kept(function: Function) -> Function:
    """The same for one that Python calls, kept for the next start with all that it calls.

    Loops are not put into vectors: there are none to gain from it, and to look for them takes half of the compiler's
    time. Numba has that as a setting of the process, which holds for our calls alone.
    """
    if not IS_COMPILED:
        return function
    machine = kept_where_it_can(function)

    @wraps(function)
    def called(*arguments: Any) -> Any:
        settings = numba.config
        others, settings.LOOP_VECTORIZE = settings.LOOP_VECTORIZE, 0
        try:
            return machine(*arguments)
        finally:
            settings.LOOP_VECTORIZE = others

    return cast("Function", called)
