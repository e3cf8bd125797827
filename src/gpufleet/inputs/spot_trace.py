"""Traces of what spot machines could be had, as public ones are written; the form is told by the text.

form    columns
JSON    {"metadata": {"gap_seconds": 600}, "data": [1, 0, 4]}: nodes of one zone at every tick; null was not seen
wide    CSV: a time, and a column of nodes for every zone
long    CSV: a time, zone, and nodes (available, nodes, count, nodes_up, instances_running)
events  CSV: a time, event (add, remove), [node,] [zone,] [nodes_up]: one machine more or less, so many up after it

A time (t_s, time_s, timestamp_s, timestamp, time, date, datetime) is seconds, or a date and time; any form may be
packed by gzip. A point stands until the next one; before a gap, for a tick. Gaps, and cells left empty, are
unavailable and are counted. Events may begin with machines up: those that are removed before they are added, and as
many more as nodes_up counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.availability import Availability
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.inputs.rate_curve import TIMES
from gpufleet.inputs.trace import LATEST_S, LONGEST_CELL, Row, csv_rows, moment_s
from gpufleet.records import dataclass
from gpufleet.units import MB, MINUTE, Bounds, in_full

WHAT = "the availability trace"
ONLY_ZONE = "zone"
MOST_BYTES, MOST_POINTS, MOST_ZONES, MOST_NODES = 50 * MB, 5_000_000, 1000, 1_000_000
COUNTS, ZONE, EVENT, NODE = ("available", "nodes", "count", "nodes_up", "instances_running"), "zone", "event", "node"
EVENTS = {"add": 1, "remove": -1}
TICKS = Bounds(1.0, 1e6, "seconds")
LONGEST_GAP_RATIO, NEAR_POINTS, USUAL_GAPS = 1.5, 0.25, 0.9
"""A longer distance of points is a gap: than so many ticks, and than so many of all."""
UNSEEN = -1
WORDS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Points:
    """Nodes of one zone as they stand: the time of each point, and how many; UNSEEN where nothing is said."""

    times_s: FloatArray
    nodes: IntArray


def read_spot_trace(path: str | Path) -> Availability:
    """The trace in a file of any known form."""
    return parse_spot_trace(read_text_file(path, WHAT, MOST_BYTES, may_be_packed=True))


def parse_spot_trace(text: str) -> Availability:
    """The trace in a text: JSON where it begins with a brace, else CSV.

    >>> parse_spot_trace('{"metadata": {"gap_seconds": 600}, "data": [1, null, 4]}').nodes.tolist()
    [[1, 0, 4]]
    """
    if text[:LONGEST_CELL].lstrip()[:1] in ("{", "["):
        return of_json(parse_json(text, WHAT))
    rows = csv_rows(text, WHAT)
    first = next(rows, None)
    if first is None:
        raise UsageError(f"{WHAT} has no rows", expected="a header and one line for each point")
    time = next((name for name in TIMES if name in first[1]), None)
    if time is None:
        raise unknown_form(first[1])
    return of_rows(time, [first, *rows])


def of_rows(time: str, rows: list[Row]) -> Availability:
    """The trace of a table, by its columns."""
    if len(rows) > MOST_POINTS:
        raise UsageError(f"{WHAT} has too many rows", expected=f"at most {MOST_POINTS:,}")
    header = rows[0][1]
    if EVENT in header:
        return of_events(time, rows)
    if ZONE in header:
        count = next((name for name in COUNTS if name in header), None)
        if count is None:
            raise unknown_form(header)
        return on_one_grid({zone: points_of(time, count, own) for zone, own in by_zone(rows).items()})
    zones = [name for name in header if name != time]
    if not zones or not all(zones):
        raise unknown_form(header)
    refuse_many_zones(len(zones))
    return on_one_grid({zone: points_of(time, zone, rows) for zone in zones})


def unknown_form(header: Mapping[str, object]) -> UsageError:
    """What is said of columns that no form has."""
    expected = f"a time ({', '.join(TIMES)}) and nodes by zone, or events ({', '.join(EVENTS)})"
    return UsageError(f"{WHAT} has columns of an unknown form", found=", ".join(map(str, header)), expected=expected)


def of_json(value: object) -> Availability:
    """The trace of one zone, a number for every tick."""
    about = value.get("metadata") if isinstance(value, dict) else None
    points = value.get("data") if isinstance(value, dict) else None
    gap = about.get("gap_seconds") if isinstance(about, dict) else None
    if not isinstance(gap, (int, float)) or isinstance(gap, bool) or not isinstance(points, list):
        raise UsageError(f"{WHAT} is of an unknown form", expected='{"metadata": {"gap_seconds": 600}, "data": [1, 0]}')
    TICKS.refuse_outside(float(gap) if abs(gap) < LATEST_S else math.inf, f"gap_seconds of {WHAT}", gap)
    if not 0 < len(points) <= MOST_POINTS:
        raise UsageError(
            f"{WHAT} has {len(points):,} points", expected=f"one at least, and no more than {MOST_POINTS:,}"
        )
    nodes = np.array([count_of(cell, f"point {i}") for i, cell in enumerate(points)], dtype=np.int64)
    return seen_or_not(float(gap), (ONLY_ZONE,), nodes[np.newaxis])


def by_zone(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of each zone, in the order they are met."""
    zones: dict[str, list[Row]] = {}
    for line, row in rows:
        zone = str(row.get(ZONE) or "").strip()[:LONGEST_CELL]
        if not zone:
            raise UsageError(f"{WHAT}: line {line} names no zone")
        zones.setdefault(zone, []).append((line, row))
        refuse_many_zones(len(zones))
    return zones


