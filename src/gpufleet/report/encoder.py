"""The answer of `gpufleet encode` as a page: latency, throughput and memory of an encoder, and what takes its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet import units
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    gib,
    percent,
    ranged,
    significant,
    usd_per_hour,
)
from gpufleet.report.page import Columns, Page, Table, column, lines_table, number
from gpufleet.report.ranges import FIGURE_COLUMNS, figure_row, ranged_time
from gpufleet.report.ranges import ranged_figure as rate_text
from gpufleet.report.search import plain_inputs_table
from gpufleet.report.words import grade_line
from gpufleet.results.base import ExplainedTerm, Figure
from gpufleet.results.encoders import EncoderEstimate

if TYPE_CHECKING:
    from gpufleet.results.encoders import EncoderBatchPlan, EncoderServePlan

PLURALS = {"sequence": "sequences", "image": "images", "window of audio": "windows of audio", "audio": "recordings"}


def input_text(unit: str, input_tokens: float, output_tokens: float | None, audio_s: float | None) -> str:
    """One input in words, without its name.

    >>> input_text("sequence", 128, None, None), input_text("image", 257, None, None)
    (' of 128 tokens', '')
    """
    written = "" if output_tokens is None else f", {amount(output_tokens)} tokens written for each"
    if audio_s is not None:
        return f" of {duration(audio_s)}{written}{' window' if written else ''}"
    return f" of {amount(input_tokens)} tokens{written}" if unit == "sequence" else written


def unit_of(plan: EncoderBatchPlan | EncoderServePlan) -> str:
    """What the cost of a plan is compared by, in words: a million inputs, or an hour of audio."""
    return f"per 1M {PLURALS[plan.unit]}" if plan.answer.usd_per_hour_of_audio is None else "per hour of audio"


def encoder_page(result: EncoderEstimate, *, explain: bool = False) -> Page:
    """Headline, what binds, figures; on request the seconds of a pass by operator and the inputs."""
    held = [figures_table(result), *launch_tables(result.launch)] if result.is_held else []
    inputs = plain_inputs_table(result.inputs, may_origin_wrap=True)
    explained = [terms_table(result), inputs] if explain else []
    notes = [f"{note.rstrip('.')}." for note in result.notes]
    return Page(headline(result), [why_table(result), *held, *explained], notes)


def encoder_rows_page(result: EncoderEstimate) -> Page:
    """The figures alone: what a CSV holds."""
    return Page(headline(result), [figures_table(result)])


def headline(result: EncoderEstimate) -> str:
    """What runs where, and how fast, in one sentence."""
    r = result
    where = f"{r.model} in {r.weight_format} on {r.num_gpus}x {r.gpu} with {r.engine}, {batch_text(r)}"
    if not r.is_held:
        return f"{where}: does not fit, at most {count(r.largest_batch)} at once."
    rate = f"{rate_text(r.inputs_per_s)} {PLURALS[r.unit]}/s"
    if r.audio_s_per_s is not None:
        rate = f"{rate_text(r.audio_s_per_s)} s of audio/s"
    return f"{where}: {rate}, latency {ranged_time(r.latency_s)}."


def batch_text(result: EncoderEstimate) -> str:
    """The batch and the size of one input."""
    unit = result.unit if result.batch == 1 else PLURALS[result.unit]
    answer = "" if result.output_tokens is None else f", {amount(result.output_tokens)} written for each"
    return f"batch of {count(result.batch)} {unit} of {amount(result.tokens_per_input)} tokens{answer}"


def why_table(result: EncoderEstimate) -> Table:
    """Limit, memory, model and grade, a line each."""
    total_s = sum(term.value for term in result.terms)
    share = result.terms[0].value / total_s if total_s > 0 else None
    memory = result.memory_bytes
    lines = [
        f"Binding limit: {result.binding_limit}, {percent(share)} of the time of a pass.",
        f"Memory: {result.verdict}; {ranged(memory.value, memory.low, memory.high, 'GiB', units.GIB)} of "
        f"{gib(result.device_bytes)}, room for a batch of {count(result.largest_batch)}.",
        f"Model: {result.kind}, {count(result.num_parameters)} parameters, "
        f"{significant(result.flop_per_input / units.GIGA)} GFLOP for one {result.unit}.",
        grade_line(result.grade),
    ]
    return lines_table("Why", lines)


def figures_table(result: EncoderEstimate) -> Table:
    """Latency and rates with their ranges; USD for a million inputs, or for an hour of audio."""
    rows = [figure_row(latency_name(result), result.latency_s, ranged_time(result.latency_s))]
    rows.append(figure_row(f"{PLURALS[result.unit]}/s", result.inputs_per_s, rate_text(result.inputs_per_s)))
    if result.audio_s_per_s is not None and result.real_time_factor is not None:
        rows.append(figure_row("s of audio/s", result.audio_s_per_s, rate_text(result.audio_s_per_s)))
        rows.append(figure_row("real-time factor of one GPU", result.real_time_factor, shown(result.real_time_factor)))
    cost, unit = result.usd_per_million_inputs, f"a million {PLURALS[result.unit]}"
    if result.usd_per_hour_of_audio is not None:
        cost, unit = result.usd_per_hour_of_audio, "an hour of audio"
    rows += [] if cost is None else [figure_row(f"USD for {unit}", cost, shown(cost))]
    return Table(FIGURE_COLUMNS, rows, notes=price_notes(result))


def shown(figure: Figure) -> str:
    """A figure with its range, to two digits."""
    return ranged(figure.value, figure.low, figure.high)


def price_notes(result: EncoderEstimate) -> list[str]:
    """Whose price that is, and of which day."""
    price = result.price
    if price is None:
        return [f"No on-demand price of {result.gpu} is known."]
    hourly = usd_per_hour(price.price_per_gpu_usd_per_hour)
    return [
        f"At full load and {hourly} per GPU, the lowest on-demand price in the tables: {price.cloud} {price.region} "
        f"{price.instance}, {price.basis} price of {price.day}."
    ]


def latency_name(result: EncoderEstimate) -> str:
    """What the latency is of: a recording where its length was stated, else a batch."""
    is_recording = any(i.name == "audio" for i in result.inputs)
    return "latency of the recording" if is_recording and result.unit == "window of audio" else "latency of a batch"


def terms_table(result: EncoderEstimate) -> Table:
    """Milliseconds of one batch by operator, with the formula of each."""
    total_s = sum(term.value for term in result.terms)
    columns: Columns[ExplainedTerm] = [
        column("operation", lambda term: term.name, wraps=True),
        number("ms", lambda term: significant(term.value / units.MILLISECOND)),
        number("share", lambda term: percent(term.value / total_s)),
        column("formula", lambda term: term.formula, wraps=True),
    ]
    return Table.of(result.terms, columns, "One batch")
