"""The heap that says which sequence ends next, beside the one of the standard library."""

from __future__ import annotations

import heapq
import random
from types import ModuleType

import pytest
from tests.properties.random_clusters import plain_modules

BEFORE, BEHIND = 10**9, -(10**9)
"""Words that are no part of the heap: one that reads them takes them for a parent to move, or a child to raise."""


@pytest.fixture(scope="module")
def heap() -> ModuleType:
    return plain_modules()["finishing"]


def around(entries: list[int], room: int = 40) -> list[int]:
    return [BEFORE, *entries, *[BEHIND] * (room - len(entries))]


def is_heap(entries: list[int]) -> bool:
    return all(entries[(at - 1) // 2] <= entries[at] for at in range(1, len(entries)))


@pytest.mark.parametrize("seed", range(5))
def test_entries_stand_as_in_any_binary_heap(heap: ModuleType, seed: int) -> None:
    words, known = around([]), list[int]()
    for size, entry in enumerate(random.Random(seed).sample(range(1000), 31)):
        heap.push(words, 1, size, entry)
        heapq.heappush(known, entry)
        assert words == around(known)


@pytest.mark.parametrize("seed", range(5))
def test_the_least_goes_first_and_the_rest_stays_a_heap(heap: ModuleType, seed: int) -> None:
    entries = random.Random(seed).sample(range(1000), 31)
    heapq.heapify(entries)
    words = around(entries)
    for size in range(31, 0, -1):
        least = words[1]
        left = sorted(words[1 : 1 + size])[1:]
        heap.drop_least(words, 1, size)
        assert (sorted(words[1:size]), is_heap(words[1:size])) == (left, True)
        assert least < min(left, default=BEFORE)
        assert (words[0], set(words[32:])) == (BEFORE, {BEHIND})


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 30])
def test_a_hole_is_filled_from_inside_of_the_heap_alone(heap: ModuleType, size: int) -> None:
    """The word behind the last entry is less than all, and never moves in."""
    words = around(list(range(10, 10 + size)))
    heap.sink(words, 1, size, 0, 1000)
    assert sorted(words[1 : 1 + size]) == [*range(11, 10 + size), 1000]
    assert is_heap(words[1 : 1 + size])
    assert words[1 + size] == BEHIND


@pytest.mark.parametrize("at", range(15))
def test_any_entry_can_be_taken_out(heap: ModuleType, at: int) -> None:
    entries = random.Random(at).sample(range(1000), 15)
    heapq.heapify(entries)
    words = around(entries)
    heap.drop(words, 1, 15, entries[at])
    assert sorted(words[1:15]) == sorted(set(entries) - {entries[at]})
    assert is_heap(words[1:15])
