"""Writes docs/accuracy.md and docs/accuracy.svg: what the fit had not seen first, misses first, simpler models beside.

    python -m tools.accuracy_page [--measurements FOLDER] [--left-out FOLDER] [--models FOLDER] [--docs FOLDER]

`python tools/calibrate engines --leave-out model|gpu|source` writes the tables `left_out_*.csv` that stand first.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from tools.baselines import Baseline, best_constant_efficiency, ladder, scored_figures
from tools.training_page import training_sections
from tools.under_load_page import under_load_section

from gpufleet.accuracy.panels import accuracy_panels
from gpufleet.accuracy.score import score_files
from gpufleet.accuracy.statistics import PartyCount, group_scores, half_width_ratio, held_interval, worst_first
from gpufleet.catalog.engines import find_engine
from gpufleet.inputs.measurements import read_measurements
from gpufleet.report.accuracy import (
    EVERYTHING,
    accuracy_in_full_page,
    drawn_text,
    error_text,
    group_row,
    groups_tables,
    half_width_text,
    shortened,
    signed_text,
    worst_table,
)
from gpufleet.report.formats import page_as_markdown, table_as_markdown
from gpufleet.report.measured_plot import plot_as_svg
from gpufleet.report.numbers import count
from gpufleet.report.page import Column, Table
from gpufleet.results.accuracy import AccuracyReport, FileAccuracy, GroupScores, ScoredFigure
from gpufleet.units import PERCENT

ROOT = Path(__file__).resolve().parents[1]
CALIBRATION = ROOT / "src" / "gpufleet" / "data" / "calibration"
WAS_LEFT_OUT = ROOT / "measurements" / "left_out"
ENGINES = ROOT / "src" / "gpufleet" / "data" / "engines"
MEASUREMENTS, DOCS = ROOT / "measurements", ROOT / "docs"
PAGE, PICTURE = "accuracy.md", "accuracy.svg"
TERMS = "terms.csv"
TABLE_SUFFIXES = (".csv", ".json", ".knots", ".toml")
PICTURE_TITLE = "Measured against predicted, with the constants that ship"
KIND_ORDER = (
    "serving_points",
    "serving_points_disagg",
    "serving_under_load",
    "inference_throughput",
    "inference_memory",
    "training_throughput",
    "training_memory",
    "param_counts",
    "other_models",
)
TIMED_KINDS = ("serving_points", "inference_throughput")
LEFT_OUT_NAMES = {
    "model": "model",
    "gpu": "GPU",
    "gpu_and_kernels": "GPU and its kernel curves",
    "source": "source",
    "source_or_model": "source or else model",
}
SUMMED_UP = ("source_or_model", "model", "gpu", "gpu_and_kernels")
SUMMED_UP_QUANTITIES = ("tpot", "ttft", "rate")
ALL_ENGINES = "all engines"
DECILES = tuple(f"below_{decile}_percent" for decile in range(10, 100, 10))
FEWEST_ROWS, NUM_MISSES, NAME_WIDTH, FULL_WIDTH = 10, 10, 40, 200
QUANTITY_NAMES = {
    "tpot": "time per output token",
    "ttft": "time to first token",
    "rate": "output tokens/s",
    "out_tokens_per_s": "output tokens/s",
    "latency": "latency",
}
LEFT_OUT_COLUMNS = (
    Column("engine", "engine"),
    Column("era", "era"),
    Column("source", "source", show=lambda source: shortened(str(source), FULL_WIDTH)),
    Column("quantity", "quantity"),
    Column("rows", "rows", align="right"),
    Column("median_error_percent", "median %", align="right"),
    Column("mean_error_percent", "mean %", align="right"),
    Column("bias_percent", "bias %", align="right"),
    Column("in_range_percent", "held %", align="right"),
)

INTRODUCTION = """\
# Accuracy

