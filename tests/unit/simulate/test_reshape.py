"""Requests stretched, thinned, cut, repeated and joined keep what belongs together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.errors import UsageError
from gpufleet.simulate.reshape import at_rate, moved, repeated, selected, stretched, superposed, thinned, window


def dice(seed: int = 17) -> np.random.Generator:
    return np.random.default_rng(seed)


def some(num: int, seed: int = 0, name: str = "") -> Requests:
    """Requests whose blocks tell which one they are of."""
    rng = dice(seed)
    counts = rng.integers(0, 4, num)
    first = np.concatenate([[0], np.cumsum(counts)])
    prefix = PrefixBlocks(16, first, np.repeat(np.arange(num), counts))
    times = np.cumsum(rng.exponential(1.0, num))
    return Requests(times, np.arange(1, num + 1), rng.integers(1, 9, num), np.zeros(num, int), (name,), prefix)


def blocks_of(requests: Requests, i: int) -> list[int]:
    assert requests.prefix is not None
    return requests.prefix.block[requests.prefix.first[i] : requests.prefix.first[i + 1]].tolist()


@given(num=st.integers(0, 60), keep=st.floats(0.0, 1.0), seed=st.integers(0, 99))
def test_thinning_keeps_order_and_what_belongs_to_each_request(num: int, keep: float, seed: int) -> None:
    whole = some(num)
    kept = thinned(whole, dice(seed), keep)
    which = kept.input_tokens - 1
    assert np.all(np.diff(which) > 0)
    assert kept.arrival_s.tolist() == whole.arrival_s[which].tolist()
    assert kept.output_tokens.tolist() == whole.output_tokens[which].tolist()
    assert [blocks_of(kept, i) for i in range(len(kept))] == [blocks_of(whole, j) for j in which]


def test_thinning_keeps_its_share() -> None:
    assert len(thinned(some(50_000), dice(), 0.3)) == pytest.approx(15_000, abs=4 * math.sqrt(50_000 * 0.21))
    assert len(thinned(some(50), dice(), 1.0)) == 50
    assert len(thinned(some(50), dice(), 0.0)) == 0


def test_stretching_changes_the_rate_and_nothing_else() -> None:
    whole = some(100)
    assert stretched(whole, 2.0).arrival_s == pytest.approx(2 * whole.arrival_s)
    fast = at_rate(whole, 50.0)
    assert 99 / fast.span_s == pytest.approx(50.0)
    assert fast.prefix is whole.prefix


def test_a_window_begins_at_its_own_zero_and_ends_before_its_end() -> None:
    whole = Requests(np.array([0.0, 1.0, 2.0, 3.0]), *[np.arange(1, 5)] * 2, np.zeros(4, int))
    part = window(whole, 1.0, 3.0)
    assert part.arrival_s.tolist() == [0.0, 1.0]
    assert part.input_tokens.tolist() == [2, 3]
    assert len(window(whole, 9.0, 10.0)) == 0


@given(num=st.integers(1, 30), wanted=st.integers(0, 100), is_new=st.booleans())
def test_a_repeated_trace_has_its_rate_and_its_hits(num: int, wanted: int, is_new: bool) -> None:
    whole = some(num)
    again = repeated(whole, wanted, is_new)
    assert len(again) == wanted
    assert again.input_tokens.tolist() == (np.arange(wanted) % num + 1).tolist()
    if num > 1 and wanted > num:
        gaps = np.diff(again.arrival_s)
        assert gaps[num - 1] == pytest.approx(whole.span_s / (num - 1))
        assert gaps[:num - 1] == pytest.approx(np.diff(whole.arrival_s))  # fmt: skip
    rounds = [{block for i in range(r, min(r + num, wanted)) for block in blocks_of(again, i)}
              for r in range(0, wanted, num)]  # fmt: skip
    if is_new:
        assert sum(map(len, rounds)) == len(set().union(*rounds))
    elif len(rounds) > 2:
        assert rounds[0] == rounds[1]


@given(sizes=st.lists(st.integers(0, 25), min_size=1, max_size=4))
def test_superposed_streams_keep_every_request_and_come_in_order(sizes: list[int]) -> None:
    parts = [some(size, i, f"class {i % 2}") for i, size in enumerate(sizes)]
    joined = superposed(parts)
    assert len(joined) == sum(sizes)
    assert np.all(np.diff(joined.arrival_s) >= 0)
    assert joined.class_names == tuple(f"class {i}" for i in range(min(len(sizes), 2)))
    rows = sorted((t, joined.class_names[c]) for t, c in zip(joined.arrival_s, joined.request_class, strict=True))
    assert rows == sorted((t, part.class_names[0]) for part in parts for t in part.arrival_s)
    assert joined.prefix is not None
    assert joined.prefix.num_distinct <= sum(p.prefix.num_distinct for p in parts if p.prefix)
    named = {i: len(set(part.prefix.block)) for i, part in enumerate(parts) if part.prefix}
    assert len(set(joined.prefix.block)) == sum(named.values())


def test_streams_with_and_without_blocks_join() -> None:
    bare = Requests(np.array([0.0]), np.array([9]), np.array([9]), np.array([0]), ("bare",))
    joined = superposed([some(5), bare])
    assert joined.prefix is not None
    assert blocks_of(joined, 0) == []
    assert superposed([bare, bare]).prefix is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda: stretched(some(3), 0.0), "the factor of times"),
        (lambda: stretched(some(3), math.nan), "the factor of times"),
        (lambda: thinned(some(3), dice(), 1.5), "the share of requests to keep"),
        (lambda: thinned(some(3), dice(), math.nan), "the share of requests to keep"),
        (lambda: window(some(3), 5.0, 1.0), "a window ends before it starts"),
        (lambda: window(some(3), math.nan, 1.0), "a window ends before it starts"),
        (lambda: moved(some(3), math.inf), "a shift of times"),
        (lambda: repeated(some(3), 1e9), "too many requests"),
        (lambda: repeated(some(0), 5), "no requests to repeat"),
        (lambda: at_rate(some(1), 5.0), "have no rate"),
        (lambda: at_rate(some(3), 0.0), "the rate is out of range"),
    ],
)
def test_what_nobody_means_is_refused(asked: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked()  # type: ignore[operator]


def test_blocks_of_two_sizes_do_not_join() -> None:
    one, other = some(3), some(3)
    assert other.prefix is not None
    coarse = PrefixBlocks(512, other.prefix.first, other.prefix.block)
    columns = (other.arrival_s, other.input_tokens, other.output_tokens, other.request_class)
    with pytest.raises(UsageError, match="different sizes"):
        superposed([one, Requests(*columns, ("",), coarse)])


def test_a_selection_may_take_a_request_twice() -> None:
    whole = some(4)
    assert selected(whole, np.array([1, 1, 3])).input_tokens.tolist() == [2, 2, 4]
