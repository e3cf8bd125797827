"""The same questions to aiconfigurator and to gpufleet: errors and seconds per answer in one table.

Development only: no test runs it and nothing that is installed needs it. It takes a second environment,

    python3 -m venv build/aiconfigurator && build/aiconfigurator/bin/pip install aiconfigurator==0.12.0
    python benchmarks/against_aiconfigurator.py --aiconfigurator build/aiconfigurator/bin/python --left-out

and asks both for what rows of `measurements/` state: checkpoint, GPU, engine, layout, lengths, load.

Neither side is judged on data that it had not seen. gpufleet's shipped constants were fitted on these rows; with
`--left-out` each model's answers also come from constants refitted without any row of that model. Whether
aiconfigurator's corrections were tuned on the same rows is not known (the serving points come with its own package).
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aiconfigurator_questions import SYSTEMS, Choices, aiconfigurator_question, backend_of
from gpufleet.accuracy.conditions import layout_of
from gpufleet.accuracy.serving_points import why_not_scored
from gpufleet.catalog.models import shipped_architecture
from gpufleet.inputs.measurements import MeasurementRow, read_measurements

HERE = Path(__file__).resolve().parent
MEASUREMENTS = HERE.parent / "measurements"
SEED, NUM_QUESTIONS, SERVING_SHARE = 3, 100, 0.7
NUM_COLD = 5
COLUMN_OF = {"tpot": "tpot_ms", "ttft": "ttft_ms", "out_tokens_per_s": "out_tokens_per_s_total"}
TITLES = {"tpot": "TPOT", "ttft": "TTFT", "out_tokens_per_s": "Output tokens/s"}
OTHER, SHIPPED, LEFT_OUT = "aiconfigurator", "shipped", "left_out"
Answer = Mapping[str, object]


@dataclass
class Question:
    """A measured row and what each tool says of it."""

    number: int
    kind: str
    row: MeasurementRow
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return self.row.text("model_id")

    @property
    def gpu(self) -> str:
        """The GPU without its form factor."""
        return self.row.text("gpu_id").split("-")[0]

    @property
    def kind_of_model(self) -> str:
        return "MoE" if shipped_architecture(self.model).is_moe else "dense"

    @property
    def group(self) -> tuple[str, str, str, str]:
        """Model, GPU, engine and precision ('own': the checkpoint's)."""
        return self.model, self.gpu, backend_of(self.row), self.row.text("precision", "precision_weights") or "own"

    def error_percent(self, tool: str, quantity: str) -> float | None:
        """predicted / measured - 1 in percent; None where either is missing."""
        measured = self.row.number(COLUMN_OF[quantity]) if self.row.text(COLUMN_OF[quantity]) else None
        predicted = self.answers.get(tool, {}).get(quantity)
        return 100 * (float(str(predicted)) / measured - 1) if measured and predicted else None


def main() -> int:
    options = parsed_options()
    questions = draw(options.questions)
    with tempfile.TemporaryDirectory() as folder:
        choices = Choices(options.context_budget, options.stated_gemm)
        asked = [aiconfigurator_question(q.row, Path(folder), choices) for q in questions]
        seconds = ask_both(questions, options.aiconfigurator, asked)
        if options.left_out:
            ask_left_out(questions, Path(folder))
    tools = [OTHER, SHIPPED, *([LEFT_OUT] if options.left_out else [])]
    for line in report(questions, tools, seconds):
        print(line)
    if options.out:
        write_csv(options.out, questions, tools)
    return 0


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aiconfigurator", required=True, help="python of an environment that has aiconfigurator")
    parser.add_argument("--questions", type=int, default=NUM_QUESTIONS, help="how many rows are asked (100)")
    parser.add_argument(
        "--context-budget",
        type=int,
        metavar="TOKENS",
        help="prompt tokens of one engine step that aiconfigurator is told (its default: one prompt); engines use 8192",
    )
    parser.add_argument(
        "--stated-gemm",
        action="store_true",
        help="tell aiconfigurator the GEMM format of the row's column, where its checkpoint says another (fp8_block)",
    )
    parser.add_argument("--out", type=Path, help="write one CSV line per question")
    parser.add_argument(
        "--left-out", action="store_true", help="refit gpufleet without each model and answer for it (minutes)"
    )
    return parser.parse_args()


def draw(num_questions: int) -> list[Question]:
    """Rows drawn by a fixed seed, evenly over (engine, GPU, model, precision) of each kind of load."""
    num_serving = round(num_questions * SERVING_SHARE)
    num_static = (num_questions - num_serving) // 2
    num_of = {
        "": num_serving,
        "fixed_batch": num_static,
        "max_throughput": num_questions - num_serving - num_static,
    }
    chosen = random.Random(SEED)
    rows = list(candidate_rows())
    return [
        Question(number, kind, row)
        for number, (kind, row) in enumerate(
            (kind, row)
            for scenario, num in num_of.items()
            for kind, row in evenly([r for r in rows if r[1].text("scenario") == scenario], num, chosen)
        )
    ]


def candidate_rows() -> Iterator[tuple[str, MeasurementRow]]:
    """Scored rows of engines, GPUs and loads that aiconfigurator has."""
    for kind in ("serving_points", "inference_throughput"):
        for row in read_measurements(MEASUREMENTS / f"{kind}.csv").rows:
            has_names = row.text("model_id") and row.text("gpu_id") in SYSTEMS and backend_of(row)
            is_asked = kind == "serving_points" or row.text("scenario") in ("fixed_batch", "max_throughput")
            if has_names and is_asked and why_not_scored(row) is None:
                yield kind, row


def evenly(
    rows: Sequence[tuple[str, MeasurementRow]], num: int, chosen: random.Random
) -> list[tuple[str, MeasurementRow]]:
    """One row of every group in turn, until there are enough."""
    groups: dict[tuple[str, ...], list[tuple[str, MeasurementRow]]] = defaultdict(list)
    for kind, row in rows:
        groups[Question(0, kind, row).group].append((kind, row))
    shuffled = [chosen.sample(group, len(group)) for _, group in sorted(groups.items())]
    chosen.shuffle(shuffled)
    rounds = max((len(group) for group in shuffled), default=0)
    return [group[turn] for turn in range(rounds) for group in shuffled if turn < len(group)][:num]


@dataclass(frozen=True)
class Worker:
    """A tool that answers questions in a process of its own."""

    python: str
    script: str

    def ask(self, questions: Sequence[Mapping[str, object]]) -> tuple[dict[int, Answer], float]:
        """Answers by number, and wall seconds of the whole process."""
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        begin = time.perf_counter()
        done = subprocess.run(
            [self.python, str(HERE / self.script)], input=lines, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise SystemExit(f"{self.script} failed: {done.stderr.strip()[-2000:]}")
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return {answer["number"]: answer for answer in answers}, seconds


def ask_both(
    questions: Sequence[Question], python: str, of_other: Sequence[Mapping[str, object]]
) -> dict[str, dict[str, float]]:
    """Fill in what both tools answer; seconds per answer by tool and way of asking."""
    workers = {
        OTHER: (
            Worker(python, "aiconfigurator_worker.py"),
            [{"number": q.number, **asked} for q, asked in zip(questions, of_other, strict=True)],
        ),
        SHIPPED: (
            Worker(sys.executable, "gpufleet_worker.py"),
            [{"number": q.number, "kind": q.kind, "cells": dict(q.row.cells)} for q in questions],
        ),
    }
    seconds = {}
    for tool, (worker, texts) in workers.items():
        answers, wall = worker.ask(texts)
        for q in questions:
            q.answers[tool] = answers[q.number]
        warm = [float(str(answer["seconds"])) for answer in answers.values()]
        cold = [worker.ask([text])[1] for text in texts[:: max(1, len(texts) // NUM_COLD)][:NUM_COLD]]
        seconds[tool] = {
            f"new process for each (median of {NUM_COLD})": statistics.median(cold),
            "one process, all questions (mean)": wall / len(texts),
            "one process, once loaded (median)": statistics.median(warm),
        }
    return seconds


def ask_left_out(questions: Sequence[Question], folder: Path) -> None:
    """Fill in what gpufleet answers with constants that saw no row of the question's model."""
    sys.path.insert(0, str(HERE.parent))
    from tools.calibrate.engines import FILES, by_era, fit_family, residuals_of
    from tools.calibrate.serving_rows import Point, read_points

    points = read_points([MEASUREMENTS / name for name in FILES])
    own: dict[int, Question] = {}
    asked: list[Point] = []
    for q in questions:
        for point in read_points([one_row_file(q, folder)]):
            own[id(point)] = q
            asked.append(point)
    for model in sorted({q.model for q in questions}):
        print(f"refitting without {model}", file=sys.stderr, flush=True)
        constants = fit_family(by_era([p for p in points if p.model_id != model]))
        for era, held in by_era([p for p in asked if p.model_id == model]).items():
            for residual in residuals_of(held, constants[era], era):
                q = own[id(residual.point)]
                quantity = "out_tokens_per_s" if residual.quantity == "rate" else residual.quantity
                measured = q.row.number(COLUMN_OF[quantity]) or 0.0
                q.answers[LEFT_OUT] = {
                    **q.answers.get(LEFT_OUT, {}),
                    quantity: measured * float(np.exp(-residual.log_ratio)),
                }


def one_row_file(question: Question, folder: Path) -> Path:
    """The question's row as a measurement file."""
    path = folder / f"{question.number}.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(question.row.cells))
        writer.writeheader()
        writer.writerow(question.row.cells)
    return path


def report(
    questions: Sequence[Question], tools: Sequence[str], seconds: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Everything that is printed, at most 80 columns wide."""
    versions = {str(q.answers[OTHER]["version"]) for q in questions if q.answers[OTHER].get("version")}
    loads = Counter(q.row.text("scenario") or "closed loop" for q in questions)
    return [
        f"{len(questions)} questions: " + ", ".join(f"{num} {load}" for load, num in loads.items()),
        "aiconfigurator's databases: " + ", ".join(sorted(versions)),
        "gpufleet's shipped constants were fitted on these rows; 'left out' are",
        "refitted without the question's model. Whether aiconfigurator was tuned on",
        "these rows is not known.",
        "",
        table_row("", "", ["aiconfigurator", "gpufleet", "gpufleet"][: len(tools)]),
        table_row("median / mean error, %", "n", ["", "shipped", "left out"][: len(tools)]),
        *(line for quantity in TITLES for line in error_lines(questions, tools, quantity)),
        "",
        *answered_lines(questions, tools),
        "",
        *seconds_lines(seconds),
        "",
        *refusal_lines(questions),
        "",
        *group_lines(questions, tools),
    ]


def table_row(label: str, num: object, cells: Sequence[str]) -> str:
    return f"{label:<28}{num:>4}" + "".join(f"{cell:>16}" for cell in cells)


def error_lines(questions: Sequence[Question], tools: Sequence[str], quantity: str) -> Iterator[str]:
    """Errors where every tool answers: all, by kind of model, by GPU; then what aiconfigurator leaves open."""
    stated = [q for q in questions if q.error_percent(SHIPPED, quantity) is not None]
    both = [q for q in stated if all(q.error_percent(tool, quantity) is not None for tool in tools)]
    alone = [q for q in stated if q.error_percent(OTHER, quantity) is None]
    yield TITLES[quantity]
    splits: list[tuple[str, list[Question]]] = [("all that both answer", both)]
    keys: tuple[Callable[[Question], str], ...] = (lambda q: q.kind_of_model, lambda q: q.gpu)
    for key in keys:
        splits += [(name, [q for q in both if key(q) == name]) for name in sorted({key(q) for q in both})]
    for name, group in splits:
        yield table_row(f"  {name}", len(group), [median_and_mean(group, tool, quantity) for tool in tools])
    if alone:
        cells = [median_and_mean(alone, tool, quantity) for tool in tools]
        yield table_row("  gpufleet alone answers", len(alone), cells)


def median_and_mean(questions: Sequence[Question], tool: str, quantity: str) -> str:
    errors = [abs(e) for q in questions if (e := q.error_percent(tool, quantity)) is not None]
    return f"{np.median(errors):.1f} / {np.mean(errors):.1f}" if errors else "-"


def answered_lines(questions: Sequence[Question], tools: Sequence[str]) -> Iterator[str]:
    """How many questions each tool answers."""
    nums = [sum(any(q.answers.get(tool, {}).get(name) for name in TITLES) for q in questions) for tool in tools]
    yield table_row("Answered", len(questions), [f"{num / len(questions):.0%}" for num in nums])
    warned = sum(bool(q.answers[OTHER].get("remark")) for q in questions)
    yield table_row("  with a memory warning", "", [str(warned)])


def seconds_lines(seconds: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Seconds per answer, both tools."""
    yield f"{'Seconds per answer':<44}{OTHER:>16}{'gpufleet':>16}"
    for way in seconds[OTHER]:
        yield f"  {way:<42}{seconds[OTHER][way]:>16.4f}{seconds[SHIPPED][way]:>16.4f}"


def refusal_lines(questions: Sequence[Question]) -> Iterator[str]:
    """Why there is no answer, the most frequent reason first."""
    for tool in (OTHER, SHIPPED):
        reasons = Counter(str(q.answers[tool]["reason"])[:70] for q in questions if q.answers[tool].get("reason"))
        yield f"Not answered by {'gpufleet' if tool == SHIPPED else tool}: {sum(reasons.values())}"
        yield from (f"  {num:>3} x {reason}" for reason, num in reasons.most_common())


def group_lines(questions: Sequence[Question], tools: Sequence[str]) -> Iterator[str]:
    """Signed median error of each group, where every tool answers, and which tool is nearer to the measurement."""
    yield "Signed median error, %; who has the smaller median |error| (our last column)"
    names = ["aiconf.", "shipped", "left out"][: len(tools)]
    yield f"{'model':<16}{'GPU':<5}{'engine':<7}{'fmt':<5}{'':<5}{'n':>3}" + "".join(f"{n:>10}" for n in names)
    for group in sorted({q.group for q in questions}):
        rows = [q for q in questions if q.group == group]
        for quantity, title in zip(TITLES, ("TPOT", "TTFT", "rate"), strict=True):
            found = [[q.error_percent(tool, quantity) for tool in tools] for q in rows]
            errors = np.array([errors for errors in found if None not in errors], dtype=np.float64)
            if len(errors):
                label = "{:<16}{:<5}{:<7}{:<5}".format(*group) + f"{title:<5}{len(errors):>3}"
                cells = "".join(f"{value:>+10.1f}" for value in np.median(errors, axis=0))
                yield label + cells + f"{nearer(errors):>9}"


def nearer(errors: np.ndarray) -> str:
    """Who has the smaller median error; gpufleet is judged by its last column."""
    size = np.median(np.abs(errors), axis=0)
    return "aiconf." if size[0] < size[-1] else "gpufleet"


def write_csv(path: Path, questions: Sequence[Question], tools: Sequence[str]) -> None:
    """One line per question: what was asked, measured and answered, and the seconds that it took."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        rows = [csv_row(q, tools) for q in questions]
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def csv_row(q: Question, tools: Sequence[str]) -> dict[str, object]:
    text = q.row.text
    layout = layout_of(q.row, backend_of(q.row))
    found: dict[str, object] = {
        "file": f"{q.kind}.csv",
        "line": q.row.line,
        "model_id": q.model,
        "kind": q.kind_of_model,
        "gpu_id": text("gpu_id"),
        "engine": text("engine"),
        "engine_version": text("engine_version"),
        "precision": text("precision", "precision_weights"),
        "tp": layout.tp,
        "pp": layout.pp,
        "ep": layout.ep,
        "attention_dp": layout.attention_dp,
        "scenario": text("scenario") or "closed_loop",
        "isl": text("isl"),
        "osl": text("osl"),
        "concurrency": text("concurrency", "batch_or_concurrency"),
        "aiconfigurator_database": q.answers[OTHER].get("version"),
        "aiconfigurator_remark": q.answers[OTHER].get("remark"),
    }
    for quantity, column in COLUMN_OF.items():
        found[f"measured_{column}"] = text(column)
        found |= {f"{tool}_{column}": q.answers.get(tool, {}).get(quantity) for tool in tools}
    for tool in (OTHER, SHIPPED):
        found |= {f"{tool}_seconds": q.answers[tool]["seconds"], f"{tool}_reason": q.answers[tool].get("reason")}
    return found


if __name__ == "__main__":
    sys.exit(main())
