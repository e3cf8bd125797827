"""Availability traces in the forms of the public ones, made up here, uneven ones, and hostile ones."""

from __future__ import annotations

import contextlib
import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.errors import UsageError
from gpufleet.inputs import spot_trace as spot_trace_module
from gpufleet.inputs.spot_trace import parse_spot_trace, read_spot_trace

SKYPILOT = '{"metadata": {"gap_seconds": 195}, "data": [0, 0, 1, 1, 1, 0]}'
WIDE = "t_s,us-east1-b,us-west1-b\n0,1,4\n150,0,4\n300,2,3\n"
LONG = "time,zone,available\n2023-02-15 00:00,a,1\n2023-02-15 00:10,a,0\n2023-02-15 00:00,b,2\n2023-02-15 00:10,b,2\n"
EVENTS = "t_s,event,node\n0,add,n1\n0,add,n2\n90,remove,n1\n100,add,n3\n240,remove,n2\n"


def test_a_trace_of_skypilot_is_one_zone() -> None:
    seen = parse_spot_trace(SKYPILOT)
    assert (seen.tick_s, seen.zones, seen.num_filled) == (195.0, ("zone",), 0)
    assert seen.nodes.tolist() == [[0, 0, 1, 1, 1, 0]]


def test_zones_may_be_columns_or_a_column() -> None:
    wide, long = parse_spot_trace(WIDE), parse_spot_trace(LONG)
    assert (wide.tick_s, wide.zones, wide.nodes.tolist()) == (
        150.0,
        ("us-east1-b", "us-west1-b"),
        [[1, 0, 2], [4, 4, 3]],
    )
    assert (long.tick_s, long.zones, long.nodes.tolist()) == (600.0, ("a", "b"), [[1, 0], [2, 2]])


def test_events_count_the_fewest_nodes_of_every_minute() -> None:
    """n1 leaves at 90 s and n3 comes at 100 s: one node was up for all of the second minute."""
    seen = parse_spot_trace(EVENTS)
    assert (seen.tick_s, seen.nodes.tolist()) == (60.0, [[2, 1, 2, 2, 1]])


def test_events_of_several_zones_are_counted_apart() -> None:
    seen = parse_spot_trace("t_s,event,zone\n0,add,a\n0,add,b\n60,remove,a\n120,add,b\n")
    assert (seen.zones, seen.nodes.tolist()) == (("a", "b"), [[1, 0, 0], [1, 1, 2]])


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("t_s,event,node,nodes_up\n0,remove,n1,3\n180,add,n2,4\n", [[3, 3, 3, 4]]),
        ("t_s,event,node,nodes_up\n0,add,n1,\n60,remove,n2,7\n", [[8, 7]]),
        ("t_s,event,node\n0,add,n2\n60,remove,n1\n120,remove,n2\n", [[2, 1, 0]]),
        ("t_s,event\n0,add\n60,remove\n120,remove\n180,remove\n", [[3, 2, 1, 0]]),
        ("t_s,event,zone,count\n0,remove,a,0\n60,remove,b,2\n120,add,b,3\n", [[0, 0, 0], [3, 2, 3]]),
    ],
)
def test_events_may_begin_with_nodes_up(text: str, nodes: list[list[int]]) -> None:
    """Those that are removed before they are added were up, and so were those that a count after an event holds."""
    assert parse_spot_trace(text).nodes.tolist() == nodes


