"""Writes docs/accuracy.md: errors on what the fit had not seen first, then errors on all measurements, misses first.

    python tools/accuracy_page.py [--left-out FOLDER] [--models FOLDER]

`python tools/calibrate engines --leave-out model|gpu|source` writes the tables `left_out_*.csv` that stand first.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from gpufleet.accuracy.score import score_files
from gpufleet.report.accuracy import accuracy_in_full_page
from gpufleet.report.formats import page_as_markdown, table_as_markdown
from gpufleet.report.page import Column, Table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
FILES = ("serving_points.csv", "inference_throughput.csv", "inference_memory.csv", "param_counts.csv")
TEXT_COLUMNS = ("engine", "era", "source", "quantity")
NUMBER_COLUMNS = {
    "rows": "rows",
    "median_error_percent": "median %",
    "mean_error_percent": "mean %",
    "bias_percent": "bias %",
    "in_range_percent": "held %",
}
INTRODUCTION = """\
# Accuracy

Written by `tools/accuracy_page.py` from the files in `measurements/`; every figure is reproduced by
`gpufleet accuracy`. The measurements and how they are read: [measurements](../measurements/README.md).

An error is |predicted / measured - 1|; bias is the median of predicted / measured, less one; *held* is the share of
measurements between the low and the high end of the prediction (nominal 80 %). The worst comes first.

## Left out of the fit

The constants of each engine were fitted again without each {key} in turn, which was then predicted. These are the
errors to expect on something that nobody has measured here; the errors further down are those of a fit on its own
data. *Held* is against the range that the other groups give.

Two things make these tables kinder than measurements that nobody here has seen. The form of the equations, the eras,
the weight of the priors and the rule for ranges were chosen while looking at these very errors. And rows that our
curves call impossible (more prompt work than the time allows) take no part in fits and ranges, though they are scored
below like all others; throughput rows of an engine with several eras that state no version are only in the second part.
 Kernel curves stay those of the device: their errors on
held-back shapes are in [kernel curves](calibration.md).
"""
IN_SAMPLE = "## In sample\n\nAll measurements, with the constants that ship. These figures are not accuracy.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left-out", type=Path, default=ROOT / "src" / "gpufleet" / "data" / "calibration")
    parser.add_argument("--models", type=Path)
    arguments = parser.parse_args()
    tables = sorted(arguments.left_out.glob("left_out_*.csv"))
    if not tables:
        parser.error(f"no left_out_*.csv in {arguments.left_out}: run 'python tools/calibrate engines' first")
    PAGE.write_text(page(tables, arguments.models), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def page(left_out: Sequence[Path], models: Path | None) -> str:
    """The whole document."""
    keys = " and each ".join(path.stem.removeprefix("left_out_") for path in left_out)
    report = score_files([ROOT / "measurements" / name for name in FILES], models)
    shown = [file.model_copy(update={"file": Path(file.file).name}) for file in report.files]
    in_sample = page_as_markdown(accuracy_in_full_page(report.model_copy(update={"files": shown})))
    parts = [INTRODUCTION.format(key=keys), *map(left_out_table, left_out), IN_SAMPLE, in_sample]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def left_out_table(path: Path) -> str:
    """One table of what was left out, the largest median error first."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: -float(row["median_error_percent"]))
    columns = [Column(name, name) for name in TEXT_COLUMNS]
    columns += [Column(name, header, align="right") for name, header in NUMBER_COLUMNS.items()]
    return table_as_markdown(Table(columns, rows, title=f"Without the {path.stem.removeprefix('left_out_')}"))


if __name__ == "__main__":
    main()