How far predictions are from measurements. `make accuracy` writes this page and its picture from the files in
`measurements/` ([what they hold and how they are read](../measurements/README.md)); `gpufleet accuracy FILE.csv` prints
the same figures for your own. First what to expect where nobody has measured: the constants of each engine were fitted
again without each {keys} in turn, which was then predicted.
"""
READING = """\
Errors are |predicted / measured - 1|. *Held* is the share of measurements inside the range (nominal 80 %), in brackets
its 10th to 90th percentile when the sources (for serving points: client x engine x GPU) are drawn again. *Width* is the
median half-width of ranges, sqrt(high / low) - 1, of those that ship where the table of what was left out states none.
*Alike* is the mean over sources (client x engine x GPU) of their mean errors: one of 479 rows counts as one of 3.
*Worst group* has ten rows or more.

**What flatters these figures.** The form of the equations (which small kernels count, overhead by kernel and by
sequence), which measured kernels make a curve, the eras, the loss, the weight of the priors and the rule for ranges
were chosen while looking at these very errors; so were eight constants that are set and not fitted (how much experts
differ in popularity, SGLang's synchrony, prompts per client where nobody says, the rate of the second-level cache,
bytes per logit of TensorRT-LLM before 0.15, passes over keys and values, time of an expert and 16-bit time of int4
and int8 products in transformers), the steps that a first token waits in SGLang and TensorRT-LLM, the releases in which
kernels were fused, and how far the latency of a borrowed kernel curve is stretched (weighed on devices that have both
curves). Options that benchmark scripts start engines with were looked up where errors were
large ([14](decisions/0014-launch-options-are-conditions.md)). Rows that our curves call impossible (more prompt work
than the time allows) take no part in fits and ranges, though they are scored below like all others; throughput rows
of an engine with several eras that state no version are only in the second part. Kernel curves stay those of the
device: their errors on held-back shapes are in [kernel curves](calibration.md). Models, GPUs and sources were left
out one at a time, so that related ones stayed in. How much experts differ and how late tokens are seen were weighed on
our own runs (`measurements/own`) as well, which no fit sees.
"""
CALIBRATED = """\
What quantiles hold: the share of measurements below each quantile of their prediction, a normal of logarithms on either
side of what is expected. Rows are those that were left out; a rate counts by its time.
"""
MISSES = "## Misses\n\nLeft out of the fit: the groups of ten rows or more that are furthest off.\n"
SINGLE = "With the constants that ship: the single figures that are furthest off.\n"
DRAWING = f"""\
## Measured against predicted

With the constants that ship, so in sample: the scatter is real, its centring is fitted.

![{PICTURE_TITLE}]({PICTURE})
"""
LADDER = """\
## What each term is worth

The same rows under simpler models: the same equations and memory, with terms taken away.

{baselines}

The constants of gpufleet's engines are fitted to these rows, as the two shares of *constant efficiency* are (the best
pair in steps of a tenth, over every sixteenth row); the roofline and the kernel curves have seen none of them. The last
line of each quantity is gpufleet on models left out of its fit, over the rows that take part in it. *Factor* is
exp(mean |ln(predicted / measured)|): how many times too much or too little, on average.
"""
ON_AND_OFF = """\
### On and off

One term off at a time: the constants of every engine are fitted again without it, and each model is predicted by a fit
that did not see it (`python tools/calibrate terms`). Median / mean error, %. A term that changes little here is kept
where it is how engines run, or where other tables of this page rest on it.
"""
COMPARED = """\
## What is compared

