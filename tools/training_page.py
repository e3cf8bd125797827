"""The part of docs/accuracy.md about training: what the fit had not seen first, misses first, baselines beside.

`python -m tools.calibrate.training_time measurements/training_throughput.csv --write` makes `left_out_training.csv`.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import fmean

from tools.baselines import MFU_BASELINES, MfuBaseline, TrainingRow, training_rows
from tools.calibrate.training_memory import PUBLISHED, UNITS, left_out, measured_rows

from gpufleet.accuracy.statistics import group_scores
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.inputs.measurements import MeasurementFile
from gpufleet.report.accuracy import error_text, half_width_text, shortened, signed_text
from gpufleet.report.formats import table_as_markdown
from gpufleet.report.numbers import count
from gpufleet.report.page import Column, Table
from gpufleet.results.accuracy import AccuracyReport, ScoredFigure

LEFT_OUT_NAME = "left_out_training.csv"
SPEED, PEAK = "tokens_per_s_per_gpu", "peak_memory"
NAMES = {SPEED: "tokens/s per GPU", PEAK: "peak memory"}
DENSE, EXPERTS, APART = "dense", "experts", "apart"
SOURCE_WIDTH = 60
TRAINING = """\
## Training

What to expect of runs that nobody here has measured: the constants were fitted again without each source, and, of
models with experts, which one source alone has published, without each model. *Alike* is the mean over sources
(models), so that one of 216 rows counts as much as one of 8; so is *held*. *In sample* is the mean error of the same
rows with the constants that ship. The largest error is first.
"""
RULES = """\
One source is *apart*: MT-NLG's own runs (arXiv 2201.11990), at 280 to 420 machines, are slower than the same layouts
in two other papers of its group. No fit has seen them. Ranges had not seen a row either: *held* and *width* are of
the range that the other sources (models) alone give. Of experts there is one framework, with nine models on three
GPUs: where it is left out whole, constants are those that were thought plausible while its runs were in view. How
much the range of experts holds of what others run is the least sure figure of this page.

**What flatters these figures.** The form of the equations was chosen while looking at these errors; a micro-batch or a
recomputation that a source does not state is taken by the rules at the top of `accuracy/training_rows.py`, which were
chosen on the same rows. Of peak memory, rows of one tool have one way of counting.
"""
BESIDE = """\
Beside what people do on paper: tokens/s = MFU x peak / FLOP per token, with {baselines}. Same rows, dense models.
"""


@dataclass(frozen=True)
class Group:
    """Rows that were left out together: what was, and their figures."""

    left_out: str
    kind: str
    figures: Sequence[ScoredFigure]

    @cached_property
    def parts(self) -> dict[str, list[ScoredFigure]]:
        """The figures by what was left out: source, or model."""
        found: dict[str, list[ScoredFigure]] = defaultdict(list)
        for figure in self.figures:
            found[figure.model_id if self.left_out == "model" else figure.source].append(figure)
        return found

    def split(self) -> list[Group]:
        """One group for each source or model."""
        return [Group(self.left_out, self.kind, figures) for figures in self.parts.values()]

    def alike(self, number: Callable[[Sequence[ScoredFigure]], float | None]) -> float | None:
        """The mean over sources or models of a number of each."""
        numbers = [found for part in self.parts.values() if (found := number(part)) is not None]
        return fmean(numbers) if numbers else None


def training_sections(
    report: AccuracyReport, files: Sequence[MeasurementFile], folder: Path, models: Path | None
) -> list[str]:
    """The texts and tables about training; nothing without rows of training that were left out."""
    timed = [file for file in files if file.kind == "training_throughput"]
    groups = [*groups_of(read_unseen(folder / LEFT_OUT_NAME)), *memory_groups()] if timed else []
    if not groups:
        return []
    seen = {place_of(figure): figure for file in report.files for figure in file.figures}
    parts = [part for group in groups for part in group.split() if group.kind != APART]
    baselines = " or ".join(f"{baseline.what} (*{baseline.name}*)" for baseline in MFU_BASELINES)
    return [
        TRAINING,
        table_as_markdown(training_table(groups, seen, "all")),
        table_as_markdown(training_table(parts, seen, "source or model")),
        RULES,
        BESIDE.format(baselines=baselines),
        table_as_markdown(baselines_table(training_rows(timed, models), groups)),
    ]


Place = tuple[str, int, str]


def place_of(figure: ScoredFigure) -> Place:
    """What tells one figure from all others: files are of different sources."""
    return figure.source, figure.row, figure.quantity


def read_unseen(path: Path) -> list[tuple[str, str, ScoredFigure]]:
    """What was left out, kind, and figure of every row that the fit had not seen."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return [(row["left_out"], row["kind"], unseen_figure(row)) for row in csv.DictReader(stream)]


def unseen_figure(row: Mapping[str, str]) -> ScoredFigure:
    """A row of the table as a scored figure."""
    numbers = {name: float(row[name]) for name in ("measured", "predicted", "low", "high")}
    return ScoredFigure(
        file=LEFT_OUT_NAME,
        row=int(row["row"]),
        quantity=SPEED,
        unit="tokens/s",
        source=row["source"],
        model_id=row["model"],
        group=row["kind"],
        **numbers,
    )


