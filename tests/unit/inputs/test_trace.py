"""Traces in the forms of the public ones, made up here, and hostile ones."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs import trace as trace_module
from gpufleet.inputs.trace import parse_trace, read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,100,10
2023-11-16 18:17:04.4799600,300,30
2023-11-16 18:17:05.9799600,200,20
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""
BURST_GPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,a,1,ChatGPT,472,18,490,Conversation log
45,b,1,GPT-4,1087,0,1087,API log
118,c,1,ChatGPT,417,276,693,Conversation log
"""
MOONCAKE = "\n".join(
    json.dumps({"timestamp": t, "input_length": 1024, "output_length": 50, "hash_ids": blocks})
    for t, blocks in ((0, [1, 2]), (500, [1, 3]), (2000, [4, 2]), (4000, [1, 2]))
)
PLAIN = "input_tokens,output_tokens\n10,20\n30,40\n"


def test_azure_times_have_seven_digits_of_a_second() -> None:
    trace = parse_trace(AZURE)
    assert trace.form == "azure"
    assert trace.times_s is not None
    assert trace.times_s.tolist() == pytest.approx([0.0, 0.5, 2.0])
    assert trace.rate_requests_per_s == pytest.approx(1.0)
    assert (trace.input_counts.mean, trace.output_counts.mean) == (200, 20)


def test_azure_of_2024_has_time_zones_and_sometimes_no_fraction() -> None:
    times = parse_trace(AZURE_2024).times_s
    assert times is not None
    assert times.tolist() == pytest.approx([0.0, 0.99007], abs=1e-5)


def test_requests_without_an_answer_are_failures() -> None:
    trace = parse_trace(BURST_GPT)
    assert (trace.form, len(trace.input_tokens), trace.num_failed) == ("burstgpt", 2, 1)
    assert trace.rate_requests_per_s == pytest.approx(1 / 113)


def test_mooncake_counts_milliseconds_and_blocks_that_came_before() -> None:
    """Of four prompts of two blocks, the second begins with one known block, the fourth with two: 3 of 8."""
    trace = parse_trace(MOONCAKE)
    assert trace.form == "mooncake"
    assert trace.rate_requests_per_s == pytest.approx(3 / 4)
    assert trace.cached_ratio == pytest.approx(3 / 8)


def test_a_trace_without_times_says_lengths_alone() -> None:
    trace = parse_trace(PLAIN)
    assert (trace.form, trace.times_s, trace.rate_requests_per_s, trace.cached_ratio) == ("plain", None, None, None)


def test_the_busiest_minute_is_found() -> None:
    rows = [*range(0, 60, 10), *range(60, 120, 1), *range(120, 180, 10), 180]
    trace = parse_trace("timestamp_s,input_tokens,output_tokens\n" + "".join(f"{t},5,5\n" for t in rows))
    assert trace.busiest_minute_ratio == pytest.approx(60 / 24)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no rows"),
        ("input_tokens,output_tokens\n", "no rows"),
        ("a,b\n1,2\n", "contexttokens"),
        ("input_tokens,output_tokens\n5,0\n", "no request"),
        ("input_tokens,output_tokens\nfive,1\n", "line 2"),
        ("input_tokens,output_tokens\nnan,1\n", "line 2"),
        ("input_tokens,output_tokens\n5\n", "output_tokens"),
        ("input_tokens,output_tokens\n1e99,1\n", "line 2"),
        (AZURE.replace("2023-11-16", "2023-13-16"), "cannot read timestamp"),
        ('{"input_length": 1}\n', "an unknown form"),
        ('{"input_length": 1, "output_length": true}\n', "output_length"),
        ('{"input_length": 1, "output_length": 1}\n[1]\n', "not a JSON object"),
        ('{"input_length": 1, "output_length": 1}\n{"', "not JSON"),
        ('{"timestamp": {}, "input_length": 1, "output_length": 1}\n', "timestamp"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_trace(text)
    assert told in str(caught.value)


def test_a_mangled_trace_never_fails_but_with_a_message() -> None:
    dice = random.Random(5)
    for text in (AZURE, AZURE_2024, BURST_GPT, MOONCAKE, PLAIN):
        for _ in range(400):
            cut = list(text)
            for _ in range(dice.randint(1, 6)):
                cut[dice.randrange(len(cut))] = dice.choice("0,{}\"\n-:.eE9\x00 \r'[]x")
            try:
                trace = parse_trace("".join(cut))
            except UsageError:
                continue
            assert trace.input_counts.mean > 0


def test_a_trace_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(AZURE, encoding="utf-8")
    assert read_trace(tmp_path / "trace.csv").input_counts.most == 300


def test_the_busiest_minute_of_days_far_apart_takes_no_more_memory_than_its_rows() -> None:
    trace = parse_trace("timestamp_s,input_tokens,output_tokens\n0,5,5\n1,5,5\n1e11,5,5\n")
    tracemalloc.start()
    try:
        assert trace.busiest_minute_ratio == pytest.approx(1e11 / 60, rel=1e-6)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_trace_is_held_in_a_few_numbers_a_row() -> None:
    text = "timestamp_s,input_tokens,output_tokens\n" + "".join(f"{i},{i % 977 + 1},7\n" for i in range(50_000))
    tracemalloc.start()
    try:
        trace = parse_trace(text)
        assert tracemalloc.get_traced_memory()[1] < 64 * len(trace.input_tokens)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("limit", "text", "told"),
    [
        ("MOST_REQUESTS", "input_tokens,output_tokens\n" + "5,5\n" * 11, "too many requests; expected at most 10"),
        ("MOST_BLOCKS", MOONCAKE.replace("[4, 2]", str([*range(20)])), "too many prefix blocks; expected at most 10"),
        ("LONGEST_LINE", "a" * 11, "line 1 is too long; expected at most 10"),
    ],
)
def test_a_trace_beyond_what_memory_holds_is_refused(
    limit: str, text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_module, "LONGEST_LINE", 10_000)
    monkeypatch.setattr(trace_module, limit, 10)
    with pytest.raises(UsageError) as caught:
        parse_trace(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("column", "per_s"), [("timestamp_s", 1), ("timestamp_ms", 10**3), ("timestamp_us", 10**6), ("timestamp_ns", 10**9)]
)
@pytest.mark.parametrize("first_s", [0, 1_700_000_000])
def test_a_column_says_the_unit_of_its_times(column: str, per_s: int, first_s: int) -> None:
    trace = parse_trace(timed(column, lambda i: (first_s + 2 * i) * per_s))
    assert trace.form == "plain"
    assert trace.rate_requests_per_s == pytest.approx(0.5, rel=1e-6)


def timed(column: str, time: Callable[[int], float]) -> str:
    """A plain trace of fifty requests."""
    return f"{column},input_tokens,output_tokens\n" + "".join(f"{time(i)},5,5\n" for i in range(50))
