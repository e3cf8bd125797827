"""A trace gives its requests one by one: times stay with their tokens, blocks and classes, in any order of rows."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cli.trace_words import length_notes
from gpufleet.errors import UsageError
from gpufleet.inputs import trace as trace_module
from gpufleet.inputs.trace import parse_trace, read_trace

UNSORTED = "timestamp_s,input_tokens,output_tokens,request_class\n7,70,7,b\n3,30,3,a\n5,50,5,b\n3,31,4,\n"
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,100,10
2023-11-16 18:17:04.4799600,300,30
"""
BURST_GPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,a,1,ChatGPT,472,18,490,Conversation log
45,b,1,GPT-4,1087,0,1087,API log
118,c,1,ChatGPT,417,276,693,Conversation log
"""
RUNS = "experiment,arrival_s,input_tokens,output_tokens,ttft_s\na,0,10,1,0.1\nb,0,20,2,0.1\na,1.5,30,3,0.1\n"


def mooncake(*rows: tuple[float, int, int, object], **more: object) -> str:
    return "\n".join(
        json.dumps({**more, "timestamp": t, "input_length": n, "output_length": m, "hash_ids": blocks})
        for t, n, m, blocks in rows
    )


def test_an_unsorted_trace_is_sorted_and_says_so() -> None:
    trace = parse_trace(UNSORTED)
    requests = trace.requests()
    assert requests.arrival_s.tolist() == [0.0, 0.0, 2.0, 4.0]
    assert requests.input_tokens.tolist() == [30, 31, 50, 70]
    assert requests.output_tokens.tolist() == [3, 4, 5, 7]
    assert [requests.class_names[c] for c in requests.request_class] == ["a", "", "b", "b"]
    assert trace.num_out_of_order == 3
    assert "3 requests of the trace stood after later ones: all are sorted by time" in length_notes(trace)


def test_a_sorted_trace_has_nothing_to_say_of_its_order() -> None:
    trace = parse_trace(AZURE)
    assert (trace.num_out_of_order, len(length_notes(trace))) == (0, 1)
    assert trace.requests().arrival_s.tolist() == pytest.approx([0.0, 0.5])


def test_failures_take_their_times_with_them() -> None:
    requests = parse_trace(BURST_GPT).requests()
    assert requests.arrival_s.tolist() == [0.0, 113.0]
    assert requests.output_tokens.tolist() == [18, 276]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 9), st.integers(0, 5), st.lists(st.integers(-3, 9), max_size=4)),
        min_size=1,
        max_size=20,
    )
)
def test_every_request_keeps_its_own_time_tokens_and_blocks(rows: list[tuple[int, int, int, list[int]]]) -> None:
    """Block ids are renumbered: what must stay is which of them are equal."""
    text = mooncake(*((t * 1000, n * 2048, m, blocks) for t, n, m, blocks in rows))
    answered = sorted((row for row in rows if row[2]), key=lambda row: row[0])
    if not answered:
        return
    requests = parse_trace(text).requests()
    assert requests.arrival_s.tolist() == pytest.approx([row[0] - answered[0][0] for row in answered])
    assert requests.input_tokens.tolist() == [row[1] * 2048 for row in answered]
    names = [h for row in answered for h in row[3]]
    if requests.prefix is None:
        assert not names
        return
    assert np.diff(requests.prefix.first).tolist() == [len(row[3]) for row in answered]
    pairs = set(zip(names, requests.prefix.block.tolist(), strict=True))
    assert len(pairs) == len(set(names)) == len({number for _, number in pairs})
    assert requests.prefix.num_distinct <= len({h for row in rows for h in row[3]})


def test_mooncake_blocks_are_of_512_tokens_though_short_prompts_do_not_fill_one() -> None:
    prefix = parse_trace(mooncake((0, 100, 5, [7]), (1, 1100, 5, [7, 9, 11]))).prefix
    assert prefix is not None
    assert (prefix.block_tokens, prefix.first.tolist(), prefix.block.tolist()) == (512, [0, 1, 4], [0, 0, 1, 2])


def test_qwen_bailian_counts_seconds_and_blocks_of_16_tokens() -> None:
    """Its README: timestamp in seconds, 16 tokens a block."""
    rows = ((61.114, 521, 132, [*range(33)]), (63.114, 48, 9, [0, 1, 99]))
    trace = parse_trace(mooncake(*rows, chat_id=159, parent_chat_id=-1, type="text", turn=1))
    assert trace.form == "bailian"
    assert trace.requests().span_s == pytest.approx(2.0)
    assert trace.prefix is not None
    assert trace.prefix.block_tokens == 16


def test_rows_with_and_without_blocks_stand_together() -> None:
    text = mooncake((0, 600, 5, None), (1, 600, 5, [4, 5]), (2, 600, 5, ["x"]))
    prefix = parse_trace(text).prefix
    assert prefix is not None
    assert prefix.first.tolist() == [0, 0, 2, 2]


def test_more_blocks_than_tokens_are_refused() -> None:
    with pytest.raises(UsageError, match="more hash_ids than tokens; found '20 for 5 tokens of prompts'"):
        parse_trace(mooncake((0, 5, 5, [*range(20)])))


def test_plain_rows_may_be_json_lines() -> None:
    rows = [{"timestamp_s": t, "input_tokens": 10 * t, "output_tokens": t, "class": "c"} for t in (1, 2)]
    requests = parse_trace("\n".join(map(json.dumps, rows))).requests()
    assert requests.arrival_s.tolist() == [0.0, 1.0]
    assert requests.input_tokens.tolist() == [10, 20]
    assert requests.class_names == ("c",)


def test_a_column_arrival_s_is_a_time_and_one_run_of_several_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(RUNS.encode()))
    assert len(read_trace(path).requests()) == 3
    requests = read_trace(path, {"experiment": "a"}).requests()
    assert (requests.arrival_s.tolist(), requests.input_tokens.tolist()) == ([0.0, 1.5], [10, 30])
    with pytest.raises(UsageError, match="no rows with experiment 'c'"):
        read_trace(path, {"experiment": "c"})


@pytest.mark.parametrize("cut", [slice(0, 40), slice(0, 3)])
def test_half_a_gzip_file_is_refused(tmp_path: Path, cut: slice) -> None:
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(RUNS.encode())[cut])
    with pytest.raises(UsageError, match="no whole gzip file"):
        read_trace(path)


def test_a_gzip_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MOST_BYTES", 10_000.0)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="too large"):
            read_trace(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_rows_without_times_need_a_rate() -> None:
    trace = parse_trace("input_tokens,output_tokens\n" + "10,20\n30,40\n" * 500)
    with pytest.raises(UsageError, match="the trace has no times; expected a time in every row, or a rate"):
        trace.requests()
    assert trace.requests(2.0).arrival_s.tolist() == [i / 2 for i in range(1000)]
    requests = trace.requests(2.0, np.random.default_rng(1))
    assert requests.input_tokens.tolist() == [10, 30] * 500
    assert 999 / requests.span_s == pytest.approx(2.0, rel=4 / 1000**0.5)


def test_some_rows_without_times_are_a_trace_without_times() -> None:
    text = '{"timestamp_s": 1, "input_tokens": 1, "output_tokens": 1}\n{"input_tokens": 1, "output_tokens": 1}\n'
    with pytest.raises(UsageError, match="no times"):
        parse_trace(text).requests()


def test_a_stated_rate_stretches_the_times() -> None:
    requests = parse_trace(UNSORTED).requests(3.0)
    assert requests.arrival_s.tolist() == pytest.approx([0.0, 0.0, 0.5, 1.0])


def test_many_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MOST_CLASSES", 3)
    text = "input_tokens,output_tokens,class\n" + "".join(f"1,1,{i % 3}\n" for i in range(9))
    assert parse_trace(text).class_names == ("0", "1", "2")
    with pytest.raises(UsageError, match="too many classes"):
        parse_trace(text + "1,1,x\n")


def test_a_mangled_trace_with_blocks_never_fails_but_with_a_message() -> None:
    dice = random.Random(5)
    text = mooncake((5000, 700, 5, [1, 2]), (500, 1100, 5, [1, 2, 3]), (700, 30, 5, [1]), **{"class": "a"})
    for _ in range(1500):
        cut = list(text)
        for _ in range(dice.randint(1, 6)):
            cut[dice.randrange(len(cut))] = dice.choice("0,{}\"\n-:.eE9\x00 \r'[]x")
        try:
            requests = parse_trace("".join(cut)).requests(1.0)
        except UsageError:
            continue
        assert len(requests)


@pytest.mark.slow
def test_blocks_of_a_trace_take_a_few_numbers_each() -> None:
    text = mooncake(*((i, 32 * 512, 5, [*range(i % 7, i % 7 + 32)]) for i in range(5000)))
    tracemalloc.start()
    try:
        trace = parse_trace(text)
        assert trace.prefix is not None
        assert tracemalloc.get_traced_memory()[1] < 16 * len(trace.prefix.block)
    finally:
        tracemalloc.stop()
