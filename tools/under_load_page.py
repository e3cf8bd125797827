"""The section of docs/accuracy.md on engines under load: runs as they were, and the closed form of a steady state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from gpufleet.accuracy.benchmark_clients import client_of
from gpufleet.accuracy.loaded_rows import CLOSED, arrivals_of
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import REFUSALS, Setup, ask
from gpufleet.accuracy.serving_under_load import (
    PROTOCOL,
    QUANTITIES,
    load_of,
    score_under_load,
    steady_under_load,
    why_not_scored,
)
from gpufleet.accuracy.statistics import half_width_ratio
from gpufleet.api.request_runs import TAILS
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.request_runs import STEADY_LATENCIES
from gpufleet.report.accuracy import error_text, half_width_text, signed_text
from gpufleet.report.formats import table_as_markdown
from gpufleet.report.page import Column, Table
from gpufleet.results.accuracy import ScoredFigure
from gpufleet.units import MILLISECOND

KIND = "serving_under_load"
BANDS = ((0.3, "steady, load below 0.3"), (0.7, "steady, load 0.3 to 0.7"), (1.0, "steady, load 0.7 to 1"))
CLIENTS, BURST, TURNS = "clients in a closed loop", "bursts, or at capacity and above", "steady, multi-turn"
TWICE = 2.0
ORDER = (BURST, *(name for _, name in reversed(BANDS)), TURNS, CLIENTS)
TEXT = """\
## Under load