def groups_of(unseen: Sequence[tuple[str, str, ScoredFigure]]) -> list[Group]:
    """The groups of the page, by what was left out and by kind."""
    found: dict[tuple[str, str], list[ScoredFigure]] = defaultdict(list)
    for left, kind, figure in unseen:
        found[left, kind].append(figure)
    return [Group(*key, figures) for key, figures in sorted(found.items())]


@lru_cache(maxsize=1)
def memory_groups() -> list[Group]:
    """Peak memory under constants that the row's source had no part in: of the published rows, fitted once."""
    shipped = load_training_memory_constants()
    every = [each for path in PUBLISHED if path.is_file() for each in measured_rows(path, shipped)]
    rows = [each for each in every if not each.is_out_of_memory]
    unseen = left_out(rows, shipped)
    figures = []
    for each in rows:
        scale = UNITS[each.row.text("unit")]
        predicted = each.reported_bytes(unseen[each.source]) / scale
        figures.append(
            ScoredFigure(
                file="training_memory",
                row=each.row.line,
                quantity=PEAK,
                unit=each.row.text("unit"),
                source=each.source,
                model_id=each.row.text("model"),
                measured=each.peak_bytes / scale,
                predicted=predicted,
                low=predicted * (shipped.peak_ratio.low or 1.0),
                high=predicted * (shipped.peak_ratio.high or 1.0),
            )
        )
    return [Group("source", DENSE, figures)] if figures else []


def training_table(groups: Sequence[Group], seen: Mapping[Place, ScoredFigure], name: str) -> Table:
    """Errors of groups on what the fit had not seen, the largest first."""
    columns = [
        Column("left_out", "left out"),
        Column("of", "of"),
        Column("name", name),
        *(
            Column(key, head, align="right")
            for key, head in (
                ("rows", "rows"),
                ("median", "median"),
                ("mean", "mean"),
                ("alike", "alike"),
                ("bias", "bias"),
                ("held", "held"),
                ("width", "width"),
                ("sample", "in sample"),
            )
        ),
    ]
    ordered = sorted(groups, key=lambda group: -(group.alike(mean_error) or 0.0))
    return Table(columns, [training_line(group, seen) for group in ordered])


def training_line(group: Group, seen: Mapping[Place, ScoredFigure]) -> dict[str, object]:
    """One line of the table."""
    scores = group_scores("", "", group.figures[0].quantity, group.figures)
    return {
        "left_out": "every fit" if group.kind == APART else group.left_out,
        "of": f"{NAMES[group.figures[0].quantity]}, {group.kind}",
        "name": shortened(next(iter(group.parts)), SOURCE_WIDTH) if len(group.parts) == 1 else f"{len(group.parts)}",
        "rows": count(len(group.figures)),
        "median": error_text(scores.median_error_ratio),
        "mean": error_text(scores.mean_error_ratio),
        "alike": error_text(group.alike(mean_error)),
        "bias": signed_text(scores.bias_ratio),
        "held": error_text(group.alike(held_share)),
        "width": half_width_text(scores.half_width_ratio),
        "sample": error_text(mean_error([seen[place] for f in group.figures if (place := place_of(f)) in seen])),
    }


def mean_error(figures: Sequence[ScoredFigure]) -> float | None:
    """Mean |predicted / measured - 1|."""
    return group_scores("", "", "", figures).mean_error_ratio


def held_share(figures: Sequence[ScoredFigure]) -> float | None:
    """Share of measurements inside the range."""
    return group_scores("", "", "", figures).interval_coverage_ratio


def baselines_table(rows: Sequence[TrainingRow], groups: Sequence[Group]) -> Table:
    """Errors of MFU baselines, in sample and with the row's source left out, beside ours on the same rows."""
    ours = next(group for group in groups if (group.left_out, group.kind) == ("source", DENSE))
    wanted = {figure.row for figure in ours.figures}
    same = [row for row in rows if row.figure.row in wanted]
    lines = [baseline_line(baseline, same, unseen=unseen) for baseline in MFU_BASELINES for unseen in (False, True)]
    lines.append(errors_line("gpufleet", "in sample", [row.figure for row in same]))
    lines.append(errors_line("gpufleet", "source left out", ours.figures))
    columns = [Column("model", "model"), Column("fit", "constants")]
    columns += [Column(key, key, align="right") for key in ("rows", "median", "mean", "alike", "bias")]
    return Table(columns, lines)


def baseline_line(baseline: MfuBaseline, rows: Sequence[TrainingRow], *, unseen: bool) -> dict[str, object]:
    """Errors of one baseline."""
    fit = "source left out" if unseen else "in sample"
    return errors_line(baseline.name, fit, baseline.figures(rows, unseen=unseen))


def errors_line(model: str, fit: str, figures: Sequence[ScoredFigure]) -> dict[str, object]:
    """Errors of one model on figures."""
    scores = group_scores("", "", SPEED, figures)
    return {
        "model": model,
        "fit": fit,
        "rows": count(len(figures)),
        "median": error_text(scores.median_error_ratio),
        "mean": error_text(scores.mean_error_ratio),
        "alike": error_text(Group("source", DENSE, figures).alike(mean_error)),
        "bias": signed_text(scores.bias_ratio),
    }