Every kind of file, with the constants that ship (in sample: not accuracy where constants are fitted). *Cover* is the
share of figures with a prediction; reasons for the others are at the end.
"""
NOT_COMPARED = "Read, and not predicted yet:\n"
LEFT_OUT = "## Left out of the fit, by group\n"
IN_SAMPLE = (
    "## In sample, by group\n\nAll measurements, with the constants that ship. These figures are not accuracy.\n"
)


@dataclass(frozen=True)
class LeftOut:
    """One table of errors on what was left out: by what, and its rows."""

    key: str
    rows: Sequence[Mapping[str, str]]

    @classmethod
    def read(cls, path: Path) -> LeftOut:
        """The table of a file `left_out_<key>.csv`, the largest median error first."""
        with path.open(newline="", encoding="utf-8") as stream:
            rows = sorted(csv.DictReader(stream), key=lambda row: -float(row["median_error_percent"]))
        return cls(path.stem.removeprefix("left_out_"), rows)

    @property
    def name(self) -> str:
        """What was left out, as people write it."""
        return LEFT_OUT_NAMES[self.key]

    @property
    def groups(self) -> list[Mapping[str, str]]:
        """Rows of one engine, era and source."""
        return [row for row in self.rows if row["engine"] != ALL_ENGINES]

    @property
    def totals(self) -> list[Mapping[str, str]]:
        """Rows over all engines, in the order of the quantities."""
        order = list(QUANTITY_NAMES)
        return sorted(
            (row for row in self.rows if row["engine"] == ALL_ENGINES), key=lambda r: order.index(r["quantity"])
        )


@dataclass(frozen=True)
class Rung:
    """A baseline with what it predicts."""

    baseline: Baseline
    figures: Sequence[ScoredFigure]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=Path, default=MEASUREMENTS)
    parser.add_argument("--left-out", type=Path, default=WAS_LEFT_OUT)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    arguments = parser.parse_args()
    tables = read_left_out(arguments.left_out)
    if not tables:
        parser.error(f"no left_out_*.csv in {arguments.left_out}: run 'python tools/calibrate engines' first")
    files = measurement_files(arguments.measurements)
    page, picture = documents(files, tables, arguments.models, arguments.left_out)
    for name, text in ((PAGE, page), (PICTURE, picture)):
        (arguments.docs / name).write_text(text, encoding="utf-8")
        print(f"wrote {arguments.docs / name}")


def measurement_files(folder: Path) -> list[Path]:
    """The files of a folder, in the order of their kinds."""
    found = [(read_measurements(path).kind, path) for path in sorted(folder.glob("*.csv"))]
    return [path for _, path in sorted(found, key=lambda pair: KIND_ORDER.index(pair[0]))]


def read_left_out(folder: Path) -> list[LeftOut]:
    """The tables of what was left out, in the order of the page."""
    paths = [folder / f"left_out_{key}.csv" for key in LEFT_OUT_NAMES]
    return [LeftOut.read(path) for path in paths if path.is_file()]


def documents(
    files: Sequence[Path], left_out: Sequence[LeftOut], models: Path | None, folder: Path = WAS_LEFT_OUT
) -> tuple[str, str]:
    """The page and its picture; the table of training that was left out is in the folder too."""
    report = score_files(files, models)
    shown = [file.model_copy(update={"file": Path(file.file).name}) for file in report.files]
    report = report.model_copy(update={"files": shown})
    training = training_sections(report, [read_measurements(path) for path in files], folder, models)
    loaded = under_load_section(files, models)
    terms = [ON_AND_OFF, table_as_markdown(terms_table(folder / TERMS))] if (folder / TERMS).is_file() else []
    page = page_of(report, left_out, rungs_of(files, models), [*training, *loaded], terms)
    return f"<!-- made from tables {digest(made_from(files))} -->\n{page}", plot_as_svg(
        accuracy_panels(report), PICTURE_TITLE
    )


def page_of(
    report: AccuracyReport,
    left_out: Sequence[LeftOut],
    rungs: Sequence[Rung],
    training: Sequence[str],
    terms: Sequence[str] = (),
) -> str:
    """The whole document."""
    keys = ", each ".join(table.name for table in left_out)
    baselines = "\n".join(f"- *{rung.baseline.name}*: {rung.baseline.what}." for rung in rungs)
    parts = [
        INTRODUCTION.format(keys=keys),
        table_as_markdown(summary_table(report, left_out)),
        READING,
        *calibration_section(left_out),
        *training,
        MISSES,
        table_as_markdown(missed_groups_table(left_out)),
        SINGLE,
        table_as_markdown(single_misses_table(report)),
        memory_verdicts(report),
        DRAWING,
        LADDER.format(baselines=baselines),
        table_as_markdown(ladder_table(rungs, left_out)),
        table_as_markdown(engines_table(rungs)),
        *terms,
        COMPARED,
        table_as_markdown(compared_table(report)),
        NOT_COMPARED,
        LEFT_OUT,
        *(
            table_as_markdown(Table(LEFT_OUT_COLUMNS, table.rows, title=f"Without the {table.name}"))
            for table in left_out
        ),
        IN_SAMPLE,
        page_as_markdown(accuracy_in_full_page(report)),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def made_from(files: Sequence[Path]) -> list[Path]:
    """The tables that the page depends on: constants, curves, engines, what was left out, and measurements."""
    tables = [*CALIBRATION.iterdir(), *ENGINES.iterdir(), *WAS_LEFT_OUT.iterdir()]
    return [*sorted(path for path in tables if path.suffix in TABLE_SUFFIXES), *files]


def digest(paths: Sequence[Path]) -> str:
    """What tells whether any of these files has changed."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()[:16]


