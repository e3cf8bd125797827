"""The words of a page of training: what is trained, in which layout, and what a step is made of."""

from __future__ import annotations

from gpufleet.report.job_page import JobWords, OwnColumns, OwnReasons, ranged_figure
from gpufleet.report.numbers import amount, count, duration, percent, plural, significant, usd
from gpufleet.report.page import Column, Row, Table, lines_table
from gpufleet.report.rented import machines
from gpufleet.results.base import Figure
from gpufleet.results.training import TrainingDeployment, TrainingPlan, TrainingSpeed
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
FORMULAS = (
    ("step", "micro-batches x slowest stage + (PP - 1) / interleave x mean stage + what DP, optimizer and host leave"),
    ("products", "measured kernels forward, for the gradients of inputs and of weights, x what long runs sustain"),
    (
        "days",
        "M exp(R / M) (exp((interval + write) / M) - 1) work / interval; M: mean time between failures (Daly 2006)",
    ),
    ("cost", "machines x $/h x paid time; waits for spot machines are not paid"),
    ("MFU", "6 x active weights and attention over causal pairs, / dense peak of 16 bits; HFU counts computing again"),
)


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


def unit_cost(plan: TrainingPlan) -> tuple[float, str]:
    """What a million tokens cost."""
    return plan.answer.usd_per_million_tokens.value, "per 1M tokens"


def unit_costs(plan: TrainingPlan) -> dict[str, Figure | None]:
    """What tokens cost, and GPU-hours and energy."""
    d = plan.answer
    return {"$/1M tokens": d.usd_per_million_tokens}


def reasons(plan: TrainingPlan) -> OwnReasons:
    """Layout, step and speed, and whether spot is worth it."""
    d = plan.answer
    return OwnReasons(layout_line(plan, d), step_line(d), ranged_figure(d.tokens_per_s, "tokens/s"))


def layout_line(plan: TrainingPlan, d: TrainingDeployment) -> str:
    """How the work is laid out, and what memory that takes."""
    x = d.layout
    again = {"none": "nothing", "selective": "attention", "full": "all layers"}[x.recompute]
    idle = "" if not d.idle_gpus else f"; {plural(d.idle_gpus, 'GPU')} idle"
    total, room = d.memory.total_bytes, d.memory.device_bytes
    return (
        f"{x.label}, micro-batch {x.micro_batch:g} x {x.num_micro_batches:g}, computes {again} again; "
        f"{total.value / GIB:.1f} of {room / GIB:.1f} GiB a GPU ({d.memory.verdict}){idle}."
    )


def step_line(d: TrainingDeployment) -> str:
    """A step, what it waits for, and how well GPUs are used."""
    waits = waiting(d.speed)
    largest = max(waits, key=lambda name: waits[name], default="")
    step = d.speed.step_s.value
    lost = f", {percent(waits[largest] / step)} of it {TERMS[largest]}" if waits and waits[largest] > 0 else ""
    rate = d.speed.tokens_per_s_per_gpu
    return (
        f"A step takes {duration(step)}{lost}: {ranged_figure(rate, 'tokens/s/GPU')}, "
        f"MFU {d.speed.mfu_ratio * PERCENT:.0f}%."
    )


def waiting(speed: TrainingSpeed) -> dict[str, float]:
    """What of a step is not products, attention and the head."""
    useful = ("products", "attention", "output_head", "elementwise")
    return {name: seconds for name, seconds in speed.exposed_s.items() if name not in useful}


def own_columns(plan: TrainingPlan) -> OwnColumns:
    """Layouts, and figures of tokens."""
    return OwnColumns(
        data=("steps", "failures", "checkpoint_interval_s", "checkpoint_write_s"),
        figures=("tokens_per_s", "gpu_hours", "usd_per_million_tokens"),
        replicas=[d.layout.label for d in plan.deployments],
        unit_cost=[usd(d.usd_per_million_tokens.value) for d in plan.deployments],
    )


def started(plan: TrainingPlan) -> list[Table]:
    """Failures, checkpoints, and whether spot or more machines are worth it."""
    return [lines_table("Failures, spot and speed", [*failure_lines(plan), *spot_lines(plan), *faster_lines(plan)])]


def failure_lines(plan: TrainingPlan) -> list[str]:
    """How often the run stops, and what checkpoints take."""
    d = plan.answer
    often = f"{significant(d.failures, 2)} stops expected" if d.failures >= 0.01 else "No stop expected"
    every = (
        "one at the end" if d.checkpoint_interval_s >= d.work_s else f"one every {duration(d.checkpoint_interval_s)}"
    )
    size = plan.checkpoint_bytes
    written = f"{size / GIB:,.1f} GiB" if size >= GIB else f"{size / MIB:,.0f} MiB"
    return [
        f"{often}; checkpoints of {written} take {duration(d.checkpoint_write_s)}, {every}; "
        f"{percent(d.repeated_ratio)} of the time is lost to them, restarts and repeated work."
    ]


def spot_lines(plan: TrainingPlan) -> list[str]:
    """Whether spot is worth it."""
    d, steady = plan.answer, plan.steady
    if d.price_kind != "spot":
        return [] if not any(x.price_kind == "spot" for x in plan.deployments) else ["Spot is not worth it: dearer."]
    if steady is None:
        return ["Only spot does it."]
    saved = 1 - d.usd.value / steady.usd.value
    longer = d.finish_s.value - steady.finish_s.value
    return [
        f"Spot is worth it: {percent(saved)} less than {machines(steady)} {steady.price_kind.replace('_', ' ')} at "
        f"{usd(steady.usd.value)}, {'later' if longer > 0 else 'sooner'} by {duration(abs(longer))}."
    ]


def faster_lines(plan: TrainingPlan) -> list[str]:
    """The soonest way, where another is."""
    d, x = plan.answer, plan.faster
    if x is None or x.finish_s.value >= 0.9 * d.finish_s.value:
        return []
    return [
        f"Sooner: {machines(x)} {x.price_kind.replace('_', ' ')} in {duration(x.finish_s.value)} "
        f"for {usd(x.usd.value)}."
    ]


def step_table(speed: TrainingSpeed) -> Table:
    """Exposed seconds of a step by cause."""
    columns = [
        Column("name", "a step's time"),
        Column("ms", "ms", align="right"),
        Column("share", "share", align="right"),
    ]
    step = speed.step_s.value
    rows: list[Row] = [
        {"name": TERMS[name], "ms": f"{seconds / MILLISECOND:,.1f}", "share": percent(seconds / step)}
        for name, seconds in sorted(speed.exposed_s.items(), key=lambda item: -item[1])
        if seconds >= step / 1000
    ]
    return Table(columns, rows, "A step")


WORDS = JobWords(
    asked_text, work_text, unit_cost, unit_costs, reasons, own_columns, FORMULAS, started, hazards=lambda *_: []
)
