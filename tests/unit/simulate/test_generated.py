"""Requests that a workload describes: its rate, its classes by their shares, and what their prompts share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpufleet.domain.rate_curve import RateCurve
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.errors import UsageError
from gpufleet.performance.token_lengths import assumed, of_percentiles
from gpufleet.simulate import generated
from gpufleet.simulate.generated import requests_of_curve, requests_of_workload

CHAT = RequestClass("chat", 3.0, of_percentiles({0.5: 700.0, 0.95: 3000.0}, None), TokenCounts(200.0))
CODE = RequestClass("code", 1.0, TokenCounts(2000.0), of_percentiles({0.5: 20.0, 0.95: 90.0}, None))
BOTH = Workload.of((CHAT, CODE))


def dice(seed: int = 17) -> np.random.Generator:
    return np.random.default_rng(seed)


def same(one: Requests, other: Requests) -> bool:
    """Whether two runs drew the same requests, to the bit."""
    names = ("arrival_s", "input_tokens", "output_tokens", "request_class")
    blocks = [None if r.prefix is None else (r.prefix.first.tobytes(), r.prefix.block.tobytes()) for r in (one, other)]
    columns = all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)
    return columns and blocks[0] == blocks[1] and one.class_names == other.class_names


def cached(cached_ratio: float, shared_ratio: float, counts: TokenCounts | None = None) -> Workload:
    prompts = counts or of_percentiles({0.5: 2000.0, 0.95: 9000.0}, None)
    return Workload.of((RequestClass("c", 1.0, prompts, TokenCounts(5.0), cached_ratio=cached_ratio,
                                     shared_ratio=shared_ratio),))  # fmt: skip


def test_the_same_seed_gives_the_same_requests_to_the_bit_and_another_others() -> None:
    for workload in (BOTH, cached(0.5, 0.2)):
        runs = [requests_of_workload(workload, dice(seed), 3000, 0.5, num_sessions=4) for seed in (1, 1, 2)]
        assert same(runs[0], runs[1])
        assert not same(runs[0], runs[2])


def test_classes_come_by_their_shares_with_lengths_of_their_own() -> None:
    requests = requests_of_workload(BOTH, dice(), 100_000)
    assert requests.class_names == ("chat", "code")
    is_code = requests.request_class == 1
    assert is_code.mean() == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 100_000))
    assert set(requests.input_tokens[is_code]) == {2000}
    assert set(requests.output_tokens[~is_code]) == {200}
    assert requests.input_tokens[~is_code].mean() == pytest.approx(CHAT.input_tokens.mean, rel=0.02)
    assert requests.output_tokens[is_code].mean() == pytest.approx(CODE.output_tokens.mean, rel=0.04)
    assert len(requests) / requests.arrival_s[-1] == pytest.approx(4.0, rel=4 / math.sqrt(100_000))


def test_a_plain_workload_is_one_class_without_a_name() -> None:
    requests = requests_of_workload(Workload(100.0, 10.0, 5.0), dice(), 50)
    assert (requests.class_names, requests.prefix) == (("",), None)
    assert set(requests.input_tokens) == {100}


def test_a_workload_without_a_rate_comes_at_once() -> None:
    assert requests_of_workload(Workload(100.0, 10.0), dice(), 50).span_s == 0


def test_a_curve_replaces_the_rate() -> None:
    curve = RateCurve(0.0, np.array([10.0, 40.0]), 500.0)
    requests = requests_of_curve(BOTH, curve, dice())
    halves = np.bincount((requests.arrival_s // 500).astype(int))
    assert halves == pytest.approx([5000, 20_000], rel=0.06)


def test_assumed_prompts_and_answers_stay_within_the_context_together() -> None:
    c = RequestClass("", 1.0, assumed(1500.0, 0.9, 1500.0, 4096.0), assumed(1500.0, 0.9, 1500.0, 4096.0))
    requests = requests_of_workload(Workload.of((c,)), dice(), 50_000)
    assert (requests.input_tokens + requests.output_tokens).max() <= 4096


def hit_tokens(prefix: PrefixBlocks) -> int:
    """Tokens of leading blocks that an endless cache holds when their prompt comes."""
    known: set[int] = set()
    hits = 0
    for first, last in zip(prefix.first, prefix.first[1:], strict=False):
        blocks = prefix.block[first:last].tolist()
        hits += next((i for i, block in enumerate(blocks) if block not in known), len(blocks))
        known.update(blocks)
    return hits * prefix.block_tokens


def test_a_prefix_cache_without_end_hits_the_cached_share_of_the_prompts() -> None:
    requests = requests_of_workload(cached(0.6, 0.6), dice(), 5000)
    assert requests.prefix is not None
    assert hit_tokens(requests.prefix) / requests.input_tokens.sum() == pytest.approx(0.6, abs=0.01)
    counts = np.diff(requests.prefix.first)
    assert np.all(counts * requests.prefix.block_tokens <= requests.input_tokens)


def test_what_is_cached_but_not_shared_is_a_session_s_own() -> None:
    """Of 50 cached blocks, 25 are the class's; each of 8 sessions misses its own 25 once."""
    requests = requests_of_workload(cached(0.5, 0.25, TokenCounts(1600.0)), dice(), 4000, num_sessions=8)
    assert requests.prefix is not None
    rows = requests.prefix.block.reshape(4000, 50)
    assert len(np.unique(rows[:, :25])) == 25
    assert len(np.unique(rows[:, 25:])) == 8 * 25
    assert hit_tokens(requests.prefix) == (4000 * 50 - 25 - 8 * 25) * 16


def test_classes_share_no_prefix_with_each_other() -> None:
    counts, slo = TokenCounts(160.0), BOTH.slo
    parts = [RequestClass(n, 1.0, counts, counts, slo, ratio, ratio) for n, ratio in (("a", 0.5), ("b", 0.9))]
    requests = requests_of_workload(Workload.of(tuple(parts)), dice(), 500)
    assert requests.prefix is not None
    each = np.repeat(requests.request_class, np.diff(requests.prefix.first))
    names = [set(requests.prefix.block[each == i]) for i in (0, 1)]
    assert [len(n) for n in names] == [5, 9]
    assert not names[0] & names[1]


def test_blocks_grow_where_there_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "MOST_PREFIX_BLOCKS", 10_000)
    requests = requests_of_workload(cached(0.6, 0.6), dice(), 5000)
    assert requests.prefix is not None
    assert requests.prefix.block_tokens > 16
    assert len(requests.prefix.block) < 11_000
    assert hit_tokens(requests.prefix) / requests.input_tokens.sum() == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda: requests_of_workload(BOTH, dice(), 1e9), "too many requests to replay"),
        (lambda: requests_of_workload(Workload(100.0, 10.0), dice(), 1e9), "too many requests to replay"),
        (lambda: requests_of_workload(Workload(100.0, 0.0, 5.0), dice(), 5), "an encoder's requests"),
        (lambda: requests_of_workload(cached(0.5, 0.5), dice(), 5, block_tokens=0), "positive numbers"),
        (lambda: requests_of_curve(BOTH, RateCurve(0.0, np.array([1e6]), 1e6), dice()), "too many requests"),
    ],
)
def test_what_cannot_be_replayed_is_refused(asked: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked()  # type: ignore[operator]


def test_no_requests_are_no_requests() -> None:
    assert len(requests_of_workload(cached(0.5, 0.2), dice(), 0)) == 0
