"""Accuracy as a page, misses first, and every scored figure as CSV rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.report.formats import as_csv
from gpufleet.report.numbers import count, or_dash, percent, plural, significant
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.results.accuracy import (
    AccuracyReport,
    FileAccuracy,
    GroupScores,
    ReasonCount,
    ScoredFigure,
    VerdictCounts,
)
from gpufleet.units import PERCENT

ROW_COLUMNS = (
    "row",
    "quantity",
    "measured",
    "predicted",
    "low",
    "high",
    "grade",
    "reason",
    "source",
    "model_id",
    "gpu_id",
)
EVERYTHING = "all"
FEWEST_FOR_HEADLINE = 10
MOST_REASONS = 12
MOST_REASONS_IN_ERROR = 2
TERMINAL_WIDTH, UNBOUNDED_WIDTH = 80, 200
NUMBERS_WIDTH = 44
FINE_BELOW_PERCENT = 10
WIDEST_PERCENT = 1000


def accuracy_page(report: AccuracyReport, width: int = TERMINAL_WIDTH) -> Page:
    """The worst group first, then each file by its groupings, its worst figures and what is missing."""
    tables = [table for file in report.files for table in file_tables(file, width)]
    return Page(headline(report), tables, notes(report), [summary(file) for file in report.files])


def accuracy_in_full_page(report: AccuracyReport) -> Page:
    """The same page where width does not matter."""
    return accuracy_page(report, width=UNBOUNDED_WIDTH)


def accuracy_groups_page(report: AccuracyReport) -> Page:
    """All groups of all files in one table: what a CSV holds."""
    rows = [{"file": file.file, "kind": file.kind, **s.model_dump()} for file in report.files for s in file.groups]
    columns = [Column(key, key) for key in ("file", "kind", *GroupScores.model_fields)]
    return Page(headline(report), [Table(columns, rows, empty="nothing was scored")])


def headline(report: AccuracyReport) -> str:
    """The group that is furthest off, in one sentence."""
    groups = [(file, group) for file in report.files for group in file.groups]
    sound = [(f, g) for f, g in groups if g.num_predicted >= FEWEST_FOR_HEADLINE and g.by != EVERYTHING]
    candidates = [(f, g) for f, g in sound or groups if g.median_error_ratio is not None]
    if not candidates:
        return "Nothing could be compared: no row has both a measurement and a prediction."
    if not any(g.mean_error_ratio for _, g in candidates):
        return exact_headline(report)
    file, worst = max(candidates, key=lambda pair: pair[1].median_error_ratio or 0.0)
    where = "all rows" if worst.by == EVERYTHING else f"{shortened(worst.group, UNBOUNDED_WIDTH)}, by {worst.by}"
    return (
        f"Furthest off: {worst.quantity} of {where} ({file.kind}): "
        f"median error {error_text(worst.median_error_ratio)} over {plural(worst.num_predicted, 'row')}."
    )


def exact_headline(report: AccuracyReport) -> str:
    """That no prediction is off, with what was not compared beside it."""
    whole = [group for file in report.files for group in file.groups if group.by == EVERYTHING]
    num_figures, num_predicted = sum(g.num_figures for g in whole), sum(g.num_predicted for g in whole)
    num_dropped = sum(reason.count for file in report.files for reason in file.left_out)
    if num_predicted == num_figures and not num_dropped:
        return f"Every prediction equals its measurement: {plural(num_figures, 'figure')}."
    exact = f"{count(num_predicted)} of {plural(num_figures, 'figure')} predicted, each equal to its measurement"
    return f"{exact}; {count(num_figures - num_predicted)} without prediction, {plural(num_dropped, 'row')} not scored."


def nothing_compared(report: AccuracyReport) -> list[str]:
    """Of each file without a figure beside a prediction, or a run that failed beside a verdict, what became of it."""
    return [
        f"{file.file}: no row can be compared ({why_not(file)})"
        for file in report.files
        if not any(g.num_predicted for g in file.groups) and not file.verdicts.num_ran + file.verdicts.num_failed
    ]


def why_not(file: FileAccuracy) -> str:
    """The most frequent reasons of a file."""
    reasons = [*file.left_out, *file.without_prediction][:MOST_REASONS_IN_ERROR]
    return "; ".join(f"{plural(reason.count, 'row')}: {reason.reason}" for reason in reasons) or "it has no rows"


def summary(file: FileAccuracy) -> str:
    """Coverage and errors of one file in a line."""
    whole = [group for group in file.groups if group.by == EVERYTHING and group.median_error_ratio is not None]
    errors = ", ".join(f"{group.quantity} {error_text(group.median_error_ratio)}" for group in whole)
    scored = f"{count(file.num_covered_rows)} of {count(file.num_scored_rows)} scored rows predicted"
    share = f"{percent(file.coverage_ratio)}" if file.num_scored_rows else "none"
    said = f"{scored} ({share}). Median error: {errors or 'none'}.{verdicts(file.verdicts)}"
    return f"{kind_text(file)} ({file.file}): {said}"


def kind_text(file: FileAccuracy) -> str:
    """The kind of a file, and whether its rows were all replayed, or none."""
    if file.is_closed_form:
        return f"{file.kind}, closed form"
    return f"{file.kind}, replayed" if file.is_replayed else file.kind


def verdicts(counts: VerdictCounts) -> str:
    """Memory verdicts that were wrong, in a sentence."""
    ran, failed = counts.num_ran, counts.num_failed
    said = [
        (ran, f"{counts.num_false_does_not_fit} of {count(ran)} runs that ran were predicted not to fit"),
        (failed, f"{counts.num_false_fits} of {count(failed)} that ran out of memory were predicted to fit"),
    ]
    told = "; ".join(words for number, words in said if number)
    return f" Memory: {told}." if told else ""


def file_tables(file: FileAccuracy, width: int) -> list[Table]:
    """Groups, those of all rows together first, worst figures and reasons of one file."""
    groupings = dict.fromkeys([EVERYTHING, *(group.by for group in file.groups)])
    tables = [table for by in groupings for table in groups_tables(file, by, width)]
    if file.worst and any(figure.predicted != figure.measured for figure in file.worst):
        tables.append(worst_table(file))
    if file.without_prediction:
        tables.append(reasons_table(f"{file.kind}: without prediction", file.without_prediction))
    if file.left_out:
        tables.append(reasons_table(f"{file.kind}: rows not scored", file.left_out))
    return tables


def groups_tables(file: FileAccuracy, by: str, width: int) -> list[Table]:
    """Scores of every group of one grouping, the worst first: errors beside ranges, below one another if narrow."""
    rows = [group_row(group) for group in file.groups if group.by == by]
    title = kind_text(file) if by == EVERYTHING else f"{kind_text(file)} by {by}"
    errors = [*name_columns(by, rows, width), COUNT_COLUMN, *ERROR_COLUMNS, HELD_COLUMN]
    if width > TERMINAL_WIDTH:
        return [Table([*errors, *RANGE_COLUMNS], rows, title=title, empty="no row was scored")]
    tables = [Table(errors, rows, title=title, empty="no row was scored")]
    ranged = [row for row in rows if row["interval_coverage_ratio"] is not None]
    if any(row["half_width_ratio"] for row in ranged):
        ranges = [*name_columns(by, rows, width), HELD_COLUMN, *RANGE_COLUMNS]
        tables.append(Table(ranges, ranged, title=f"{title}: ranges"))
    return tables


def group_row(scores: GroupScores) -> Row:
    """Scores of a group as a row; the two ends of its drawn interval are one cell."""
    drawn = scores.interval_coverage_low_ratio, scores.interval_coverage_high_ratio
    return {**scores.model_dump(), "drawn_ratios": drawn}


def name_columns(by: str, rows: Sequence[Mapping[str, object]], width: int) -> list[Column]:
    """The group, shortened to what the numbers leave, and its quantity."""
    longest = width - NUMBERS_WIDTH - max([len("quantity"), *(len(str(row["quantity"])) for row in rows)])
    return [Column("group", by, show=lambda group: shortened(str(group), longest)), Column("quantity", "quantity")]


def worst_table(file: FileAccuracy) -> Table:
    """The figures that are furthest off."""
    columns = [
        Column("row", "line", align="right"),
        Column("model_id", "model"),
        Column("gpu_id", "GPU"),
        Column("quantity", "quantity"),
        Column("measured", "measured", or_dash(significant), "right"),
        Column("predicted", "predicted", or_dash(significant), "right"),
        Column("low", "low", or_dash(significant), "right", priority=2),
        Column("high", "high", or_dash(significant), "right", priority=2),
        Column("unit", "unit", priority=1),
    ]
    rows = [figure.model_dump() for figure in file.worst]
    return Table(columns, rows, title=f"{kind_text(file)}: the {len(rows)} furthest off")


def reasons_table(title: str, reasons: Sequence[ReasonCount]) -> Table:
    """Reasons with how often each was given."""
    columns = [Column("count", "count", count, "right"), Column("reason", "reason")]
    shown = [reason.model_dump() for reason in reasons[:MOST_REASONS]]
    rest = sum(reason.count for reason in reasons[MOST_REASONS:])
    return Table(columns, shown, title=title, notes=[f"and {count(rest)} more for other reasons"] if rest else ())


def notes(report: AccuracyReport) -> list[str]:
    """How to read the columns."""
    explained = [
        "Errors are |predicted / measured - 1|; bias is the median of predicted / measured, less one; "
        "held is the share of measurements inside low to high (nominal 80%); cover is the share with a prediction.",
        "drawn is the 10th to 90th percentile of held over 1,000 draws of the parties (sources; for serving points "
        "client x engine x GPU) with replacement: '-' for a single party; width is the median half-width of the "
        "ranges, sqrt(high / low) - 1.",
    ]
    return [*explained, *dict.fromkeys(note for file in report.files for note in file.notes)]


def rows_as_csv(report: AccuracyReport) -> str:
    """One line per scored quantity in the units of the files; with several files, a last column names the file."""
    columns = (*ROW_COLUMNS, "file") if len(report.files) > 1 else ROW_COLUMNS
    return as_csv(columns, [row_cells(figure, columns) for file in report.files for figure in file.figures])


def row_cells(figure: ScoredFigure, columns: Sequence[str]) -> list[object]:
    """The cells of one figure; unknown is empty, whole numbers have no decimals."""
    values = [getattr(figure, column) for column in columns]
    return ["" if v is None else int(v) if isinstance(v, float) and v.is_integer() else v for v in values]


def shortened(text: str, longest: int) -> str:
    """A source without its host, and a long name without its middle: beginnings and ends tell names apart."""
    name = text.removeprefix("https://").removeprefix("github.com/").removeprefix("source_file=").replace(" x ", " ")
    return name if len(name) <= longest else f"{name[: longest // 2 - 1]}…{name[-(longest // 2) :]}"


def error_text(error_ratio: float | None) -> str:
    """An error as a percentage, with a decimal below ten; '-' where there is none."""
    if error_ratio is None:
        return "-"
    error = error_ratio * PERCENT
    return f"{error:.1f}%" if error < FINE_BELOW_PERCENT else f"{error:,.0f}%"


def drawn_text(ends: tuple[float | None, float | None]) -> str:
    """The interval of a share, '72-91%'; '-' where there is none."""
    low, high = ends
    return "-" if low is None or high is None else f"{low * PERCENT:.0f}-{high * PERCENT:.0f}%"


def half_width_text(width_ratio: float | None) -> str:
    """A half-width with its sign; '-' where there is none."""
    if width_ratio is None:
        return "-"
    width = width_ratio * PERCENT
    return f"±{width:.0f}%" if width < WIDEST_PERCENT else f">{WIDEST_PERCENT}%"


def signed_text(bias_ratio: float | None) -> str:
    """A bias with its sign; '-' where there is none."""
    return "-" if bias_ratio is None else f"{bias_ratio * PERCENT:+.0f}%"


COUNT_COLUMN = Column("num_figures", "rows", count, "right")
HELD_COLUMN = Column("interval_coverage_ratio", "held", or_dash(percent), "right")
ERROR_COLUMNS = (
    Column("coverage_ratio", "cover", or_dash(percent), "right"),
    Column("median_error_ratio", "median", error_text, "right"),
    Column("mean_error_ratio", "mean", error_text, "right"),
    Column("bias_ratio", "bias", signed_text, "right"),
)
RANGE_COLUMNS = (
    Column("drawn_ratios", "drawn", drawn_text, "right"),
    Column("num_parties", "parties", count, "right"),
    Column("half_width_ratio", "width", half_width_text, "right"),
)