def refuse_many_zones(num: int) -> None:
    """Refuse more zones than anybody rents in."""
    if num > MOST_ZONES:
        raise UsageError(f"{WHAT} has too many zones", expected=f"at most {MOST_ZONES:,}")


def points_of(time: str, column: str, rows: Iterable[Row]) -> Points:
    """The points of one zone, in the order of their times."""
    times: list[float] = []
    nodes: list[int] = []
    for line, row in rows:
        at = moment_s(row.get(time), time, line, WHAT)
        refuse_earlier(at, times, line, row.get(time), may_be_same=False)
        times.append(at)
        nodes.append(count_of(row.get(column), f"line {line}: {column}"))
    return Points(np.array(times), np.array(nodes, dtype=np.int64))


def refuse_earlier(at: float, times: list[float], line: int, found: object, may_be_same: bool) -> None:
    """Refuse a row that is not in the order of time."""
    if times and (at < times[-1] or (at == times[-1] and not may_be_same)):
        expected = "rows in the order of their times" + ("" if may_be_same else ", each time once in a zone")
        raise UsageError(f"{WHAT}: line {line} is not later than the row before it", found=found, expected=expected)


def count_of(cell: object, where: str) -> int:
    """Nodes of one cell, a whole number; UNSEEN where it is empty."""
    text = "" if cell is None else str(cell)[:LONGEST_CELL].strip().lower()
    if not text:
        return UNSEEN
    try:
        value = WORDS[text] if text in WORDS else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_NODES or value != int(value):
        raise UsageError(
            f"{WHAT}: {where}: not a number of nodes", found=cell, expected=f"a whole one, 0 to {MOST_NODES:,}"
        )
    return int(value)


def on_one_grid(zones: Mapping[str, Points]) -> Availability:
    """All zones on ticks as long as near points are apart, from the first point of any to the last."""
    gaps = np.concatenate([np.diff(points.times_s) for points in zones.values()])
    if not len(gaps):
        raise UsageError(f"{WHAT} has one point", expected="two of a zone at least: their distance is a tick")
    tick_s = usual_tick_s(gaps)
    TICKS.refuse_outside(tick_s, f"the distance of points in {WHAT}", tick_s)
    first_s = min(float(points.times_s[0]) for points in zones.values())
    last_s = max(float(points.times_s[-1]) for points in zones.values())
    num = checked_ticks((last_s - first_s) / tick_s + 1, len(zones))
    stands_s = max(LONGEST_GAP_RATIO * tick_s, float(np.quantile(gaps, USUAL_GAPS, method="lower")))
    on_grid = [on_grid_from(points, first_s, tick_s, num, stands_s) for points in zones.values()]
    return seen_or_not(tick_s, tuple(zones), np.stack(on_grid))


def usual_tick_s(gaps_s: FloatArray) -> float:
    """The median distance of points; where a quarter of them are much nearer to each other, theirs   [s].

    >>> usual_tick_s(np.array([600.0, 601.0, 1200.0])), usual_tick_s(np.array([600.0, 40_000.0, 49_400.0]))
    (601.0, 600.0)
    """
    near_s, median_s = float(np.quantile(gaps_s, NEAR_POINTS, method="lower")), float(np.median(gaps_s))
    return median_s if median_s <= LONGEST_GAP_RATIO * near_s else near_s


def checked_ticks(num: float, num_zones: int) -> int:
    """A number of ticks, refused where memory does not hold them."""
    if not num * num_zones <= MOST_POINTS:
        raise UsageError(
            f"{WHAT} has too many ticks", found=in_full(num), expected=f"at most {MOST_POINTS // num_zones:,}"
        )
    return math.floor(num)


def on_grid_from(points: Points, first_s: float, tick_s: float, num: int, stands_s: float) -> IntArray:
    """The fewest nodes of the points in each tick; a tick without any has the last point's, where it still stands.

    >>> on_grid_from(Points(np.array([0.0, 9.0, 21.0]), np.array([3, 2, 1])), 0.0, 10.0, 4, stands_s=15.0).tolist()
    [2, 2, 1, -1]
    """
    ticks = np.minimum(np.floor((points.times_s - first_s) / tick_s).astype(np.int64), num - 1)
    fewest = np.full(num, MOST_NODES + 1)
    np.minimum.at(fewest, ticks, points.nodes)
    starts_s = first_s + np.arange(num) * tick_s
    last = np.searchsorted(points.times_s, starts_s, side="right") - 1
    lasting = np.append(np.diff(points.times_s), np.inf)
    until_s = points.times_s + np.where(lasting <= stands_s, lasting, tick_s)
    stands = (last >= 0) & (until_s[last] >= starts_s + tick_s / 2)
    return np.where(fewest <= MOST_NODES, fewest, np.where(stands, points.nodes[last], UNSEEN))


