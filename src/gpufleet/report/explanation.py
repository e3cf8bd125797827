"""An explanation as tables: each step by operation, what makes a latency of it, and what would be faster."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.report.numbers import amount, count, percent, ranged_duration, several, significant
from gpufleet.report.page import Column, Columns, Row, Table, column, number
from gpufleet.results.base import ExplainedTerm
from gpufleet.results.estimate import Change, ExplainedOperation, ExplainedStep, Explanation, TriedChange
from gpufleet.units import GB as GIGABYTE
from gpufleet.units import GIGA, KB, MB, MEGA, MICROSECOND, MILLISECOND, PERCENT, TB, TERA

LEAST_SHOWN = 0.5
CURVES = {"measured": "{}", "transferred": "from {}", "roofline": "roofline, as {}", "seed rule": "rule, as {}"}
BOUNDS = (
    "bound: what sets the time: arithmetic (compute), memory (bandwidth), the link between GPUs, or the latency of a "
    "kernel too small for any of them."
)
GOALS = {
    "TPOT": "TPOT",
    "latency": "latency to the last token, as clients wait for a slot",
    "throughput per GPU": "tokens/s per GPU, as the queue never empties",
}
ALONE = "Each change is applied alone, under the same load; percentages are relative to the setup asked about."
CURVE_NOTE = "curve: the GPU and format whose kernels were measured; 'from': lent by another GPU or format."


def explanation_tables(explanation: Explanation, num_gpus: int, stages: int) -> list[Table]:
    """The decode step, TPOT, the prefill, TTFT, and the changes."""
    decode, prefill = explanation.decode, explanation.prefill
    where = gpus_of_a_step(num_gpus, stages)
    context = f"at a mean context of {count(decode.decode_context_tokens)} tokens"
    prompts = f"{several(prefill.prompts, 'prompt')} of {count(prefill.prompt_tokens)} tokens"
    return [
        operations_table(decode, f"Decode step on {where}: {several(decode.decoding, 'sequence')} {context}"),
        account_table(decode),
        operations_table(prefill, f"Prefill on {where}: {prompts}"),
        account_table(prefill),
        changes_table(explanation),
    ]


def gpus_of_a_step(num_gpus: int, stages: int) -> str:
    """The GPUs whose time is shown: each does all layers, or those of its stage, of which one follows the other.

    >>> gpus_of_a_step(1, 1), gpus_of_a_step(4, 1), gpus_of_a_step(4, 2), gpus_of_a_step(4, 4)
    ('the GPU', 'each of 4 GPUs', '2 stages of 2 GPUs, summed', '4 stages of 1 GPU, summed')
    """
    if stages == 1:
        return "the GPU" if num_gpus == 1 else f"each of {num_gpus} GPUs"
    return f"{stages} stages of {several(num_gpus // stages, 'GPU')}, summed"


def operations_table(step: ExplainedStep, title: str) -> Table:
    """Microseconds of every operation in the whole step, its formula in numbers below it."""
    columns: Columns[ExplainedOperation] = [
        column("operation", lambda o: o.name, wraps=True),
        number("µs", lambda o: microseconds(o.seconds)),
        number("share", lambda o: share(o.share_ratio)),
        column("bound", lambda o: o.bound),
        column("curve", lambda o: CURVES[o.grade].format(o.curve), wraps=True),
        column("formula", formula, below=True),
    ]
    table = Table.of(step.operations, columns, title, [BOUNDS, CURVE_NOTE] if step.total == "TPOT" else [])
    return with_last_row(table, "all kernels", microseconds(step.kernels_s), "100%", "", "", "")


def with_last_row(table: Table, *cells: object) -> Table:
    """A table with one row more."""
    last = zip((column.key for column in table.columns), cells, strict=True)
    return replace(table, rows=[*table.rows, dict(last)])


OPERATION_COLUMNS = (
    "step", "name", "kernel", "shape", "count", "seconds_each", "seconds", "share_ratio", "flop", "moved_bytes",
    "over_link", "peak_flop_per_s", "bytes_per_s", "roofline_s", "fixed_s", "slowdown_ratio", "bound", "grade", "curve",
)  # fmt: skip


def operation_rows_table(explanation: Explanation) -> Table:
    """The operations of both steps with all their figures: what a CSV of an explained estimate holds."""
    steps = {"decode": explanation.decode, "prefill": explanation.prefill}
    rows: list[Row] = [
        {**operation.model_dump(), "step": name, "shape": shape(operation)}
        for name, step in steps.items()
        for operation in step.operations
    ]
    return Table([Column(key, key, where="data") for key in OPERATION_COLUMNS], rows)


def share(ratio: float) -> str:
    """A share in whole percent; what is less than one is not nothing.

    >>> share(0.47), share(0.002)
    ('47%', '<1%')
    """
    return "<1%" if 0 < ratio * PERCENT < LEAST_SHOWN else percent(ratio)


def microseconds(seconds: float) -> str:
    """A time in microseconds, without its unit.

    >>> microseconds(0.0055341), microseconds(1.234e-6)
    ('5,534', '1.23')
    """
    return significant(seconds / MICROSECOND)


def formula(operation: ExplainedOperation) -> str:
    """count x seconds each: (work at peak + fixed) x slowdown, with the numbers put in; and the shape."""
    o = operation
    once = f"({work(o)} + {amount(o.fixed_s / MICROSECOND)} µs) x {o.slowdown_ratio:.2f}"
    return f"{o.count} x {microseconds(o.seconds_each)} µs: {once}; {shape(o)}"


def work(operation: ExplainedOperation) -> str:
    """What takes longest at peak: arithmetic, memory or link."""
    o = operation
    if o.peak_flop_per_s and o.flop / o.peak_flop_per_s >= o.roofline_s:
        return f"{scaled(o.flop, 'flop')} / {significant(o.peak_flop_per_s / TERA)} Tflop/s"
    return f"{scaled(o.moved_bytes, 'B')} / {scaled(o.bytes_per_s, 'B')}/s"


def scaled(number: float, unit: str) -> str:
    """A quantity with the prefix that leaves one to three digits before the point.

    >>> scaled(119.5e6, "B"), scaled(15.03e9, "flop")
    ('120 MB', '15.0 Gflop')
    """
    prefixes = {"B": ((TB, "T"), (GIGABYTE, "G"), (MB, "M"), (KB, "k"))}
    steps = prefixes.get(unit, ((TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KB, "k")))
    size, prefix = next(((size, prefix) for size, prefix in steps if number >= size), (1.0, ""))
    return f"{significant(number / size)} {prefix}{unit}"


def shape(operation: ExplainedOperation) -> str:
    """The dimensions of one run: a product as its two matrices, anything else by the names of its dimensions."""
    size = operation.shape
    if {"m", "n", "k"} <= set(size):
        m, n, k = (dimension(size[name]) for name in "mnk")
        return f"[{m} x {k}] [{k} x {n}]"
    named = (scaled(value, "B") if label == "bytes" else f"{label} {dimension(value)}" for label, value in size.items())
    return ", ".join(named)


def dimension(number: float) -> str:
    """A dimension as engineers write it: whole, without separators.

    >>> dimension(8192.0), dimension(222.4)
    ('8192', '222.4')
    """
    return f"{number:.0f}" if number == round(number) else f"{number:.1f}"


def account_table(step: ExplainedStep) -> Table:
    """How kernel time becomes a latency: the parts, summing to it; in milliseconds from a second on.

    Below it how far a prompt of another request stretches a step.
    """
    unit, scale = ("µs", MICROSECOND) if step.total_s < 1 else ("ms", MILLISECOND)
    columns: Columns[ExplainedTerm] = [
        column(f"what makes the {step.total}", lambda part: part.name),
        number(unit, lambda part: significant(part.value / scale)),
        number("share", lambda part: share(part.value / step.total_s)),
        column("as", lambda part: part.formula, wraps=True),
    ]
    gap = step.longest
    stretched = [] if gap is None else [f"{significant(gap.value / MILLISECOND)} ms = {gap.formula}."]
    table = Table.of(step.parts, columns, notes=[f"Longest gap between tokens: {said}" for said in stretched])
    return with_last_row(table, step.total, significant(step.total_s / scale), "100%", "")


def changes_table(explanation: Explanation) -> Table:
    """What would be faster, and what it takes; below it the changes that gain less, or nothing."""
    is_latency = explanation.goal == "latency"

    def time(change: Change) -> str:
        figure, ratio = (change.latency_s, change.latency_ratio) if is_latency else (change.tpot_s, change.tpot_ratio)
        return f"{ranged_duration(figure.value, figure.low, figure.high)} {against(ratio)}"

    def rate(change: Change) -> str:
        each = significant(change.output_tokens_per_s_per_gpu.value)
        return f"{each} {against(change.throughput_per_gpu_ratio)}"

    columns: Columns[Change] = [
        column("change", lambda change: change.name, wraps=True),
        number("latency" if is_latency else "TPOT", time),
        number("tokens/s per GPU", rate),
        column("takes", lambda change: change.cost, wraps=True),
    ]
    shown = {change.name for change in explanation.changes}
    others = [f"{c.name} {against(goal_ratio(c, explanation.goal))}" for c in explanation.tried if c.name not in shown]
    notes = [*([f"Also tried: {', '.join(others)}."] if others else []), ALONE]
    title = f"To be faster, by {GOALS[explanation.goal]}"
    return Table.of(explanation.changes, columns, title, notes, empty="No change gains 2%.")


def goal_ratio(change: Change | TriedChange, goal: str) -> float:
    """The figure that counts, as a ratio to what it is."""
    ratios = {"TPOT": change.tpot_ratio, "latency": change.latency_ratio}
    return ratios.get(goal, change.throughput_per_gpu_ratio)


def against(ratio: float) -> str:
    """A ratio as the difference to what is.

    >>> against(0.67), against(1.4), against(1.0)
    ('-33%', '+40%', '+0%')
    """
    return f"{(ratio - 1) * PERCENT:+.0f}%".replace("-0%", "+0%")
