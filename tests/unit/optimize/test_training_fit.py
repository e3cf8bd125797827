"""The largest settings for which a layout has room, by a rule that says when it has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpufleet.optimize import training_fit
from gpufleet.optimize.training_fit import best_on_machine, largest, largest_micro_batch, longest_sequence
from gpufleet.optimize.training_machines import HostMemory, host_with, rising_memory


def place(fits: bool = False, cp: int = 1, context: float = 5000.0, own: int = 100) -> Any:
    question = SimpleNamespace(
        arch=SimpleNamespace(max_context_tokens=context), recipe=SimpleNamespace(sequence_tokens=float(own))
    )
    layouts = SimpleNamespace(micro_batch=np.array([own]), cp=np.array([cp]))
    return SimpleNamespace(question=question, layouts=layouts, fits=fits)


def with_room_for(monkeypatch: pytest.MonkeyPatch, most: float) -> None:
    monkeypatch.setattr(training_fit, "with_micro_batch", lambda _, size: size)
    monkeypatch.setattr(training_fit, "with_sequence", lambda _, tokens: tokens)
    monkeypatch.setattr(
        training_fit, "fits_surely", lambda q, layouts: (q if isinstance(q, (int, float)) else layouts) <= most
    )


@pytest.mark.parametrize(
    ("most", "fits", "found"), [(0, False, None), (0, True, 100), (7, False, 7), (7, True, 100), (1e9, False, 4096)]
)
def test_the_largest_micro_batch_is_sure_or_the_one_that_is_asked_where_it_fits_as_expected(
    monkeypatch: pytest.MonkeyPatch, most: float, fits: bool, found: int | None
) -> None:
    with_room_for(monkeypatch, most)
    assert largest_micro_batch(place(fits)) == found


@pytest.mark.parametrize(
    ("most", "cp", "fits", "found"),
    [
        (255, 1, False, None), (255, 1, True, 100), (256, 1, False, 256), (4999, 1, False, 4864),
        (5000, 1, False, 5000), (4999, 256, False, 4608), (600, 128, False, 512),
    ],
)  # fmt: skip
def test_the_longest_sequence_is_the_whole_context_or_so_many_steps_of_256_or_of_twice_the_ranks_that_share_it(
    monkeypatch: pytest.MonkeyPatch, most: float, cp: int, fits: bool, found: int | None
) -> None:
    with_room_for(monkeypatch, most)
    assert longest_sequence(place(fits, cp)) == found


class Rows:
    """Layouts by their place."""

    def __init__(self, kept: Any) -> None:
        self.kept = np.asarray(kept)

    def __len__(self) -> int:
        return len(self.kept)

    def take(self, rows: Any) -> Rows:
        return Rows(self.kept[rows])


@pytest.mark.parametrize(
    ("expected", "high", "host", "found"),
    [
        ([10, 9, 7], [11, 10, 8], [5, 5, 5], 1),  # of those that fit surely, to the byte, the fastest
        ([10, 9, 7], [11, 10, 8], [5, 6, 5], 2),  # of which one lacks memory of the machine
        ([10, 9, 11], [11, 12, 13], [5, 5, 5], 0),  # none surely: as expected
        ([10, 9, 11], [10, 9, 11], [7, 8, 6], 0),  # none on the machine: least of it, of those that fit the GPUs
        ([12, 11, 13], [12, 11, 13], [5, 6, 7], 1),  # none on the GPUs: the one with least
    ],
)
def test_a_layout_fits_surely_or_as_expected_or_lacks_least(
    monkeypatch: pytest.MonkeyPatch, expected: list[int], high: list[int], host: list[int], found: int
) -> None:
    """GPUs of 10 bytes, a machine of 5; each layout is faster than the one behind it."""
    total = SimpleNamespace(expected=np.array(expected), high=np.array(high))
    fits_host = np.array(host) <= 5
    memory = SimpleNamespace(
        total=total, device_bytes=10, host_need_bytes=np.array(host), fits_host=fits_host,
        fits=(total.expected <= 10) & fits_host,
    )  # fmt: skip
    monkeypatch.setattr(training_fit, "allowed_layouts", lambda _: (Rows(range(3)), []))
    monkeypatch.setattr(training_fit, "memory_of", lambda *_: memory)
    monkeypatch.setattr(training_fit, "timed", lambda _, layouts: layouts)
    monkeypatch.setattr(training_fit, "step_terms", lambda layouts: SimpleNamespace(total=layouts.kept))
    question: Any = SimpleNamespace(confidence=0.9)
    best: Any = best_on_machine(question)
    assert (best.layouts.kept.tolist(), best.num_layouts) == ([found], 3)


def test_the_largest_number_may_be_the_most_that_is_asked_and_is_never_beyond() -> None:
    assert [largest(lambda n: n <= limit, 8) for limit in (0, 1, 7, 8, 9)] == [None, 1, 7, 8, 8]  # noqa: B023


def test_a_host_is_the_first_that_is_large_enough_or_the_largest() -> None:
    hosts = [HostMemory("small", 1, 10.0), HostMemory("two", 2, 8.0), HostMemory("big", 8, 40.0)]
    assert [getattr(host_with(hosts, need), "name", None) for need in (9.0, 10.0, 11.0, 99.0)] == [
        "small", "small", "big", "big"
    ]  # fmt: skip
    assert host_with([], 1.0) is None
    more = [*hosts, HostMemory("tall", 1, 12.0), HostMemory("same", 4, 12.0)]
    assert [host.name for host in rising_memory(more)] == ["tall", "big"]
