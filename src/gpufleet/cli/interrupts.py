"""What Ctrl-C may not cut short: elsewhere it ends the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from gpufleet.cli import end_process


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
def interrupts_noted(*, ends_until_asked: bool = False) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C is noted, for whoever asks between two steps of a long work; the second ends it at once.

    `ends_until_asked`: until somebody asks there is nothing to keep, and a compiler that hears of no signal for long;
    the system itself ends the process then, where the command has it to itself.
    """
    noted: list[object] = []
    ends_now = ends_until_asked and is_ours()

    def note(*how: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(how)

    def is_noted() -> bool:
        nonlocal ends_now
        if ends_now:
            signal.signal(signal.SIGINT, note)
            ends_now = False
        return bool(noted)

    with interrupts_to(signal.SIG_DFL if ends_now else note):
        yield is_noted


@contextmanager
def interrupts_end_at_once() -> Iterator[None]:
    """The system itself ends the process, where the command has it to itself: a compiler hears of no signal for long.

    Nothing in here may have to be put back.
    """
    with interrupts_to(signal.SIG_DFL) if is_ours() else nullcontext():
        yield


def is_ours() -> bool:
    """Whether Ctrl-C ends the process by this command, and nobody else has a say in it."""
    return signal.getsignal(signal.SIGINT) is end_process


@contextmanager
def interrupts_to(handler: Callable[..., object] | signal.Handlers) -> Iterator[None]:
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
