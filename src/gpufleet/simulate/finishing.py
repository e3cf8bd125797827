"""Which sequence of a replica ends next: a heap of the decode step at which each ends, with its request.

One whole number holds both: step * 2^31 + request.
"""

from __future__ import annotations

from typing import Any

from gpufleet.simulate.compiled import compiled

SHIFT = 1 << 31


@compiled
def push(words: Any, heap: Any, size: Any, entry: Any) -> None:
    """Add an entry to a heap of `size` entries that begins at `heap`."""
    at = size
    while at > 0:
        parent = (at - 1) // 2
        above = words[heap + parent]
        if above <= entry:
            break
        words[heap + at] = above
        at = parent
    words[heap + at] = entry


@compiled
def sink(words: Any, heap: Any, size: Any, at: Any, entry: Any) -> None:
    """Put an entry into the hole at a place of a heap of `size` entries, or below it."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        least = words[heap + child]
        if child + 1 < size and words[heap + child + 1] < least:
            child += 1
            least = words[heap + child]
        if least >= entry:
            break
        words[heap + at] = least
        at = child
    words[heap + at] = entry


@compiled
def drop_least(words: Any, heap: Any, size: Any) -> None:
    """Take the least entry out of a heap of `size` entries."""
    sink(words, heap, size - 1, 0, words[heap + size - 1])


@compiled
def drop(words: Any, heap: Any, size: Any, entry: Any) -> None:
    """Take any entry out of a heap of `size` entries: raised to the top, then dropped."""
    at = 0
    while words[heap + at] != entry:
        at += 1
    while at > 0:
        parent = (at - 1) // 2
        words[heap + at] = words[heap + parent]
        at = parent
    drop_least(words, heap, size)
