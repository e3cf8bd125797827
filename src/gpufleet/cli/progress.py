"""A bar for work that takes long: on a terminal alone, and not before a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

QUIET_S = 2.0


@contextmanager
def progress_bar(words: str, clock: Callable[[], float] = monotonic) -> Iterator[Callable[[float], None]]:
    """What to tell the share that is done: it appears on standard error after two seconds, and goes away at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
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


@contextmanager
def drawn_bar(words: str) -> Iterator[Callable[[float], None]]:
    """The bar itself, with the time that is left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=1.0)
        yield lambda share: bar.update(task, completed=min(max(share, 0.0), 1.0))
