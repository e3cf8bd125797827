"""What Ctrl-C may not cut short: elsewhere it ends the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until what is being written is whole."""
    held: list[object] = []
    try:
        with interrupts_to(lambda *_: held.append(True)):
            yield
    finally:
        if held:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Ctrl-C is an exception, for whoever has something to put back: a cursor, a lock."""
    with interrupts_to(signal.default_int_handler):
        yield


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C is noted, for whoever asks between two steps of a long work; the second ends it at once."""
    noted: list[object] = []

    def note(*how: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(how)

    with interrupts_to(note):
        yield lambda: bool(noted)


@contextmanager
def interrupts_to(handler: Callable[..., object]) -> Iterator[None]:
    """Ctrl-C goes to a handler; where it is ignored, or on another thread than the first, it never comes."""
    is_first = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not is_first or before in (signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
