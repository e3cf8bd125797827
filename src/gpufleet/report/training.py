"""The words of a page of training: what is trained, in which layout, and what a step is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from gpufleet.report.job_page import (
    JobWords,
    OwnColumns,
    OwnReasons,
    dearer_spot,
    evidence,
    job_page,
    job_rows_page,
    played_lines,
)
from gpufleet.report.numbers import amount, count, duration, percent, plural, significant, usd
from gpufleet.report.page import Column, Row, Table, lines_table
from gpufleet.report.ranges import ranged_figure
from gpufleet.report.rented import machines
from gpufleet.report.training_memory import host_text, memory_table, terms_table
from gpufleet.results.training import TrainingDeployment, TrainingLayout, TrainingPlan, TrainingSpeed
from gpufleet.units import GIB, MIB, MILLISECOND, PERCENT

TERMS = {
    "products": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise kernels",
    "output_head": "output head and loss",
    "recompute": "computing again",
    "tensor_parallel": "waiting for TP",
    "context_parallel": "waiting for CP",
    "expert_parallel": "waiting for EP",
    "adapters": "adapters, widening of weights",
    "host": "launching kernels",
    "uneven_stages": "uneven stages",
    "stage_traffic": "waiting between stages",
    "bubble": "pipeline bubble",
    "data_parallel": "waiting for DP",
    "optimizer": "optimizer",
    "offload": "waiting for the host",
}
STEP_FORMULAS = (
    ("step", "micro-batches x slowest stage + (PP - 1) / interleave x mean stage + what DP, optimizer and host leave"),
    ("products", "measured kernels forward, for the gradients of inputs and of weights, x what long runs sustain"),
)
RUN_FORMULAS = (
    (
        "days",
        "M exp(R / M) (exp((interval + write) / M) - 1) work / interval; M: mean time between failures (Daly 2006)",
    ),
    ("cost", "machines x $/h x paid time; waits for spot machines are not paid"),
    ("energy", "GPUs x board power x share of it that training draws x paid time; not of the host"),
)
MEASURES = (
    (
        "MFU",
        "tokens/s x (6 x active weights, 4 x where they are frozen, + attention over causal pairs) / dense peak of "
        "16 bits, as in PaLM (arXiv:2204.02311, appendix B); nothing that is computed again counts",
    ),
    ("HFU", "the same with what is computed again counted too"),
)
FORMULAS = (*STEP_FORMULAS, *RUN_FORMULAS, *MEASURES)
LEAST_SHARE, WORTH_SAYING_RATIO = 0.001, 0.01
SCREEN_ROWS, DOUBTFUL_RATIO = 4, 2.0
NARROW = ("fp8", "nvfp4")
WHOLE_GPU_HOURS = 10


def asked_text(plan: TrainingPlan) -> str:
    """What is trained."""
    names = {"full": "all weights of", "lora": "LoRA of", "qlora": "QLoRA of"}
    return f"{names[plan.method]} {plan.model} on {tokens_text(plan.tokens)} tokens"


def tokens_text(tokens: float) -> str:
    """Tokens as people say them: 2T, 50M.

    >>> tokens_text(2e12), tokens_text(50e6), tokens_text(123456)
    ('2T', '50M', '123k')
    """
    for size, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{suffix}"
    return f"{tokens:.0f}"


def work_text(plan: TrainingPlan) -> str:
    """How much work it is."""
    d = plan.answer
    return (
        f"{count(d.steps)} steps of {plan.global_batch:,} sequences of {amount(plan.sequence_tokens)} tokens, "
        f"{plan.precision}, {plan.optimizer}"
    )


def reasons(plan: TrainingPlan) -> OwnReasons:
    """Layout, step and speed, then steps, tokens of one, GPU-hours and what one costs."""
    d = plan.answer
    step_tokens = tokens_text(plan.global_batch * plan.sequence_tokens)
    each = usd(d.usd.value / d.gpu_hours.value)
    work = f"{count(d.steps)} steps of {step_tokens} tokens; {gpu_hours_text(d.gpu_hours.value)} at {each} each."
    return OwnReasons(layout_line(plan, d), step_line(d), ranged_figure(d.tokens_per_s, "tokens/s"), [work])


def layout_line(plan: TrainingPlan, d: TrainingDeployment) -> str:
    """How the work is laid out, and what memory that takes."""
    x = d.layout
    idle = "" if not d.idle_gpus else f"; {plural(d.idle_gpus, 'GPU')} idle"
    total, room = d.memory.total_bytes, d.memory.device_bytes
    verdict = plan.memory_verdict if d is plan.answer else d.memory.verdict
    host = f", host memory {host_text(d.memory)}" if d.memory.host_bytes else ""
    return (
        f"{x.label}, micro-batch {x.micro_batch:g} x {x.num_micro_batches:g}, recompute {x.recompute}; "
        f"{total.value / GIB:.1f} of {room / GIB:.1f} GiB ({verdict}){host}{idle}."
    )


def again_words(layout: TrainingLayout) -> str:
    """What the backward pass computes again."""
    return {"none": "nothing", "selective": "attention", "full": "all layers"}[layout.recompute]


def step_line(d: TrainingDeployment) -> str:
    """A step, what it waits for beside useful work, and how well GPUs are used, of which peak where that is unusual."""
    waits = {name: seconds for name, seconds in d.speed.exposed_s.items() if name not in USEFUL}
    largest = max(waits, key=lambda name: waits[name], default="")
    step = d.speed.step_s.value
    lost = f", {percent(waits[largest] / step)} of it {TERMS[largest]}" if waits and waits[largest] > 0 else ""
    rate = ranged_figure(d.speed.tokens_per_s_per_gpu, "tokens/s/GPU")
    of_peak = " of the 16-bit peak" if d.weight_format.startswith(NARROW) else ""
    return f"A step takes {duration(step)}{lost}: {rate}, MFU {d.speed.mfu_ratio * PERCENT:.0f}%{of_peak}."


def gpu_hours_text(hours: float) -> str:
    """GPU-hours; of small jobs with their digits.

    >>> gpu_hours_text(12_345.6), gpu_hours_text(0.0412)
    ('12,346 GPU-hours', '0.0412 GPU-hours')
    """
    return f"{count(hours) if hours >= WHOLE_GPU_HOURS else significant(hours)} GPU-hours"


def own_columns(plan: TrainingPlan) -> OwnColumns:
    """Layouts, and figures of tokens."""
    return OwnColumns(
        data=(*LAYOUT_COLUMNS, "steps", "failures", "checkpoint_interval_s", "checkpoint_write_s"),
        figures=("tokens_per_s", "gpu_hours", "usd_per_million_tokens", "energy_kwh"),
        replicas=[d.layout.short_label for d in plan.deployments],
        unit_cost=[usd(d.usd_per_million_tokens.value) for d in plan.deployments],
        shape_header="layout",
        varied=(),
        says_reclaimed=False,
        cells=[layout_cells(d) for d in plan.deployments],
    )


LAYOUT_COLUMNS = ("layout", "micro_batch", "num_micro_batches", "recompute", "mfu_ratio", "hfu_ratio", "total_bytes")


def layout_cells(d: TrainingDeployment) -> Row:
    """The layout of a row in cells of a file."""
    x, speed = d.layout, d.speed
    return {
        "layout": x.label,
        "micro_batch": x.micro_batch,
        "num_micro_batches": x.num_micro_batches,
        "recompute": x.recompute,
        "mfu_ratio": speed.mfu_ratio,
        "hfu_ratio": speed.hfu_ratio,
        "total_bytes": d.memory.total_bytes.value,
    }


def started(plan: TrainingPlan) -> list[Table]:
    """Failures, checkpoints, and whether spot or more machines are worth it."""
    lines = [*failure_lines(plan), *spot_lines(plan), *played_lines(plan.answer), *faster_lines(plan)]
    return [lines_table("Failures, spot and speed", lines)]


def failure_lines(plan: TrainingPlan) -> list[str]:
    """How often the run stops, and what checkpoints take; a played run has stops and checkpoints of its own."""
    d = plan.answer
    if d.played is not None:
        return [f"A checkpoint of {checkpoint_text(plan)} takes {duration(d.checkpoint_write_s)}."]
    often = f"{significant(d.failures, 2)} stops expected" if d.failures >= 0.01 else "No stop expected"
    every = (
        "one at the end" if d.checkpoint_interval_s >= d.work_s else f"one every {duration(d.checkpoint_interval_s)}"
    )
    lost = f"; {percent(d.repeated_ratio)} of the time is lost to them, restarts and repeated work"
    taken = f"checkpoints of {checkpoint_text(plan)} take {duration(d.checkpoint_write_s)}, {every}"
    return [f"{often}; {taken}{lost if d.repeated_ratio >= WORTH_SAYING_RATIO else ''}."]


def spot_lines(plan: TrainingPlan) -> list[str]:
    """Whether spot is worth it."""
    d, steady = plan.answer, plan.steady
    if d.price_kind != "spot":
        return dearer_spot(plan)
    if steady is None:
        return ["No other kind of price was asked about, or none is in time."]
    if (d.usd.high or d.usd.value) > DOUBTFUL_RATIO * d.usd.value:
        return [
            f"Spot is a gamble: it may cost {usd(d.usd.high)}; {machines(steady)} "
            f"{steady.price_kind.replace('_', ' ')} {usd(steady.usd.value)}."
        ]
    saved = 1 - d.usd.value / steady.usd.value
    longer = d.finish_s.value - steady.finish_s.value
    steadily = f"{machines(steady)} {steady.price_kind.replace('_', ' ')}"
    return [
        f"Spot is worth it (reclaimed: {evidence(d)}): {percent(saved)} less than {steadily} at "
        f"{usd(steady.usd.value)}, {'later' if longer > 0 else 'sooner'} by {duration(abs(longer))}."
    ]


def faster_lines(plan: TrainingPlan) -> list[str]:
    """The soonest way, where another is."""
    d, x = plan.answer, plan.faster
    if x is None or x.finish_s.value >= 0.9 * d.finish_s.value:
        return []
    doubt = " if its speed, which nobody measured, holds" if x.grade == "roofline" != d.grade else ""
    return [
        f"Sooner: {machines(x)} {x.price_kind.replace('_', ' ')} in {duration(x.finish_s.value)} "
        f"for {usd(x.usd.value)}{doubt}."
    ]


def step_table(speed: TrainingSpeed) -> Table:
    """Exposed time of a step by cause, the largest first; shares of all causes are all of it."""
    columns = [
        Column("name", "a step's time"),
        Column("ms", "ms", align="right"),
        Column("share", "share", align="right"),
    ]
    step = speed.step_s.value
    ordered = sorted(speed.exposed_s.items(), key=lambda item: -item[1])
    parts = [(TERMS[name], seconds) for name, seconds in ordered if seconds >= LEAST_SHARE * step]
    rest = sum(seconds for _, seconds in ordered if seconds < LEAST_SHARE * step)
    parts += [("less than 0.1% each", rest)] if milliseconds(rest).strip("-") != "0.0" else []
    shares = whole_shares([seconds for _, seconds in parts])
    rows = [(name, milliseconds(seconds), share) for (name, seconds), share in zip(parts, shares, strict=True)]
    return Table.of_cells(columns, [*rows, ("step", milliseconds(step), "100.0%")], "A step")


def milliseconds(seconds: float) -> str:
    """Milliseconds to a tenth."""
    return f"{seconds / MILLISECOND:,.1f}"


def whole_shares(parts: Sequence[float]) -> list[str]:
    """Shares to a tenth of a percent that add up to a hundred: the largest remainders are rounded up.

    >>> whole_shares([1.0, 1.0, 1.0])
    ['33.4%', '33.3%', '33.3%']
    """
    tenths = [part / sum(parts) * PERCENT * 10 for part in parts]
    left = round(PERCENT * 10 - sum(math.floor(each) for each in tenths))
    raised = sorted(range(len(parts)), key=lambda i: math.floor(tenths[i]) - tenths[i])[:left]
    return [f"{(math.floor(each) + (i in raised)) / 10:.1f}%" for i, each in enumerate(tenths)]


def run_table(plan: TrainingPlan) -> Table:
    """What a run takes beside money, and how well GPUs are used."""
    d = plan.answer
    columns = [Column("name", "the run"), Column("value", "expected (80% range)", align="right")]
    rows = [
        ("GPU-hours paid", ranged_figure(d.gpu_hours, "")),
        ("energy of the GPUs", "unknown" if d.energy_kwh is None else ranged_figure(d.energy_kwh, "kWh")),
        ("checkpoint", checkpoint_text(plan)),
        ("tokens/s", ranged_figure(d.tokens_per_s, "")),
        ("MFU (model FLOP, dense 16-bit peak)", f"{d.speed.mfu_ratio * PERCENT:.1f}%"),
        ("HFU (what is computed again too)", f"{d.speed.hfu_ratio * PERCENT:.1f}%"),
    ]
    return Table.of_cells(columns, rows)


def checkpoint_text(plan: TrainingPlan) -> str:
    """The size of a checkpoint."""
    size = plan.checkpoint_bytes
    return f"{size / GIB:,.1f} GiB" if size >= GIB else f"{size / MIB:,.0f} MiB"


def unmet_text(plan: TrainingPlan) -> str:
    """How many GPUs would meet a deadline that nothing asked for meets."""
    if math.isinf(plan.deadline_s):
        return ""
    if plan.least_gpus is None:
        return f"No number of GPUs meets it with {plan.global_batch:,.0f} sequences a step (--batch)."
    return f"At least {plural(plan.least_gpus, 'GPU')} of any type on offer meet it."


USEFUL = ("products", "attention", "output_head", "elementwise")
WORDS = JobWords[TrainingPlan](
    asked_text,
    work_text,
    lambda plan: (plan.answer.usd_per_million_tokens.value, "per 1M tokens"),
    lambda plan: {"$/1M tokens": plan.answer.usd_per_million_tokens},
    reasons,
    own_columns,
    FORMULAS,
    started,
    spot_or_not=lambda _: [],
    limits=lambda plan: [run_table(plan), step_table(plan.answer.speed), memory_table(plan.answer.memory)],
    terms=lambda plan: [terms_table(plan.answer.memory)] if plan.deployments else [],
    unmet=unmet_text,
    does="train",
    screen_rows=SCREEN_ROWS,
)
training_page, training_rows = partial(job_page, words=WORDS), partial(job_rows_page, words=WORDS)
