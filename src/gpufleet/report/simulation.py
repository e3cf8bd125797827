"""The answer of `gpufleet simulate` as a page: what was replayed, latencies, objectives, what the engine did, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpufleet.provenance import day_in_words
from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    percent,
    plural,
    significant,
    usd,
    usd_per_hour,
    usd_per_million_tokens,
)
from gpufleet.report.page import WARNING, Column, Columns, Fact, Page, Row, Table, column, lines_table, number
from gpufleet.report.ranges import ranged_time
from gpufleet.report.search import plain_inputs_table
from gpufleet.report.simulation_svg import simulation_picture, simulation_svg
from gpufleet.report.sparkline import course, spread
from gpufleet.report.words import grade_line
from gpufleet.results.base import Figure
from gpufleet.results.simulation import Distribution, SimulatedCost, Simulation, TimeLevel
from gpufleet.results.verification import SimulatedObjective
from gpufleet.units import PERCENT

METRICS = {"ttft": "TTFT", "tpot": "TPOT", "latency": "latency"}
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
LEFT_OUT_FIRST = {"p90": 2, "mean": 1}
SPARK_WIDTH = 44
RANGES = (
    "Ranges: in 8 of 10 such replays they hold the figure of an endless one; how far a modelled step is from a "
    "measured one is not in them."
)
UNSETTLED = "TTFT still changes in the second half: a longer replay (--requests, --duration) may say something else."


STATISTICS_BESIDE = ("mean", "p95")
"""Statistics of the closed form that a page shows beside the replay; `--explain` shows all."""


def simulation_page(result: Simulation, *, explain: bool = False, in_characters: bool = True) -> Page:
    """Headline, latencies, objectives, what the replicas did, closed form, the course of it; inputs on request."""
    tables = [
        latency_table(result),
        *objective_tables(result),
        lines_table("What the replicas did", list(did_lines(result))),
        *closed_form_tables(result, explain),
        *(drawn_tables(result) if in_characters else picture_tables(result)),
        *([plain_inputs_table(result.inputs)] if explain else []),
    ]
    title = " ".join([*state_words(result), f"{subject(result)}, {result.load}."])
    return Page(headline(result), tables, list(notes(result)), (), facts(result), title)


def simulation_rows_page(result: Simulation) -> Page:
    """What a CSV holds: every figure in a row."""
    columns = [Column(key, key) for key in ("class", "figure", "value", "low", "high", "unit", "grade")]
    return Page(headline(result), [Table(columns, list(figure_rows(result)))])


def simulation_drawing(result: Simulation) -> str:
    """The picture as a document of its own; empty where nothing happened."""
    return simulation_svg(result, picture_title(result))


def headline(result: Simulation) -> str:
    """What was replayed on what, and the 95th percentiles; first of all, that it is unstable or was stopped."""
    times = ", ".join(f"{name} p95 {ranged_time(figure)}" for name, figure in p95_times(result))
    outcome = times or "no request was answered"
    return " ".join([*state_words(result), f"{subject(result)}, {result.load}: {outcome}."])


def state_words(result: Simulation) -> list[str]:
    """What puts all figures in doubt."""
    said = []
    if not result.is_stable:
        said.append(f"Unstable: the queue grows by {per_second(result.queue.growth_requests_per_s)}.")
    if result.is_partial:
        said.append("Stopped before its end.")
    return said


def subject(result: Simulation) -> str:
    """The copies that were replayed."""
    copies = f"{plural(result.replicas, 'replica')} of {result.num_gpus}x {result.gpu} ({result.layout})"
    return f"{result.model} in {result.weight_format} on {copies} with {result.engine}"


def per_second(rate: float) -> str:
    """A rate of requests in words."""
    return f"{significant(rate, 2)} requests/s"


def facts(result: Simulation) -> list[Fact]:
    """Whether it is stable, the percentiles, how much gets done, and what it costs by the hour."""
    grows = f"grows by {per_second(result.queue.growth_requests_per_s)}"
    queue = Fact("Queue", "Unstable", grows, "bad")
    if result.is_stable:
        queue = Fact("Queue", "Stable", f"at most {count(result.waiting.highest)} wait", "good")
    found = [queue, *(Fact(f"{name} p95", duration(f.value), ranged_time(f)) for name, f in p95_times(result))]
    rate = amount(round(result.output_tokens_per_s, 1))
    found.append(Fact("Output tokens/s", rate, per_second(result.requests_per_s)))
    if result.cost is not None:
        each = result.cost.usd_per_million_output_tokens
        note = "" if each is None else f"{usd_per_million_tokens(each)} output tokens"
        found.append(Fact("Cost", usd_per_hour(result.cost.usd_per_hour), note))
    return found


def p95_times(result: Simulation) -> list[tuple[str, Figure]]:
    """The 95th percentiles that are known."""
    known = ((name, result.latency.get(f"{metric}.p95")) for metric, name in METRICS.items())
    return [(name, figure) for name, figure in known if figure is not None]


def notes(result: Simulation) -> Iterator[str]:
    """What puts the answer in doubt, what was measured, and what was noted on the way."""
    yield from doubts(result)
    yield measured_line(result)
    if result.is_stable:
        yield RANGES
    if result.is_stable and not result.is_settled:
        yield UNSETTLED
    yield from (f"{note.rstrip('.')}." for note in result.notes)


def doubts(result: Simulation) -> Iterator[str]:
    """Warnings, which stand below the headline."""
    if not result.is_stable:
        q = result.queue
        grew = f"{significant(q.growth_requests_per_s, 2)} (error {significant(q.error_requests_per_s, 2)}) requests/s"
        yield f"{WARNING}from half-way on the queue grew by {grew}: latencies say how long was replayed, and no more."
    if result.is_partial:
        came = f"{count(result.num_arrived)} of {plural(result.num_requests, 'request')}"
        yield f"{WARNING}stopped after {duration(result.simulated_s)} of replayed time, when {came} had come."


def measured_line(result: Simulation) -> str:
    """Which requests and which time the figures are of."""
    warm = f"; the first {duration(result.warm_up_s)} are left out (warm-up)" if result.warm_up_s > 0 else ""
    of = f"{count(result.num_measured)} of {plural(result.num_requests, 'request')}"
    return f"Measured: {of} over {duration(result.measured_s)}{warm}."


def latency_table(result: Simulation) -> Table:
    """Every metric by its statistics; of several classes each below all of them."""
    columns = [
        *([Column("class", "class")] if result.classes else []),
        Column("metric", "of requests"),
        *(Column(s, s, align="right", priority=LEFT_OUT_FIRST.get(s, 0)) for s in STATISTICS),
    ]
    groups = [("all", result.latency), *((c.name or "(none)", c.latency) for c in result.classes)]
    rows = [row for name, latency in groups for row in latency_rows(name, latency)]
    return Table(columns, rows, empty="No request was answered: there are no latencies.")


def latency_rows(name: str, latency: Mapping[str, Figure]) -> Iterator[Row]:
    """A row for each metric that is known."""
    for metric, words in METRICS.items():
        cells = {s: latency.get(f"{metric}.{s}") for s in STATISTICS}
        if any(cells.values()):
            yield {"class": name, "metric": words, **{s: known_time(figure) for s, figure in cells.items()}}


def objective_tables(result: Simulation) -> list[Table]:
    """Objectives, and how they are kept."""
    columns: Columns[SimulatedObjective] = [
        column("objective", lambda o: f"{o.label} < {duration(o.limit_s)}"),
        number("replayed", lambda o: known_time(o.figure)),
        number("requests within", lambda o: share_text(o.within_ratio)),
        column("verdict", lambda o: f"{'kept' if o.is_kept else 'broken'}{'' if o.is_sure else ', not surely'}"),
    ]
    return [Table.of(result.objectives, columns)] if result.objectives else []


def known_time(figure: Figure | None) -> str:
    """A time with its range, where it is known."""
    return "unknown" if figure is None else ranged_time(figure)


def share_text(figure: Figure) -> str:
    """A share of requests with its range, to a tenth of a percent.

    >>> share_text(Figure(value=0.951, unit="ratio", low=0.948, high=0.955))
    '95.1 (94.8-95.5)%'
    """
    ends = "" if figure.low is None or figure.high is None else f" ({tenths(figure.low)}-{tenths(figure.high)})"
    return f"{tenths(figure.value)}{ends}%"


def tenths(share: float) -> str:
    """A share in percent."""
    return f"{share * PERCENT:.1f}"


def did_lines(result: Simulation) -> Iterator[str]:
    """Throughput, load, KV cache, queue, cache hits, ends and cost, a line each."""
    r, good = result, result.goodput_requests_per_s
    kept = "" if good is None else f"; {per_second(good)} keep every objective"
    tokens = f"{significant(r.output_tokens_per_s)} output and {significant(r.input_tokens_per_s)} input tokens/s"
    yield f"Done: {per_second(r.requests_per_s)}, {tokens}{kept}."
    share = "not paid for" if r.utilisation_ratio is None else f"{percent(r.utilisation_ratio)} of their time"
    kv = f"KV cache {percent(r.kv_used_ratio.mean)} in use, at most {percent(r.kv_used_ratio.highest)}"
    yield f"Busy {share}; {level_text(r.running)} run; {kv}."
    grows = "does not grow" if r.is_stable else f"grows by {per_second(r.queue.growth_requests_per_s)}"
    load = "" if r.load_ratio is None else f" Load factor {r.load_ratio:.2f} of what they sustain."
    yield f"Queue: {level_text(r.waiting)} wait; it {grows}.{load}"
    yield cache_line(r)
    ended = ", ".join(f"{count(number)} {fate}" for fate, number in r.fates.items() if number)
    yield f"Ended: {ended or 'no request came'}."
    if r.cost is not None:
        yield cost_line(r.cost)
    drafts = next((i.value for i in r.inputs if i.name == "drafts"), None)
    if drafts is not None:
        yield f"Drafts: {drafts}."
    yield grade_line(r.grade, drafts)


def level_text(level: TimeLevel) -> str:
    """A mean over time and its highest value."""
    return f"{significant(level.mean)} (at most {count(level.highest)})"


def cache_line(result: Simulation) -> str:
    """Prefix cache, preemptions and retries, where there were any."""
    parts = []
    if result.prefix_hit_ratio:
        parts.append(f"prefix cache held {percent(result.prefix_hit_ratio)} of prompt tokens")
    preempted = f"{plural(result.preemptions, 'preemption')} of {plural(result.num_preempted, 'request')}"
    parts.append(preempted if result.preemptions else "no preemptions")
    parts += [plural(result.retries, "retry").replace("retrys", "retries")] if result.retries else []
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}."


def cost_line(cost: SimulatedCost) -> str:
    """What was paid, for what, and whose price it is."""
    each = cost.usd_per_million_output_tokens
    tokens = "" if each is None else f", {usd_per_million_tokens(each)} output tokens"
    kind = cost.price_kind.replace("_", " ")
    source = f"{cost.price_source}, {day_in_words(cost.price_as_of)}"
    replayed = f"{usd(cost.usd)} for all that was replayed"
    return f"Cost: {usd_per_hour(cost.usd_per_hour)}{tokens}; {replayed} ({cost.machine}, {kind}; {source})."


def closed_form_tables(result: Simulation, explain: bool) -> list[Table]:
    """What `estimate` says of the same load, beside the replay; the ranges of one are not those of the other."""
    columns: Columns[tuple[str, Figure]] = [
        column("figure", lambda named: figure_words(named[0])),
        number("replayed", lambda named: known_time(result.latency.get(named[0]))),
        number("closed form (estimate)", lambda named: ranged_time(named[1])),
    ]
    shown = [named for named in result.closed_form.items() if explain or named[0].endswith(STATISTICS_BESIDE)]
    return [Table.of(shown, columns)] if shown else []


def figure_words(name: str) -> str:
    """A metric and a statistic of it: 'ttft.p95' as 'TTFT p95'."""
    metric, _, statistic = name.partition(".")
    return f"{METRICS.get(metric, metric)} {statistic}"


def drawn_tables(result: Simulation) -> list[Table]:
    """The course of the replay and the spread of latencies, a line of blocks each."""
    t, kv = result.timeline, result.kv_used_ratio
    if len(t.time_s) < 2:
        return []
    rows = [
        ("running", course(t.running, SPARK_WIDTH), count(result.running.highest)),
        ("waiting", course(t.waiting, SPARK_WIDTH), count(result.waiting.highest)),
        ("KV in use", course(t.kv_used_ratio, SPARK_WIDTH, 1.0), percent(kv.highest)),
    ]
    if max(t.replicas) != min(t.replicas):
        rows.append(("replicas", course(t.replicas, SPARK_WIDTH), count(result.paid_replicas.highest)))
    columns = [
        Column("name", "over time"),
        Column("course", f"0 to {duration(t.time_s[-1])}", is_drawing=True),
        Column("highest", "highest", align="right"),
    ]
    return [Table.of_cells(columns, rows), *spread_tables(result)]


def spread_tables(result: Simulation) -> list[Table]:
    """Which share of requests stays below a time."""
    title = "share of requests below, in equal ratios"
    columns: Columns[Distribution] = [
        column("spread", lambda d: METRICS.get(d.metric, d.metric)),
        number("1% below", lambda d: duration(d.seconds[0])),
        column(title, lambda d: spread(d.seconds, d.shares, SPARK_WIDTH), is_drawing=True),
        number("longest", lambda d: duration(d.seconds[-1])),
    ]
    known = [d for d in result.distributions if d.seconds]
    return [Table.of(known, columns)] if known else []


def picture_tables(result: Simulation) -> list[Table]:
    """The same as a picture, above the highest values."""
    picture, kv = simulation_picture(result, picture_title(result)), result.kv_used_ratio
    if picture is None:
        return []
    levels = {"running": result.running, "waiting": result.waiting}
    rows = [(name, significant(v.mean), count(v.highest)) for name, v in levels.items()]
    rows.append(("KV cache in use", percent(kv.mean), percent(kv.highest)))
    columns = [Column("name", "over time"), *(Column(k, k, align="right") for k in ("mean", "highest"))]
    return [Table.of_cells(columns, rows, "Over time, and how latencies are spread", picture=picture)]


def picture_title(result: Simulation) -> str:
    """What the picture shows."""
    return f"{result.model} on {plural(result.replicas, 'replica')} of {result.num_gpus}x {result.gpu}, {result.load}"


def figure_rows(result: Simulation) -> Iterator[Row]:
    """Every figure of every class, then what the replicas did."""
    for name, latency in [("", result.latency), *((c.name, c.latency) for c in result.classes)]:
        for label, figure in latency.items():
            yield {"class": name, "figure": label, **figure.model_dump()}
    for o in result.objectives:
        yield {"class": "", "figure": f"within {o.label}", **o.within_ratio.model_dump()}
    for label, value, unit in plain_figures(result):
        yield {"class": "", "figure": label, "low": None, "high": None, "value": value, "unit": unit,
               "grade": result.grade}  # fmt: skip


def plain_figures(result: Simulation) -> Sequence[tuple[str, float | None, str]]:
    """Figures without a range: name, value, unit."""
    cost = result.cost
    priced = [] if cost is None else [
        ("cost", cost.usd_per_hour, "usd/h"),
        ("cost of output", cost.usd_per_million_output_tokens, "usd/1M tokens"),
    ]  # fmt: skip
    return [
        ("requests", result.requests_per_s, "requests/s"),
        ("goodput", result.goodput_requests_per_s, "requests/s"),
        ("output tokens", result.output_tokens_per_s, "tokens/s"),
        ("input tokens", result.input_tokens_per_s, "tokens/s"),
        ("utilisation", result.utilisation_ratio, "ratio"),
        ("running mean", result.running.mean, "requests"),
        ("waiting mean", result.waiting.mean, "requests"),
        ("waiting highest", result.waiting.highest, "requests"),
        ("KV in use mean", result.kv_used_ratio.mean, "ratio"),
        ("KV in use highest", result.kv_used_ratio.highest, "ratio"),
        ("prefix hits", result.prefix_hit_ratio, "ratio"),
        ("preemptions", float(result.preemptions), "count"),
        ("queue growth", result.queue.growth_requests_per_s, "requests/s"),
        *priced,
        *((fate, float(number), "requests") for fate, number in result.fates.items()),
    ]
