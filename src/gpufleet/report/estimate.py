"""The answer of `gpufleet estimate` as a page: latency and throughput of one copy, what binds, and why."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.report.explanation import explanation_tables, operation_rows_table
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import amount, count, duration, percent, ranged, several
from gpufleet.report.page import Columns, Fact, Page, Picture, Row, Table, column, lines_table, number
from gpufleet.report.pools import pools_lines, pools_subject, pools_tables
from gpufleet.report.ranges import FIGURE_COLUMNS, figure_row, ranged_time
from gpufleet.report.roofline import chart_of, roofline_table
from gpufleet.report.roofline_svg import roofline_svg
from gpufleet.report.search import plain_inputs_table, spread_words
from gpufleet.report.words import grade_line, memory_look
from gpufleet.results.base import Figure
from gpufleet.results.estimate import LatencyPercentile, ServingEstimate

DRAWING_WIDTH = 80
LOADS = {
    "closed_loop": "{load} concurrent client{s}",
    "open_loop": "{load} request{s}/s",
    "static_batch": "one batch of {load}",
    "full_queue": "a queue that never empties",
}
MEANING = {
    "closed_loop": "Clients send again as soon as they are answered; latencies are means.",
    "open_loop": "Poisson arrivals; latencies are means, with percentiles over requests below.",
    "static_batch": "All sequences are prefilled together and decoded to the end.",
    "full_queue": "TTFT is that of a lone prompt: how long requests wait in the queue is not known.",
}
PERCENTILES = "p95: 95% of the requests stay below it. Latency adds both parts at the same percentile: an upper bound."
LONE_TTFT = "TTFT of a lone prompt"
WAITING = ("KV room", "engine_batch")


def estimate_page(
    result: ServingEstimate, *, explain: bool = False, roofline: bool = False, width: int = DRAWING_WIDTH
) -> Page:
    """Headline, what binds, figures; on request both steps by operation, what is faster, inputs, and a drawing."""
    figures = [figures_table(result), *percentile_tables(result)]
    if result.pools is not None:
        figures += pools_tables(result.pools)
    tables = [why_table(result), *figures, *launch_tables(result.launch)] if result.is_held else []
    if explain and result.explanation is not None:
        stages = 1 if result.ranks is None else result.ranks.pp
        tables += [*explanation_tables(result.explanation, result.num_gpus, stages), plain_inputs_table(result.inputs)]
    if roofline and result.explanation is not None:
        drawn = Picture(estimate_roofline_svg(result))
        tables.append(replace(roofline_table(chart_of(result.explanation), width), picture=drawn))
    notes = [f"{note.rstrip('.')}." for note in result.notes]
    title = f"{subject(result)}, {load_text(result)}." if result.is_held else ""
    return Page(headline(result), tables, notes, (), facts(result), title)


def facts(result: ServingEstimate) -> list[Fact]:
    """Whether it fits, how fast it is and how much gets done."""
    room = f"at most {count(result.largest_batch)} at once"
    if not result.is_held:
        return [Fact("Memory", DOES_NOT_FIT.capitalize(), room, "bad")]
    times = {ttft_label(result): result.ttft_s, "TPOT": result.tpot_s}
    return [
        Fact("Memory", result.verdict.capitalize(), room, memory_look(result.verdict)),
        *(Fact(name, duration(figure.value), ranged_time(figure)) for name, figure in times.items()),
        Fact("Output tokens/s", amount(result.output_tokens_per_s.value), rate_text(result.output_tokens_per_s)),
    ]


def estimate_roofline_svg(result: ServingEstimate) -> str:
    """The drawing as a document of its own; the result must be explained."""
    assert result.explanation is not None, "a roofline is drawn of an explained estimate"
    return roofline_svg(chart_of(result.explanation), f"Roofline: {subject(result)}, {load_text(result)}")


def estimate_rows_page(result: ServingEstimate, *, explain: bool = False) -> Page:
    """What a CSV holds: the figures alone, or the operations of both steps alone."""
    if explain and result.explanation is not None:
        return Page(headline(result), [operation_rows_table(result.explanation)])
    figures = figures_table(result)
    rows = [row for p in result.percentiles for row in percentile_rows(p)]
    return Page(headline(result), [replace(figures, rows=[*figures.rows, *rows])])


def headline(result: ServingEstimate) -> str:
    """What is served by what, and how fast, in one sentence."""
    if not result.is_held:
        return f"{subject(result)}, {load_text(result)}: does not fit, at most {count(result.largest_batch)} at once."
    tpot, ttft, rate = result.tpot_s, result.ttft_s, result.output_tokens_per_s
    return (
        f"{subject(result)}, {load_text(result)}: {ttft_label(result)} {ranged_time(ttft)}, TPOT {ranged_time(tpot)}, "
        f"{rate_text(rate)} output tokens/s."
    )


def ttft_label(result: ServingEstimate) -> str:
    """What the time to first token is of: behind a full queue nobody knows when a request came."""
    return LONE_TTFT if result.scenario == "full_queue" else "TTFT"


def latency_label(result: ServingEstimate) -> str:
    """From when to when the latency runs."""
    return "latency without the queue" if result.scenario == "full_queue" else "latency, arrival to last token"


def subject(result: ServingEstimate) -> str:
    """The copy of the model that is asked about, or both pools."""
    if result.pools is not None:
        return pools_subject(result, result.pools)
    what = f"{result.model} in {result.weight_format} on {result.num_gpus}x {result.gpu} ({result.layout})"
    return f"{what} with {result.engine}"


def load_text(result: ServingEstimate) -> str:
    """The load in words."""
    given = {i.name: i.value for i in result.inputs}
    load = given.get(result.scenario.replace("_", " "), "")
    run = "" if result.num_requests is None else f", {several(result.num_requests, 'request')} in all"
    return LOADS[result.scenario].format(load=load, s="" if load == "1" else "s") + run


def meaning(result: ServingEstimate) -> str:
    """What the load means for the figures."""
    if result.num_requests is None:
        return MEANING[result.scenario]
    number = several(result.num_requests, "request")
    return f"A run of {number}, replayed: all are counted, also while it fills and empties."


def rate_text(figure: Figure) -> str:
    """A rate with its range, where it has one."""
    if figure.low == figure.high:
        return amount(figure.value)
    return ranged(figure.value, figure.low, figure.high, digits=3)


def why_table(result: ServingEstimate) -> Table:
    """Limit, memory, load and grade, a line each."""
    is_open = result.scenario == "open_loop" and result.load_ratio is not None and result.pools is None
    load = f"Load factor {result.load_ratio or 0.0:.2f} of what this copy sustains."
    return lines_table(
        "Why",
        [
            *setup_lines(result),
            meaning(result),
            *([load] if is_open else []),
            *drafts_line(result),
            grade_line(result.grade, drafts_of(result)),
            *assumed_line(result),
        ],
    )


def setup_lines(result: ServingEstimate) -> list[str]:
    """What binds, and what fits; of two pools, how their rates match and what lies between them too."""
    if result.pools is not None:
        return pools_lines(result, result.pools)
    decodes = f"{several(result.batch, 'sequence')} {'decodes' if result.batch == 1 else 'decode'}"
    room = f"{decodes} at a time, at most {count(result.largest_batch)} fit."
    return [binding_line(result), f"Memory: {result.verdict}; {room}"]


def drafts_of(result: ServingEstimate) -> str | None:
    """What drafts tokens, and what a step of it yields."""
    return next((i.value for i in result.inputs if i.name == "drafts"), None)


def drafts_line(result: ServingEstimate) -> list[str]:
    """The same as a line."""
    drafts = drafts_of(result)
    return [f"Drafts: {drafts}."] if drafts else []


def assumed_line(result: ServingEstimate) -> list[str]:
    """The link and the lengths that nobody stated."""
    assumed = {i.name: i.value for i in result.inputs if i.origin == "default"}
    parts = [*([f"link {assumed['link']}"] if "link" in assumed else []), *spread_words(assumed)]
    return [f"Assumed: {'; '.join(parts)}."] if parts else []


def binding_line(result: ServingEstimate) -> str:
    """What keeps clients waiting, or the operator that takes most of a decode step."""
    if result.binding in WAITING:
        return f"Binding limit: {result.binding_limit}: further clients wait for a slot."
    total_s = sum(term.value for term in result.terms)
    share = next((t.value / total_s for t in result.terms if t.name == result.binding_limit), None)
    taken = "most" if share is None else percent(share)
    return f"Binding limit: {result.binding_limit}, {taken} of the kernel time of a decode step."


def figures_table(result: ServingEstimate) -> Table:
    """Latency and throughput with their ranges."""
    times = {ttft_label(result): result.ttft_s, "TPOT": result.tpot_s, latency_label(result): result.latency_s}
    rates = {
        "output tokens/s": result.output_tokens_per_s,
        "output tokens/s per GPU": per_gpu(result.output_tokens_per_s, result.num_gpus),
        "requests/s": result.requests_per_s,
    }
    rows = [figure_row(name, f, ranged_time(f)) for name, f in times.items()]
    return Table(FIGURE_COLUMNS, [*rows, *(figure_row(name, f, rate_text(f)) for name, f in rates.items())])


def percentile_tables(result: ServingEstimate) -> list[Table]:
    """Latencies of arrivals that so many requests stay below."""
    columns: Columns[LatencyPercentile] = [
        column("of requests", lambda p: f"p{100 * p.quantile:g}"),
        number("TTFT", lambda p: ranged_time(p.ttft_s)),
        number("TPOT", lambda p: ranged_time(p.tpot_s)),
        number("latency", lambda p: ranged_time(p.latency_s)),
    ]
    return [Table.of(result.percentiles, columns, notes=[PERCENTILES])] if result.percentiles else []


def percentile_rows(percentile: LatencyPercentile) -> list[Row]:
    """The same as rows of figures, for files."""
    name = f"p{100 * percentile.quantile:g}"
    figures = {"TTFT": percentile.ttft_s, "TPOT": percentile.tpot_s, "latency": percentile.latency_s}
    return [figure_row(f"{what} {name}", figure, ranged_time(figure)) for what, figure in figures.items()]


def per_gpu(figure: Figure, num_gpus: int) -> Figure:
    """A rate shared by all GPUs."""
    low, high = (None if end is None else end / num_gpus for end in (figure.low, figure.high))
    return figure.model_copy(update={"value": figure.value / num_gpus, "low": low, "high": high})