def summary_table(report: AccuracyReport, left_out: Sequence[LeftOut]) -> Table:
    """One line for each thing that was left out and each quantity; the long tables hold the rest."""
    columns = [
        Column("key", "left out"),
        Column("quantity", "of", show=lambda name: QUANTITY_NAMES[name]),
        Column("rows", "rows", align="right"),
        Column("median", "median", align="right"),
        Column("mean", "mean", align="right"),
        Column("alike", "alike", align="right"),
        Column("held", "held", align="right"),
        Column("width", "width", align="right"),
        Column("worst", "worst group"),
    ]
    first = [table for table in left_out if table.key in SUMMED_UP] or left_out
    rows = [
        summary_row(report, table, total)
        for table in first
        for total in table.totals
        if total["quantity"] in SUMMED_UP_QUANTITIES
    ]
    return Table(columns, rows)


def summary_row(report: AccuracyReport, table: LeftOut, total: Mapping[str, str]) -> dict[str, object]:
    """The errors on one quantity of everything that was left out."""
    quantity = total["quantity"]
    groups = [row for row in table.groups if row["quantity"] == quantity]
    held = held_interval(party_counts_of(groups)) or (None, None)
    return {
        "key": table.name,
        "quantity": quantity,
        "rows": count(float(total["rows"])),
        "median": percent_text(total["median_error_percent"]),
        "mean": percent_text(total["mean_error_percent"]),
        "alike": error_text(fmean(mean_by_source(groups)) / PERCENT) if groups else "-",
        "held": f"{float(total['in_range_percent']):.0f}% ({drawn_text(held)})",
        "width": width_of(report, total),
        "worst": worst_group(groups),
    }


def calibration_section(left_out: Sequence[LeftOut]) -> list[str]:
    """The share of measurements below each decile, of tables that state it; nothing where none does."""
    totals = [
        {**total, "key": table.name}
        for table in left_out
        if table.key in SUMMED_UP
        for total in table.totals
        if total["quantity"] in SUMMED_UP_QUANTITIES and total.get(DECILES[0])
    ]
    columns = [
        Column("key", "left out"),
        Column("quantity", "of", show=lambda name: QUANTITY_NAMES[name]),
        *(
            Column(name, f"{name.split('_')[1]}%", show=lambda share: f"{float(share):.0f}", align="right")
            for name in DECILES
        ),
    ]
    return [CALIBRATED, table_as_markdown(Table(columns, totals))] if totals else []


def party_counts_of(groups: Sequence[Mapping[str, str]]) -> list[PartyCount]:
    """Held ranges by source; for serving points a source is client, engine and GPU."""
    members: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in groups:
        members[row["source"]].append(row)
    return [
        PartyCount(sum(int(row["rows"]) for row in rows), round(sum(held_rows(row) for row in rows)))
        for rows in members.values()
    ]


def mean_by_source(groups: Sequence[Mapping[str, str]]) -> list[float]:
    """The mean error of each source in percent, of all its rows."""
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in groups:
        rows[row["source"]].append((float(row["rows"]), float(row["mean_error_percent"])))
    return [sum(n * error for n, error in each) / sum(n for n, _ in each) for each in rows.values()]


def held_rows(row: Mapping[str, str]) -> float:
    """How many rows of a group lie in their range."""
    return int(row["rows"]) * float(row["in_range_percent"]) / PERCENT


