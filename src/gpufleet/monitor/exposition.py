"""The text in which engines show their metrics, version 0.0.4, and percentiles from the buckets in it.

prometheus.io/docs/instrumenting/exposition_formats: a line for each series, `name{label="value",...} value [time]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpufleet.errors import DataMissing
from gpufleet.records import dataclass

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SERIES = re.compile(rf"({NAME})[ \t]*(?:\{{|(?=[ \t]))")
LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*)"[ \t]*(,|(?=\}))')
REST = re.compile(r"[ \t]*([^ \t]+)(?:[ \t]+(-?[0-9]+))?[ \t]*")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?Inf|NaN", re.ASCII)
ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True)
class Series:
    """One series: its name, its labels, its value."""

    name: str
    labels: Mapping[str, str]
    value: float


def series_in(text: str, what: str) -> list[Series]:
    r"""All series of a text; `what` names it in errors.

    >>> series_in('# HELP up is it\nup{job="a\\"b"} 1\n', "the engine")
    [Series(name='up', labels={'job': 'a"b'}, value=1.0)]
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(" \t\r")
        if not stripped or stripped.startswith("#"):
            continue
        series = series_of(stripped)
        if series is None:
            expected = "metrics in the text format of Prometheus"
            raise DataMissing(f"{what} shows no metrics: line {number}", found=stripped, expected=expected)
        found.append(series)
    return found


def series_of(line: str) -> Series | None:
    """The series of a line, or None where it is none."""
    begins = SERIES.match(line)
    if begins is None:
        return None
    labels: dict[str, str] = {}
    at = begins.end()
    if begins[0].endswith("{"):
        while (label := LABEL.match(line, at)) is not None:
            labels[label[1]] = re.sub(r"\\.", lambda found: ESCAPED.get(found[0], found[0]), label[2])
            at = label.end()
        if not line.startswith("}", at):
            return None
        at += 1
    rest = REST.fullmatch(line, at)
    if rest is None or NUMBER.fullmatch(rest[1]) is None:
        return None
    return Series(begins[1], labels, float(rest[1]))


def total(series: Iterable[Series], name: str) -> float | None:
    """The sum of all series of a name; None where there is none, or one of them is no number."""
    values = [each.value for each in series if each.name == name]
    return math.fsum(values) if values and all(map(math.isfinite, values)) else None


def average(series: Iterable[Series], name: str) -> float | None:
    """Their mean."""
    values = [each.value for each in series if each.name == name and math.isfinite(each.value)]
    return math.fsum(values) / len(values) if values else None


def buckets_of(series: Iterable[Series], histogram: str) -> dict[float, float]:
    """Cumulative counts by upper bound, over all series of a histogram."""
    counts: dict[float, float] = {}
    for each in series:
        if each.name == f"{histogram}_bucket" and NUMBER.fullmatch(each.labels.get("le", "")):
            bound = float(each.labels["le"])
            counts[bound] = counts.get(bound, 0.0) + each.value
    return counts


def since(now: Mapping[float, float], before: Mapping[float, float]) -> dict[float, float]:
    """What came into each bucket after an earlier reading; all of it where the engine has started anew."""
    if any(now.get(bound, 0.0) < count for bound, count in before.items()):
        return dict(now)
    return {bound: count - before.get(bound, 0.0) for bound, count in now.items()}


def quantile(share: float, counts: Mapping[float, float]) -> float | None:
    """A percentile from cumulative counts by upper bound, as `histogram_quantile` finds it.

    Between two bounds it lies as far as its rank does; above the last finite bound it is that bound.

    >>> quantile(0.5, {1.0: 10.0, 2.0: 30.0, math.inf: 40.0})
    1.5
    """
    bounds = sorted(bound for bound in counts if not math.isnan(bound))
    if len(bounds) < 2 or not math.isinf(bounds[-1]) or not counts[bounds[-1]] > 0:
        return None
    levels = list(rising(counts[bound] for bound in bounds))
    rank = share * levels[-1]
    place = next(number for number, level in enumerate(levels) if level >= rank)
    if place == len(bounds) - 1:
        return bounds[-2]
    if place == 0 and bounds[0] <= 0:
        return bounds[0]
    return between(bounds, levels, place, rank)


def between(bounds: Sequence[float], levels: Sequence[float], place: int, rank: float) -> float:
    """Where in its bucket a rank lies."""
    low, below = (bounds[place - 1], levels[place - 1]) if place else (0.0, 0.0)
    inside = levels[place] - below
    return low + (bounds[place] - low) * ((rank - below) / inside if inside > 0 else 1.0)


def rising(levels: Iterable[float]) -> Iterator[float]:
    """Counts that never fall: engines count while they are read."""
    highest = 0.0
    for level in levels:
        highest = max(highest, level)
        yield highest