def seen_or_not(tick_s: float, zones: tuple[str, ...], nodes: IntArray) -> Availability:
    """A trace whose unseen points are unavailable, and counted."""
    return Availability(tick_s, zones, np.maximum(nodes, 0), int(np.count_nonzero(nodes == UNSEEN)))


@dataclass(frozen=True)
class Change:
    """An event: one node more or less of a zone, by name where it has one, and how many are up after it, where told."""

    line: int
    at_s: float
    added: int
    node: str
    nodes_up: int


def of_events(time: str, rows: list[Row]) -> Availability:
    """The fewest nodes up in every minute, from the first event to the last."""
    count = next((name for name in COUNTS if name in rows[0][1]), None)
    times: list[float] = []
    zones: dict[str, list[Change]] = {}
    for line, row in rows:
        at = moment_s(row.get(time), time, line, WHAT)
        refuse_earlier(at, times, line, row.get(time), may_be_same=True)
        times.append(at)
        zone = str(row.get(ZONE) or "").strip()[:LONGEST_CELL] or ONLY_ZONE
        zones.setdefault(zone, []).append(change_of(row, count, at - times[0], line))
    refuse_many_zones(len(zones))
    num = checked_ticks((times[-1] - times[0]) / MINUTE + 1, len(zones))
    nodes = [
        minutes_of(np.array([each.at_s for each in changes]), counts_of(changes), num) for changes in zones.values()
    ]
    return Availability(MINUTE, tuple(zones), np.stack(nodes))


def change_of(row: Mapping[str, object], count: str | None, at_s: float, line: int) -> Change:
    """The event of one row."""
    word, node = (str(row.get(column) or "").strip().lower()[:LONGEST_CELL] for column in (EVENT, NODE))
    if word not in EVENTS:
        found, expected = row.get(EVENT), " or ".join(EVENTS)
        raise UsageError(f"{WHAT}: line {line}: unknown event", found=found, expected=expected)
    nodes_up = UNSEEN if count is None else count_of(row.get(count), f"line {line}: {count}")
    return Change(line, at_s, EVENTS[word], node, nodes_up)


def counts_of(changes: Sequence[Change]) -> IntArray:
    """Nodes up before the first event of a zone, and after each."""
    so_far = np.cumsum([0, *(each.added for each in changes)])
    least = up_before(changes)
    told = (
        each.nodes_up - after for each, after in zip(changes, so_far[1:].tolist(), strict=True) if each.nodes_up >= 0
    )
    first = next(told, least)
    for each, nodes in zip(changes, (max(first, least) + so_far[1:]).tolist(), strict=True):
        if each.nodes_up not in (UNSEEN, nodes):
            problem = f"line {each.line}: nodes up are not those that its events leave"
            raise UsageError(
                f"{WHAT}: {problem}", found=each.nodes_up, expected=f"{nodes:,}, the number after the event"
            )
    return np.asarray(first + so_far)


def up_before(changes: Sequence[Change]) -> int:
    """Nodes that were up before the first event: those by name that are removed before they are added.

    Of nodes without a name, so many that none is removed that is not up.

    >>> up_before([Change(2, 0.0, -1, "a", UNSEEN), Change(3, 1.0, 1, "b", UNSEEN), Change(4, 2.0, -1, "", UNSEEN)])
    2
    """
    is_up: dict[str, bool] = {}
    named = unnamed = fewest = 0
    for each in changes:
        if not each.node:
            unnamed += each.added
            fewest = min(fewest, unnamed)
            continue
        is_added = each.added > 0
        if is_up.get(each.node, not is_added) == is_added:
            problem = f"{'add' if is_added else 'remove'}s a node that is {'already' if is_added else 'not'} up"
            raise UsageError(
                f"{WHAT}: line {each.line} {problem}", found=each.node, expected="adds and removes in turn"
            )
        named += each.node not in is_up and not is_added
        is_up[each.node] = is_added
    return named - fewest


def minutes_of(at_s: FloatArray, nodes: IntArray, num: int) -> IntArray:
    """The fewest nodes of one zone in every minute, of its numbers before the first event and after each.

    At one moment the last counts.

    >>> minutes_of(np.array([70.0, 120.0, 120.0, 200.0]), np.array([4, 1, 2, 3, 2]), 4).tolist()
    [4, 1, 3, 2]
    """
    is_last = np.append(np.diff(at_s) > 0, True)
    at_s, after = at_s[is_last], nodes[1:][is_last]
    so_far = np.searchsorted(at_s, np.arange(num) * MINUTE, side="right")
    fewest = np.append(nodes[0], after)[so_far]
    np.minimum.at(fewest, np.minimum(at_s // MINUTE, num - 1).astype(np.int64), after)
    return fewest