def width_of(report: AccuracyReport, total: Mapping[str, str]) -> str:
    """The half-width that the table states, else that of the ranges that ship."""
    if total.get("half_width_percent"):
        return half_width_text(float(total["half_width_percent"]) / PERCENT)
    wanted = "out_tokens_per_s" if total["quantity"] == "rate" else total["quantity"]
    figures = (figure for file in report.files for figure in file.figures if figure.quantity == wanted)
    widths = [width for width in map(half_width_ratio, figures) if width is not None]
    return half_width_text(median(widths) if widths else None)


def worst_group(groups: Sequence[Mapping[str, str]]) -> str:
    """The group of ten rows or more with the largest median error."""
    worst = max((row for row in groups if int(row["rows"]) >= FEWEST_ROWS), key=median_of, default=None)
    if worst is None:
        return "-"
    where = f"{shortened(worst['source'], NAME_WIDTH)} ({worst['engine']} {worst['era']})"
    return f"{percent_text(worst['median_error_percent'])} {where}"


def median_of(row: Mapping[str, str]) -> float:
    """The median error of a group."""
    return float(row["median_error_percent"])


def percent_text(percent: str) -> str:
    """An error of a table, as elsewhere on the page."""
    return error_text(float(percent) / PERCENT)


def missed_groups_table(left_out: Sequence[LeftOut]) -> Table:
    """The groups that are furthest off, whatever was left out."""
    rows = [{**row, "key": table.name} for table in left_out for row in table.groups if int(row["rows"]) >= FEWEST_ROWS]
    worst = sorted(rows, key=lambda row: -median_of(row))[:NUM_MISSES]
    return Table([Column("key", "left out"), *LEFT_OUT_COLUMNS], worst)


def single_misses_table(report: AccuracyReport) -> Table:
    """The figures that are furthest off, of all files."""
    figures = [figure for file in report.files for figure in file.figures]
    worst = worst_first(figures, NUM_MISSES)
    table = worst_table(report.files[0].model_copy(update={"worst": worst}))
    columns = [Column("file", "file"), *table.columns]
    return Table(columns, [{**figure.model_dump(), "file": Path(figure.file).stem} for figure in worst])


def memory_verdicts(report: AccuracyReport) -> str:
    """Wrong verdicts about memory, over all files that state some."""
    ran = sum(file.verdicts.num_ran for file in report.files)
    failed = sum(file.verdicts.num_failed for file in report.files)
    wrong_ran = sum(file.verdicts.num_false_does_not_fit for file in report.files)
    wrong_failed = sum(file.verdicts.num_false_fits for file in report.files)
    return (
        f"Memory: of {count(ran)} runs that ran, {count(wrong_ran)} were predicted not to fit; of {count(failed)} that "
        f"ran out of memory, {count(wrong_failed)} were predicted to fit.\n"
    )


def terms_table(path: Path) -> Table:
    """Errors with all terms, and without each in turn; the term that is worth most to time per token first."""
    with path.open(newline="", encoding="utf-8") as stream:
        found = {(row["term"], row["quantity"]): row for row in csv.DictReader(stream)}
    whole, *terms = dict.fromkeys(term for term, _ in found)
    terms.sort(key=lambda term: -float(found[term, "tpot"]["median_error_percent"]))
    shown = {"tpot": "TPOT", "ttft": "TTFT", "rate": "tokens/s"}
    columns = [Column("term", "without"), *(Column(q, name, align="right") for q, name in shown.items())]
    rows = [
        {"term": f"nothing: {whole}" if term == whole else term, **{q: both_errors(found[term, q]) for q in shown}}
        for term in (whole, *terms)
    ]
    return Table(columns, rows)


def both_errors(row: Mapping[str, str]) -> str:
    """Median and mean error of a row of terms.csv.

    >>> both_errors({"median_error_percent": "7.24", "mean_error_percent": "14.2"})
    '7.2 / 14.2'
    """
    return " / ".join(f"{float(row[f'{name}_error_percent']):.1f}" for name in ("median", "mean"))


def rungs_of(files: Sequence[Path], models: Path | None) -> list[Rung]:
    """Every baseline over the files that state times and rates."""
    timed = [file for file in map(read_measurements, files) if file.kind in TIMED_KINDS]
    if not timed:
        return []
    steps = ladder(best_constant_efficiency(timed, models))
    return [Rung(step, scored_figures(timed, models, step)) for step in steps]