@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from("abcdef")), min_size=1, max_size=30),
    st.sets(st.sampled_from("abcdef")),
    st.integers(0, 3),
)
def test_events_of_nodes_are_read_as_they_were_written(
    moments: list[tuple[int, str]], up: set[str], silent: int
) -> None:
    """Nodes change in turn, some are up at first, and `silent` ones are up all the time, which only a count tells."""
    rows, is_up, by_minute = [], set(up), dict[int, int]()
    moments = sorted(moments, key=lambda each: each[0])
    began, last = moments[0][0], moments[-1][0]
    stands = [(began, len(is_up) + silent)]
    for at, name in moments:
        word = "remove" if name in is_up else "add"
        is_up ^= {name}
        stands.append((at, len(is_up) + silent))
        rows.append(f"{at},{word},{name},{len(is_up) + silent}")
    for minute in range((last - began) // 60 + 1):
        begin, end = began + 60 * minute, min(began + 60 * (minute + 1), last + 1)
        at_moments = [[n for t, n in stands if t <= second][-1] for second in range(begin, end)]
        by_minute[minute] = min(at_moments)
    seen = parse_spot_trace("\n".join(["t_s,event,node,nodes_up", *rows, ""]))
    assert seen.nodes.tolist() == [list(by_minute.values())]


def test_what_was_not_seen_is_unavailable_and_counted() -> None:
    assert parse_spot_trace('{"metadata": {"gap_seconds": 60}, "data": [1, null, 1]}').nodes.tolist() == [[1, 0, 1]]
    gap = parse_spot_trace("t_s,a\n0,1\n10,1\n20,1\n30,1\n90,1\n")
    assert (gap.nodes.tolist(), gap.num_filled) == ([[1, 1, 1, 1, 0, 0, 0, 0, 0, 1]], 5)
    empty = parse_spot_trace("t_s,a,b\n0,1,\n10,1,2\n")
    assert (empty.nodes.tolist(), empty.num_filled) == ([[1, 1], [0, 2]], 1)


def test_a_zone_that_begins_later_was_not_seen_before() -> None:
    seen = parse_spot_trace("t_s,zone,nodes\n0,a,1\n10,a,1\n20,a,1\n20,b,3\n30,b,3\n")
    assert seen.nodes.tolist() == [[1, 1, 1, 0], [0, 0, 3, 3]]
    assert seen.num_filled == 3  # two of b, one of a


def test_points_a_little_off_time_stand_until_the_next() -> None:
    seen = parse_spot_trace("t_s,a\n0,1\n601,1\n1199,1\n1800,0\n2400,1\n")
    assert (seen.tick_s, seen.num_filled) == (600.5, 0)


def test_one_tick_is_a_trace_where_its_length_is_said() -> None:
    seen = parse_spot_trace('{"metadata": {"gap_seconds": 600}, "data": [1]}')
    assert seen.available(1, 600.0).tolist() == [[True]]
    assert seen.available(1, 3600.0).shape == (1, 0)


def test_a_file_may_be_packed(tmp_path: Path) -> None:
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(SKYPILOT.encode()))
    assert read_spot_trace(tmp_path / "trace.json.gz").num_ticks == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no rows"),
        ("\n\n", "no rows"),
        ("t_s,a\n", "no rows"),
        ("t_s,a\n0,1\n", "has one point; expected two of a zone at least"),
        ("a,b\n1,2\n", "columns of an unknown form; found 'a, b'; expected a time"),
        ("t_s\n0\n1\n", "unknown form"),
        ("t_s,zone,price\n0,a,1\n1,a,1\n", "unknown form"),
        ("t_s,zone,nodes\n0,,1\n", "line 2 names no zone"),
        ("t_s,a\n0,1\n10,nan\n", "line 3: a: not a number of nodes; found 'nan'; expected a whole one"),
        ("t_s,a\n0,1\n10,-1\n", "line 3: a: not a number of nodes"),
        ("t_s,a\n0,1\n10,0.5\n", "line 3: a: not a number of nodes"),
        ("t_s,a\n0,1\n10,inf\n", "not a number of nodes"),
        ("t_s,a\n0,1\n10,yes\n", "not a number of nodes"),
        ("t_s,a\n0,1\nnan,1\n", "line 3: cannot read t_s"),
        ("t_s,a\n0,1\n20,1\n10,1\n", "line 4 is not later than the row before it; found '10'"),
        ("t_s,a\n0,1\n0,1\n", "each time once in a zone"),
        ("t_s,a\n0,1\n10,1\n20,1\n1e12,1\n", "too many ticks"),
        ("t_s,a\n0,1\n1e-9,1\n", "the distance of points in the availability trace is out of range"),
        ("t_s,event\n0,stop\n", "line 2: unknown event; found 'stop'; expected add or remove"),
        ("t_s,event,node\n0,add,n\n10,add,n\n", "line 3 adds a node that is already up; found 'n'"),
        ("t_s,event,node\n0,add,n\n10,remove,n\n20,remove,n\n", "line 4 removes a node that is not up; found 'n'"),
        ("t_s,event,node\n0,remove,n\n10,remove,n\n", "line 3 removes a node that is not up; found 'n'"),
        (
            "t_s,event,node,nodes_up\n0,remove,n,3\n10,add,m,5\n",
            "line 3: nodes up are not those that its events leave; found 5; expected 4, the number after the event",
        ),
        ("t_s,event,node,nodes_up\n0,add,n,1\n10,remove,m,0\n", "line 2: nodes up are not"),
        ("t_s,event,nodes_up\n0,add,-1\n", "line 2: nodes_up: not a number of nodes"),
        ("t_s,event\n10,add\n0,add\n", "line 3 is not later"),
        ("t_s,event\n0,add\n1e18,add\n", "too many ticks"),
        ("{", "is not JSON"),
        ("[1, 0]", "is of an unknown form; expected {"),
        ("{}", "unknown form"),
        ('{"metadata": {}, "data": [1]}', "unknown form"),
        ('{"metadata": {"gap_seconds": true}, "data": [1]}', "unknown form"),
        ('{"metadata": {"gap_seconds": 60}, "data": {}}', "unknown form"),
        ('{"metadata": {"gap_seconds": 60}, "data": []}', "has 0 points"),
        ('{"metadata": {"gap_seconds": 0}, "data": [1]}', "gap_seconds of the availability trace is out of range"),
        ('{"metadata": {"gap_seconds": NaN}, "data": [1]}', "gap_seconds of the availability trace"),
        ('{"metadata": {"gap_seconds": -5}, "data": [1]}', "gap_seconds of the availability trace"),
        ('{"metadata": {"gap_seconds": 1' + "0" * 350 + '}, "data": [1]}', "gap_seconds of the availability trace"),
        ('{"metadata": {"gap_seconds": 60}, "data": [1, NaN]}', "point 1: not a number of nodes"),
        ('{"metadata": {"gap_seconds": 60}, "data": [-1]}', "point 0: not a number of nodes"),
        ('{"metadata": {"gap_seconds": 60}, "data": [[1]]}', "point 0: not a number of nodes"),
        ('{"metadata": {"gap_seconds": 60}, "data": [1], "data": [0]}', "gives 'data' twice"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spot_trace(text)
    assert told in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_huge_trace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_trace_module, "MOST_POINTS", 5)
    with pytest.raises(UsageError, match="has 6 points"):
        parse_spot_trace(SKYPILOT)
    with pytest.raises(UsageError, match="too many ticks; found '3'; expected at most 2"):
        parse_spot_trace(WIDE)
    monkeypatch.setattr(spot_trace_module, "MOST_ZONES", 1)
    for text in (WIDE, "t_s,zone,nodes\n0,a,1\n0,b,1\n", "t_s,event,zone\n0,add,a\n0,add,b\n"):
        with pytest.raises(UsageError, match="too many zones"):
            parse_spot_trace(text)


def test_a_mangled_trace_never_fails_but_with_a_message() -> None:
    dice = random.Random(5)
    for text in (SKYPILOT, WIDE, LONG, EVENTS):
        for _ in range(1500):
            cut = list(text)
            for _ in range(dice.randint(1, 6)):
                cut[dice.randrange(len(cut))] = dice.choice("0,\"\n-:.eE9\x00 \r'x{[")
            with contextlib.suppress(UsageError):
                assert parse_spot_trace("".join(cut)).nodes.min() >= 0
