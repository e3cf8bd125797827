"""Token counts as they are typed."""

from __future__ import annotations

import pytest

from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.inputs.token_counts import parse_token_counts


def test_one_number_is_a_mean_and_fixed_is_for_all() -> None:
    assert parse_token_counts("1,000") == parse_token_counts("mean=1000") == 1000.0
    assert parse_token_counts("fixed=8k") == TokenCounts(8192.0)
    with pytest.raises(UsageError, match="fixed tokens have no other statistics"):
        parse_token_counts("fixed=1000,p95=3000")


def test_stated_percentiles_and_mean_are_kept() -> None:
    counts = parse_token_counts("mean=1200, p50=700, p95=4000")
    assert counts.mean == 1200
    assert counts.at("p50") == pytest.approx(700)
    assert counts.at("p95") == pytest.approx(4000)
    assert 700 < counts.at("p90") < 4000 < counts.at("p99") == counts.most


def test_the_longest_is_kept_where_it_is_known_and_nothing_is_above_it() -> None:
    known, guessed = parse_token_counts("mean=1500,p95=5000,max=8000"), parse_token_counts("mean=1500,p95=5000")
    assert (known.most, known.at("p99"), known.beyond_ratio) == (8000, 8000, 0.0)
    assert guessed.at("p99") == guessed.most > 8000
    assert guessed.beyond_ratio == pytest.approx(0.01)
    assert max(known.octiles) <= 8000
    assert known.scaled(2.0).most == 16000
    assert guessed.scaled(2.0).beyond_ratio == guessed.beyond_ratio


def test_two_ends_are_the_tenth_and_the_ninetieth_percentile() -> None:
    counts = parse_token_counts("1k..4096")
    assert counts == parse_token_counts("p10=1024,p90=4096")
    assert counts.at("p50") == pytest.approx(2048)
    assert counts.at("p90") == pytest.approx(4096)
    assert parse_token_counts("1000 .. 1000").is_alike
    bounded = parse_token_counts("1000..4000,mean=2500,max=5000")
    assert (bounded.mean, bounded.most) == (2500, 5000)


def test_equal_percentiles_are_requests_that_are_alike() -> None:
    assert parse_token_counts("p50=700,p95=700").is_alike


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p50=700,p95=300", "must not fall"),
        ("p95=300", "one percentile"),
        ("mean=1500,max=32k", "does not determine how lengths differ"),
        ("max=32k", "does not determine how lengths differ"),
        ("mean=1500,p95=5000,max=4k", "max of at least 5000"),
        ("mean=10,p95=4000", "a mean of at least 200"),
        ("mean=4000,p95=1000", "the mean of tokens is above their p95"),
        ("mean=4000,p95=1000", "at most 5% of the requests are longer"),
        ("mean=1500,p90=1000,p99=9000", "above their p90"),
        ("mean=400,p50=900,p95=1000", "a mean of at least 450"),
        ("p50=1000,p90=2000,p95=1500", "must not fall"),
        ("p59=3,p95=4", "p95"),
        ("p95=3,p95=4", "twice"),
        ("p95=", "cannot read"),
        ("4000..1000", "must not fall"),
        ("1000..", "a range of tokens has two ends"),
        ("..4000", "a range of tokens has two ends"),
        ("1..2..3", "a range of tokens has two ends"),
        ("1000...4000", "Type '1000..4000'"),
        ("1000-4000", "Type '1000..4000'"),
        ("1k – 4k", "Type '1k..4k'"),
        ("1,000 to 4,000", "Type '1,000..4,000'"),
        ("0..4000", "positive"),
        ("1000..4000,p90=3000", "p90 twice"),
        ("fixed=5,1..9", "no other statistics"),
        ("p95=-1,p50=1", "positive"),
        ("mean=1," * 60, "too long"),
    ],
)
def test_what_cannot_be_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_token_counts(text)
    assert told in str(caught.value)


def test_a_mean_between_the_median_and_the_tail_is_taken() -> None:
    counts = parse_token_counts("mean=900,p50=100,p90=1000,p95=4000")
    assert counts.mean == 900
    assert list(counts.percentiles) == sorted(counts.percentiles)