def ladder_table(rungs: Sequence[Rung], left_out: Sequence[LeftOut]) -> Table:
    """Errors of every baseline by quantity, and of gpufleet on models left out."""
    columns = [
        Column("quantity", "of", show=lambda name: QUANTITY_NAMES[name]),
        Column("model", "model"),
        Column("rows", "rows", align="right"),
        *(Column(name, name, align="right") for name in ("median", "mean", "bias", "factor")),
    ]
    rows = []
    for quantity, csv_name in (("tpot", "tpot"), ("ttft", "ttft"), ("out_tokens_per_s", "rate")):
        rows += [ladder_row(rung, quantity) for rung in rungs]
        rows += [
            unseen_row(total, quantity) for t in left_out[:1] for total in t.totals if total["quantity"] == csv_name
        ]
    return Table(columns, rows)


def ladder_row(rung: Rung, quantity: str) -> dict[str, object]:
    """Errors of one baseline on one quantity."""
    figures = [figure for figure in rung.figures if figure.quantity == quantity]
    scores = group_scores("", "", quantity, figures)
    return {
        "quantity": quantity,
        "model": rung.baseline.name,
        "rows": count(len(figures)),
        "median": error_text(scores.median_error_ratio),
        "mean": error_text(scores.mean_error_ratio),
        "bias": signed_text(scores.bias_ratio),
        "factor": f"{typical_factor(figures):.2f}" if figures else "-",
    }


def typical_factor(figures: Sequence[ScoredFigure]) -> float:
    """exp(mean |ln(predicted / measured)|)."""
    ratios = [(figure.predicted or 1.0) / (figure.measured or 1.0) for figure in figures]
    return math.exp(fmean(abs(math.log(ratio)) for ratio in ratios))


def unseen_row(total: Mapping[str, str], quantity: str) -> dict[str, object]:
    """Errors of gpufleet on what was left out of its fit."""
    return {
        "quantity": quantity,
        "model": "gpufleet, model left out",
        "rows": count(float(total["rows"])),
        "median": percent_text(total["median_error_percent"]),
        "mean": percent_text(total["mean_error_percent"]),
        "bias": signed_text(float(total["bias_percent"]) / PERCENT),
        "factor": "-",
    }


def engines_table(rungs: Sequence[Rung]) -> Table:
    """Median and mean error of every baseline, by engine."""
    scored = [(rung.baseline.name, engine_scores(rung)) for rung in rungs]
    keys = sorted({key for _, scores in scored for key in scores})
    columns = [
        Column("engine", "engine"),
        Column("quantity", "of", show=lambda name: QUANTITY_NAMES[name]),
        Column("rows", "rows", align="right"),
        *(Column(name, name, align="right") for name, _ in scored),
    ]
    rows = []
    for engine, quantity in keys:
        cells = {name: "{} / {}".format(*scores[engine, quantity][1:]) for name, scores in scored}
        rows.append({"engine": engine, "quantity": quantity, "rows": scored[0][1][engine, quantity][0], **cells})
    return Table(columns, rows, title="By engine: median / mean error")


def engine_scores(rung: Rung) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Rows, median and mean error by engine and quantity."""
    members: dict[tuple[str, str], list[ScoredFigure]] = defaultdict(list)
    for figure in rung.figures:
        members[find_engine(figure.engine).name, figure.quantity].append(figure)
    scores = {key: group_scores("", "", key[1], figures) for key, figures in members.items()}
    return {
        key: (count(s.num_predicted), error_text(s.median_error_ratio), error_text(s.mean_error_ratio))
        for key, s in scores.items()
    }


def compared_table(report: AccuracyReport) -> Table:
    """Errors, coverage and ranges of every file and quantity."""
    rows = [{"file": file.file, **group_row(group)} for file in report.files for group in whole_of(file)]
    (table,) = groups_tables(report.files[0], EVERYTHING, FULL_WIDTH)
    return Table([Column("file", "file"), *table.columns[1:]], rows)


def whole_of(file: FileAccuracy) -> list[GroupScores]:
    """The scores of all rows of a file, by quantity."""
    return [group for group in file.groups if group.by == EVERYTHING]


if __name__ == "__main__":
    main()
