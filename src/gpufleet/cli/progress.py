"""A bar for work that takes long: on a terminal alone, and not before a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from gpufleet.cli.interrupts import interrupts_end_at_once
from gpufleet.report.output_stream import remark

QUIET_S = 2.0
COMPILING = "compiling the simulator once (about 10 s) ..."


@contextmanager
def progress_bar(words: str, clock: Callable[[], float] = monotonic) -> Iterator[Callable[[float], None]]:
    """What to tell the share that is done: it appears on standard error after two seconds, and goes away at the end."""
    if not is_watched():
        yield lambda share: None
        return
    begin_s, shown = clock(), ExitStack()
    bars: list[Callable[[float], None]] = []

    def tell(share: float) -> None:
        if not bars and clock() - begin_s >= QUIET_S:
            bars.append(shown.enter_context(drawn_bar(words)))
        for bar in bars:
            bar(share)

    with shown:
        yield tell


def is_watched() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def tell_of_compiling() -> None:
    """Say on a terminal what the first replay of an installation waits for."""
    from gpufleet.catalog.kept_code import compiles_first

    if is_watched() and compiles_first():
        remark(COMPILING)


@contextmanager
def replaying(asked: bool) -> Iterator[None]:
    """What may begin with compiling the simulator, if replays are asked: a terminal is told, Ctrl-C ends it at once."""
    if not asked:
        yield
        return
    tell_of_compiling()
    with interrupts_end_at_once():
        yield


def telling_of_compiling(tell: Callable[[float], None]) -> Callable[[float], None]:
    """The same hearer of shares, who is told of compiling before nothing is done yet."""

    def told(share: float) -> None:
        if share == 0.0:
            tell_of_compiling()
        tell(share)

    return told


@contextmanager
def drawn_bar(words: str) -> Iterator[Callable[[float], None]]:
    """The bar itself, with the time that is left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=1.0)
        yield lambda share: bar.update(task, completed=min(max(share, 0.0), 1.0))