Requests that arrive at a rate, from {rows} rows of {groups} groups (source, model, GPU). A row that states its requests
is answered as that run, replayed (`gpufleet estimate --rate R --requests N`). *Closed form* is the steady state of the
same rate without them, which a plan uses. A row is steady where its requests came for three latencies or longer. Load
is that of our own closed form. A range comes from replays with steps as short and as long as their own range says. Two
things were fitted to these rows: what a kind of run has beside that range, publishers alike, and how far the host time
of vLLM before 0.8 may lie from its published value. What ranges hold of a publisher that they were not learnt on is in
`data/calibration/run_ranges.toml`. *Alike* is the median of the groups' medians, *within 2x* the share of figures off
by less than a factor of two. Bursts first, where errors are largest.
"""


class Pair(NamedTuple):
    """A figure of a row: as the run that it was, and of the closed form."""

    group: str
    run: ScoredFigure
    steady: ScoredFigure | None


def under_load_section(paths: Sequence[Path], models: Path | None) -> list[str]:
    """The text and its table; nothing where there is no such file."""
    found: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    rows = set()
    for path in paths:
        for key, pair in pairs_of(path, ModelFinder(models)):
            found[key].append(pair)
            rows.add((path.name, pair.run.row))
    if not found:
        return []
    groups = {pair.group for pairs in found.values() for pair in pairs}
    return [TEXT.format(rows=len(rows), groups=len(groups)), table_as_markdown(table_of(found))]


def pairs_of(path: Path, models: ModelFinder) -> Iterator[tuple[tuple[str, str], Pair]]:
    """Every scored figure of the rows of a file, by kind of row and part of the distribution."""
    read = read_measurements(path)
    for row in read.rows if read.kind == KIND else ():
        if why_not_scored(row):
            continue
        run = score_under_load(row, str(path), models)
        steady = {figure.quantity: figure for figure in steady_under_load(row, str(path), models).figures}
        kind = kind_of(row, models)
        for figure in run.figures:
            time, statistic = parts_of(figure)
            part = "tail" if statistic in TAILS else "p50, mean"
            yield (kind, f"{time} {part}"), Pair(row.text("group"), figure, steady.get(figure.quantity))


def parts_of(figure: ScoredFigure) -> tuple[str, str]:
    """Time and statistic of a figure."""
    return next(parts for quantity, parts in QUANTITIES.items() if quantity.name == figure.quantity)


def kind_of(row: MeasurementRow, models: ModelFinder) -> str:
    """Clients, a burst, or a steady state by its load."""
    arrivals = arrivals_of(row)
    if arrivals.how == CLOSED:
        return CLIENTS
    load, latency_s = load_ratio(row, models), measured_latency_s(row)
    requests = (row.positive("num_requests") or 0.0) / client_of(row).runs
    is_short = latency_s is None or requests / arrivals.rate_requests_per_s < STEADY_LATENCIES * latency_s
    if is_short or load is None:
        return BURST
    if row.text("multi_turn") == "yes":
        return TURNS
    return next((name for most, name in BANDS if load < most), BURST)


def load_ratio(row: MeasurementRow, models: ModelFinder) -> float | None:
    """The load by the closed form; None at what a replica sustains and above, and where it has no answer."""
    try:
        of_replica = PROTOCOL.replica_of(row)
        setup = Setup.of(of_replica, models)
        return ask(of_replica, setup, load_of(of_replica, setup.engine)).load_ratio
    except REFUSALS:
        return None


def measured_latency_s(row: MeasurementRow) -> float | None:
    """The mean latency of a row, else its median, else TTFT and TPOT of the mean answer."""
    for statistic in ("mean", "p50"):
        if (whole := row.positive(f"e2e_{statistic}_ms")) is not None:
            return whole * MILLISECOND
    for statistic in ("mean", "p50"):
        first, later = (row.positive(f"{time}_{statistic}_ms") for time in ("ttft", "tpot"))
        if first is not None and later is not None:
            return (first + later * ((row.positive("output_mean") or 1.0) - 1)) * MILLISECOND
    return None


def table_of(found: Mapping[tuple[str, str], Sequence[Pair]]) -> Table:
    """One line for each kind of row and part of a distribution."""
    columns = [
        Column("kind", "rows"),
        Column("part", "of"),
        Column("figures", "figures", align="right"),
        Column("groups", "groups", align="right"),
        Column("median", "median", align="right"),
        Column("alike", "alike", align="right"),
        Column("bias", "bias", align="right"),
        Column("within", "within 2x", align="right"),
        Column("held", "held", align="right"),
        Column("width", "width", align="right"),
        Column("closed", "closed form, alike", align="right"),
        Column("closed_bias", "bias", align="right"),
    ]
    keys = sorted(found, key=lambda key: (ORDER.index(key[0]), key[1]))
    return Table(columns, [line_of(key, found[key]) for key in keys])


def line_of(key: tuple[str, str], pairs: Sequence[Pair]) -> dict[str, object]:
    """One line."""
    run = [pair for pair in pairs if error_of(pair.run) is not None]
    ranged = [width for pair in run if (width := half_width_ratio(pair.run)) is not None]
    held = [is_held(pair.run) for pair in run if pair.run.low is not None]
    within = [1 / TWICE <= 1 + (error_of(pair.run) or 0.0) <= TWICE for pair in run]
    steady = [(pair.group, error) for pair in pairs if pair.steady and (error := error_of(pair.steady)) is not None]
    return {
        "kind": key[0],
        "part": key[1],
        "figures": len(pairs),
        "groups": len({pair.group for pair in pairs}),
        "median": error_text(median(abs(error_of(p.run) or 0.0) for p in run)) if run else "-",
        "alike": alike([(p.group, error_of(p.run) or 0.0) for p in run]),
        "bias": signed_text(median(error_of(p.run) or 0.0 for p in run)) if run else "-",
        "within": f"{sum(within) / len(within):.0%}" if within else "-",
        "held": f"{sum(held) / len(held):.0%}" if held else "-",
        "width": half_width_text(median(ranged)) if ranged else "-",
        "closed": alike(steady),
        "closed_bias": signed_text(median(error for _, error in steady)) if steady else "-",
    }


def is_held(figure: ScoredFigure) -> bool:
    """Whether a range holds what was measured."""
    low, measured, high = figure.low or 0.0, figure.measured or 0.0, figure.high
    return low <= measured and (high is None or measured <= high)


def error_of(figure: ScoredFigure) -> float | None:
    """predicted / measured - 1."""
    return None if figure.predicted is None or not figure.measured else figure.predicted / figure.measured - 1


def alike(errors: Sequence[tuple[str, float]]) -> str:
    """The median of the groups' median errors."""
    by_group: dict[str, list[float]] = defaultdict(list)
    for group, error in errors:
        by_group[group].append(abs(error))
    return error_text(median(median(each) for each in by_group.values())) if by_group else "-"
