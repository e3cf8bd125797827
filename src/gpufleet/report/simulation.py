"""The answer of `gpufleet simulate` as a page: what was replayed, latencies, objectives, what the engine did, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpufleet.provenance import day_in_words
from gpufleet.report.grades import grade_line
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
from gpufleet.report.page import WARNING, Column, Fact, Page, Row, Table, lines_table
from gpufleet.report.ranges import ranged_time
from gpufleet.report.simulation_svg import simulation_picture, simulation_svg
from gpufleet.report.sparkline import course, spread
from gpufleet.results.base import Figure
from gpufleet.results.simulation import SimulatedCost, Simulation, TimeLevel
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
        *([inputs_table(result)] if explain else []),
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
    said = [*state_words(result), f"{subject(result)}, {result.load}: {outcome(result)}."]
    return " ".join(said)


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


def outcome(result: Simulation) -> str:
    """The 95th percentiles, or that nothing was answered."""
    known = [(name, result.latency.get(f"{metric}.p95")) for metric, name in METRICS.items()]
    said = [f"{name} p95 {ranged_time(figure)}" for name, figure in known if figure is not None]
    return ", ".join(said) or "no request was answered"


def per_second(rate: float) -> str:
    """A rate of requests in words."""
    return f"{significant(rate, 2)} requests/s"


def facts(result: Simulation) -> list[Fact]:
    """Whether it is stable, the percentiles, and how much gets done."""
    times = [(name, result.latency.get(f"{metric}.p95")) for metric, name in METRICS.items()]
    look = "good" if result.is_stable else "bad"
    grows = per_second(result.queue.growth_requests_per_s)
    queue = f"at most {count(result.waiting.highest)} wait" if result.is_stable else f"grows by {grows}"
    return [
        Fact("Queue", "Stable" if result.is_stable else "Unstable", queue, look),  # type: ignore[arg-type]
        *(Fact(f"{name} p95", duration(f.value), ranged_time(f)) for name, f in times if f is not None),
        Fact("Output tokens/s", amount(round(result.output_tokens_per_s, 1)), per_second(result.requests_per_s)),
        *([] if result.cost is None else [cost_fact(result.cost)]),
    ]


def cost_fact(cost: SimulatedCost) -> Fact:
    """What it costs by the hour."""
    each = cost.usd_per_million_output_tokens
    note = "" if each is None else f"{usd_per_million_tokens(each)} output tokens"
    return Fact("Cost", usd_per_hour(cost.usd_per_hour), note)


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
            shown = {s: "unknown" if figure is None else ranged_time(figure) for s, figure in cells.items()}
            yield {"class": name, "metric": words, **shown}


def objective_tables(result: Simulation) -> list[Table]:
    """Objectives, and how they are kept."""
    if not result.objectives:
        return []
    columns = [
        Column("objective", "objective"),
        Column("figure", "replayed", align="right"),
        Column("within", "requests within", align="right"),
        Column("verdict", "verdict"),
    ]
    return [Table(columns, [objective_row(o) for o in result.objectives])]


def objective_row(o: SimulatedObjective) -> Row:
    """One objective."""
    verdict = "kept" if o.is_kept else "broken"
    return {
        "objective": f"{o.label} < {duration(o.limit_s)}",
        "figure": "unknown" if o.figure is None else ranged_time(o.figure),
        "within": share_text(o.within_ratio),
        "verdict": verdict if o.is_sure else f"{verdict}, not surely",
    }


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
    yield throughput_line(result)
    yield busy_line(result)
    yield queue_line(result)
    yield from cache_lines(result)
    yield f"Ended: {ends_words(result.fates)}."
    if result.cost is not None:
        yield cost_line(result.cost)
    yield grade_line(result.grade)


def throughput_line(result: Simulation) -> str:
    """What got done."""
    good = result.goodput_requests_per_s
    kept = "" if good is None else f"; {per_second(good)} keep every objective"
    tokens = (
        f"{significant(result.output_tokens_per_s)} output and {significant(result.input_tokens_per_s)} input tokens/s"
    )
    return f"Done: {per_second(result.requests_per_s)}, {tokens}{kept}."


def busy_line(result: Simulation) -> str:
    """How much of the replicas was used."""
    share = "not paid for" if result.utilisation_ratio is None else f"{percent(result.utilisation_ratio)} of their time"
    kv = f"KV cache {percent(result.kv_used_ratio.mean)} in use, at most {percent(result.kv_used_ratio.highest)}"
    return f"Busy {share}; {level_text(result.running)} run; {kv}."


def queue_line(result: Simulation) -> str:
    """How many wait, and whether more and more do."""
    grows = (
        f"it grows by {per_second(result.queue.growth_requests_per_s)}" if not result.is_stable else "it does not grow"
    )
    load = "" if result.load_ratio is None else f" Load factor {result.load_ratio:.2f} of what they sustain."
    return f"Queue: {level_text(result.waiting)} wait; {grows}.{load}"


def level_text(level: TimeLevel) -> str:
    """A mean over time and its highest value."""
    return f"{significant(level.mean)} (at most {count(level.highest)})"


def cache_lines(result: Simulation) -> Iterator[str]:
    """Prefix cache, preemptions and retries, where there were any."""
    parts = []
    if result.prefix_hit_ratio:
        parts.append(f"prefix cache held {percent(result.prefix_hit_ratio)} of prompt tokens")
    preempted = f"{plural(result.preemptions, 'preemption')} of {plural(result.num_preempted, 'request')}"
    parts.append(preempted if result.preemptions else "no preemptions")
    parts += [plural(result.retries, "retry").replace("retrys", "retries")] if result.retries else []
    said = "; ".join(parts)
    yield f"{said[0].upper()}{said[1:]}."


def ends_words(fates: Mapping[str, int]) -> str:
    """What became of the requests that came, without what became of none."""
    said = [f"{count(number)} {fate}" for fate, number in fates.items() if number]
    return ", ".join(said) or "no request came"


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
    shown = {name: figure for name, figure in result.closed_form.items() if explain or name.endswith(STATISTICS_BESIDE)}
    rows = [closed_form_row(name, figure, result) for name, figure in shown.items()]
    columns = [
        Column("figure", "figure"),
        Column("replayed", "replayed", align="right"),
        Column("closed", "closed form (estimate)", align="right"),
    ]
    return [Table(columns, rows)] if rows else []


def closed_form_row(name: str, figure: Figure, result: Simulation) -> Row:
    """One figure twice."""
    metric, _, statistic = name.partition(".")
    replayed = result.latency.get(name)
    return {
        "figure": f"{METRICS.get(metric, metric)} {statistic}",
        "replayed": "unknown" if replayed is None else ranged_time(replayed),
        "closed": ranged_time(figure),
    }


def drawn_tables(result: Simulation) -> list[Table]:
    """The course of the replay and the spread of latencies, a line of blocks each."""
    t = result.timeline
    if len(t.time_s) < 2:
        return []
    courses: dict[str, tuple[str, str]] = {
        "running": (course(t.running, SPARK_WIDTH), count(result.running.highest)),
        "waiting": (course(t.waiting, SPARK_WIDTH), count(result.waiting.highest)),
        "KV in use": (course(t.kv_used_ratio, SPARK_WIDTH, 1.0), percent(result.kv_used_ratio.highest)),
    }
    if max(t.replicas) != min(t.replicas):
        courses["replicas"] = course(t.replicas, SPARK_WIDTH), count(result.paid_replicas.highest)
    rows = [{"name": name, "course": line, "highest": highest} for name, (line, highest) in courses.items()]
    columns = [
        Column("name", "over time"),
        Column("course", f"0 to {duration(t.time_s[-1])}", is_drawing=True),
        Column("highest", "highest", align="right"),
    ]
    return [Table(columns, rows), *spread_tables(result)]


def spread_tables(result: Simulation) -> list[Table]:
    """Which share of requests stays below a time."""
    known = [d for d in result.distributions if d.seconds]
    columns = [
        Column("name", "spread"),
        Column("from", "1% below", align="right"),
        Column("spread", "share of requests below, in equal ratios", is_drawing=True),
        Column("to", "longest", align="right"),
    ]
    rows = [
        {
            "name": METRICS.get(d.metric, d.metric),
            "from": duration(d.seconds[0]),
            "spread": spread(d.seconds, d.shares, SPARK_WIDTH),
            "to": duration(d.seconds[-1]),
        }
        for d in known
    ]
    return [Table(columns, rows)] if rows else []


def picture_tables(result: Simulation) -> list[Table]:
    """The same as a picture, above the highest values."""
    picture = simulation_picture(result, picture_title(result))
    if picture is None:
        return []
    levels = {"running": result.running, "waiting": result.waiting}
    rows = [{"name": name, "mean": significant(v.mean), "highest": count(v.highest)} for name, v in levels.items()]
    kv = result.kv_used_ratio
    rows.append({"name": "KV cache in use", "mean": percent(kv.mean), "highest": percent(kv.highest)})
    columns = [Column("name", "over time"), *(Column(k, k, align="right") for k in ("mean", "highest"))]
    return [Table(columns, rows, "Over time, and how latencies are spread", picture=picture)]


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


def inputs_table(result: Simulation) -> Table:
    """Every input as it was read, with where it came from."""
    columns = [Column("name", "input"), Column("value", "read as", wraps=True), Column("origin", "origin")]
    return Table(columns, [i.model_dump() for i in result.inputs], "Inputs")
