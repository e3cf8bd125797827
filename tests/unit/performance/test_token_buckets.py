"""Requests of a class in buckets of like lengths: nothing is lost where they are cut, and put together again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpufleet.domain.token_counts import TokenCounts
from gpufleet.performance.token_buckets import buckets_of, joined, parts_of, points_of
from gpufleet.performance.token_lengths import log_normal

CHAT, ANSWERS = log_normal(1000.0, 0.9), log_normal(200.0, 0.8)


def test_points_keep_the_mean_and_the_longest_requests() -> None:
    points = points_of(CHAT)
    assert np.mean(points) == pytest.approx(CHAT.mean, rel=1e-6)
    assert np.all(np.diff(points) >= 0)
    assert np.quantile(points, 0.95) == pytest.approx(CHAT.at("p95"), rel=0.05)


def test_buckets_hold_every_request_once() -> None:
    for by_answer in (False, True):
        buckets = buckets_of(CHAT, ANSWERS, by_answer)
        assert sum(b.share_ratio for b in buckets) == pytest.approx(1.0)
        prompts = sum(b.share_ratio * b.prompts.mean for b in buckets)
        answers = sum(b.share_ratio * b.answers.mean for b in buckets)
        assert prompts == pytest.approx(CHAT.mean, rel=1e-3)
        assert answers == pytest.approx(ANSWERS.mean, rel=1e-3)


def test_a_router_that_knows_prompts_alone_leaves_all_answers_in_each_bucket() -> None:
    assert {len(b.answer_points) for b in buckets_of(CHAT, ANSWERS, by_answer=False)} == {len(points_of(ANSWERS))}
    assert len(buckets_of(CHAT, ANSWERS, by_answer=True)) == 3 * len(buckets_of(CHAT, ANSWERS, by_answer=False))


def test_buckets_side_by_side_do_not_overlap() -> None:
    ends = [(b.prompt_points[0], b.prompt_points[-1]) for b in buckets_of(CHAT, ANSWERS, by_answer=False)]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_requests_that_are_alike_are_one_bucket() -> None:
    [only] = buckets_of(TokenCounts(1000.0), TokenCounts(10.0), by_answer=True)
    assert (only.share_ratio, only.prompts.mean, only.answers.mean) == (1.0, 1000.0, 10.0)


def test_all_buckets_joined_are_the_class_again() -> None:
    buckets = buckets_of(CHAT, ANSWERS, by_answer=False)
    whole = joined([(b.share_ratio, b.prompt_points) for b in buckets])
    assert whole.mean == pytest.approx(CHAT.mean, rel=1e-6)
    assert whole.at("p95") == pytest.approx(CHAT.at("p95"), rel=0.05)


def test_joined_requests_weigh_as_much_as_is_sent_of_them() -> None:
    short, long = np.full(4, 100.0), np.full(2, 1000.0)
    assert joined([(9.0, short), (1.0, long)]).mean == pytest.approx(190.0)


def test_points_are_cut_where_shares_say() -> None:
    parts = parts_of(np.arange(10.0), (0.0, 0.5, 1.0))
    assert [list(p) for p in parts] == [[0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]]
