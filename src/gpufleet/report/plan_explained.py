"""What `gpufleet plan serve --explain` adds: inputs, formulas of the objectives, and the figures of the answer."""

from __future__ import annotations

import shlex

from gpufleet.report.numbers import amount, count, duration, percent, ranged, significant, usd
from gpufleet.report.page import Column, Table, formulas_table
from gpufleet.report.search import inputs_table
from gpufleet.results.base import Ranks
from gpufleet.results.plan import Deployment, Energy, ServePlan
from gpufleet.units import DAY, HOUR, in_full

ALIKE, DIFFERENT = "M/D/1", "M/G/1 with the variation of the prompts"

FORMULAS = (
    (
        "TTFT",
        "a lone request (handling, tokens, prefill) + the running step + the wait for others' prompts ({wait})",
    ),
    ("TPOT", "one decode step at the batch + the share of neighbours' prompts that lengthens it"),
    ("latency", "TTFT + (output tokens - 1) x TPOT, both at the same percentile: an upper bound"),
    ("percentiles", "over requests; TPOT at that percentile of the batch (Poisson), TTFT at that of the waiting time"),
    (
        "lengths that differ",
        "throughput and KV rest on means, TTFT and latency on prompt and answer at the objective's own percentile",
    ),
    ("batch", "B = rate per replica x (prefill + output tokens x TPOT(B))"),
    ("load factor", "rate per replica / the most that a replica sustains; refused above 0.95"),
    (
        "capacity",
        "replicas x the highest rate at which one keeps all objectives, load <= 0.95 and KV room for a burst; "
        "its range: the same where steps and first tokens are at the ends of their ranges",
    ),
    ("headroom", "capacity / rate - 1"),
    ("range", "10th to 90th percentile, from errors on measurements held out from the fit"),
    ("$/month", "$/h x 730 h"),
    (
        "$/h",
        "price x machines; with quiet hours: share of the day x the cost at the peak + the rest x the cost off peak",
    ),
    ("$/1M out", "$/h / (rate over all hours x output tokens x 3,600 s) x 1,000,000"),
    ("electricity", "board power x GPUs x share of time with work, 1 - exp(-batch); a rule, not a measurement"),
)


def explained_tables(plan: ServePlan) -> list[Table]:
    """Inputs, formulas and, where there is an answer, its figures with the numbers put in.

    Prompts that differ from request to request are taken to form another queue.
    """
    has_spread = plan.num_classes > 0 or "input" in plan.lengths_differ
    wait = DIFFERENT if has_spread else ALIKE
    formulas = formulas_table([(name, formula.format(wait=wait)) for name, formula in FORMULAS])
    if not plan.deployments:
        return [inputs_table(plan.inputs), formulas]
    return [inputs_table(plan.inputs), figures_table(plan), formulas, alone_table(plan, has_spread)]


def alone_table(plan: ServePlan, has_spread: bool) -> Table:
    """The command that takes one replica's step apart: where the milliseconds of its mean request go."""
    notes = ["For the mean request; percentiles over lengths are not broken down."] if has_spread else []
    title = "Where the milliseconds of one replica go"
    return Table([], [], title, notes, empty="", listing=[estimate_words(plan)], folded=True)


def estimate_words(plan: ServePlan) -> list[list[str]]:
    """`gpufleet estimate` of a replica of the answer at the sequences that it decodes at a time."""
    d, origins = plan.answer, {i.name: i.origin for i in plan.inputs}
    stated = [] if origins.get("weights") == "checkpoint" else [["--precision", d.weight_format]]
    groups = [
        ["gpufleet", "estimate", plan.model],
        ["--gpus", f"{d.gpu}:{d.gpus_per_replica}"],
        *layout_flags(d.ranks),
        ["--in", in_full(round(plan.input_tokens))],
        ["--out", in_full(max(round(plan.output_tokens), 1))],
        ["--concurrency", str(max(round(d.batch), 1))],
        ["--engine", d.engine],
        *([["--speculate", d.drafts]] if d.drafts else []),
        *stated,
        ["--kv-precision", d.kv_precision],
        ["--explain"],
    ]
    return [[shlex.quote(word) for word in group] for group in groups]


def layout_flags(ranks: Ranks | None) -> list[list[str]]:
    """A layout as flags; none of a plan that an older release wrote.

    >>> layout_flags(Ranks(tp=4, pp=2)), layout_flags(Ranks(attention_dp=8, ep=8))
    ([['--tp', '4'], ['--pp', '2']], [['--tp', '1'], ['--attention-dp', '8'], ['--ep', '8']])
    """
    if ranks is None:
        return []
    beside = {"--attention-dp": ranks.attention_dp, "--ep": ranks.ep, "--pp": ranks.pp}
    return [["--tp", str(ranks.tp)], *([flag, str(number)] for flag, number in beside.items() if number > 1)]


def figures_table(plan: ServePlan) -> Table:
    """The numbers behind the answer, and how they come from each other."""
    columns = [Column("name", "figure"), Column("value", "value"), Column("numbers", "from", wraps=True)]
    rows = [*load_rows(plan), *price_rows(plan), *energy_rows(plan.answer)]
    return Table.of_cells(columns, rows, "Figures of the answer", folded=True)


def load_rows(plan: ServePlan) -> list[tuple[str, str, str]]:
    """What each replica does."""
    d, rate = plan.answer, plan.rate_requests_per_s
    each, capacity = rate / d.replicas, d.requests_per_s_capacity.value
    sustained, held_s = each / d.load_ratio, d.batch / each
    in_service = f"{significant(each)}/s x {significant(held_s)} s in service"
    room = f"{count(d.largest_batch)} sequences", "memory left after the weights, and the engine's limit"
    stops = f"{d.replicas} replicas x {significant(capacity / d.replicas)}, where {d.binding_limit} stops"
    return [
        ("rate per replica", f"{significant(each)} requests/s", f"{amount(rate)} / {d.replicas} replicas"),
        ("mean batch", f"{significant(d.batch)} sequences", in_service),
        ("load factor", f"{d.load_ratio:.2f}", f"{significant(each)} / {significant(sustained)} requests/s sustained"),
        ("largest batch", *room),
        ("capacity", f"{significant(capacity)} requests/s", stops),
        ("headroom", percent(d.headroom_ratio), f"{significant(capacity)} / {amount(rate)} - 1"),
        *(
            (f"slack of {name}", percent(ratio), latency_numbers(plan, name))
            for name, ratio in sorted(d.slack_ratio.items(), key=lambda item: item[1])
        ),
        ("parameters", f"{count(plan.num_parameters)}", f"{count(plan.num_active_parameters)} active"),
    ]


def latency_numbers(plan: ServePlan, name: str) -> str:
    """The numbers of one limit's slack."""
    if name in plan.objectives:
        return f"1 - {duration(plan.answer.latency[name].value)} / {duration(plan.objectives[name])}"
    if name == "load":
        return f"1 - {plan.answer.load_ratio:.2f} / 0.95"
    return f"1 - sequences at the 95th percentile / {count(plan.answer.largest_batch)}"


def price_rows(plan: ServePlan) -> list[tuple[str, str, str]]:
    """Money, each figure from the one before."""
    d = plan.answer
    each, hourly = usd(d.price_per_instance_usd_per_hour), usd(d.usd_per_hour)
    rate = f"{significant(plan.all_hours_requests_per_s)}/s"
    work = f"{rate} x {amount(plan.output_tokens)} tokens x 3,600 s"
    return [
        ("price of a machine", f"{each}/h", f"{d.price_basis}, {d.price_source}, {d.price_day}"),
        *hours_rows(plan),
        ("$/h", hourly, hourly_numbers(d)),
        ("$/month", usd(d.usd_per_month), f"{hourly} x 730 h"),
        ("$/1M out", usd(d.usd_per_million_output_tokens), f"{hourly} / ({work}) x 1,000,000"),
        ("$/request", usd(d.usd_per_request), f"{hourly} / ({rate} x 3,600 s)"),
    ]


def hours_rows(plan: ServePlan) -> list[tuple[str, str, str]]:
    """The rate over all hours, where some are quiet."""
    if plan.mean_requests_per_s is None:
        return []
    busy, peak = plan.answer.busy_time_ratio, plan.rate_requests_per_s
    quiet = (plan.mean_requests_per_s - busy * peak) / (1 - busy)
    numbers = f"{hours_of_day(busy)} x {amount(peak)} + {hours_of_day(1 - busy)} x {amount(quiet)}"
    return [("rate over all hours", f"{significant(plan.mean_requests_per_s)} requests/s", numbers)]


def hourly_numbers(d: Deployment) -> str:
    """Machines times price, at the peak and off it where they differ."""
    peak = machines_numbers(d, d.instance_count, d.steady_instance_count)
    if d.quiet_instance_count is None:
        return peak
    quiet = machines_numbers(d, d.quiet_instance_count, d.quiet_steady_instance_count or 0)
    return f"{hours_of_day(d.busy_time_ratio)} x ({peak}) + {hours_of_day(1 - d.busy_time_ratio)} x ({quiet})"


def machines_numbers(d: Deployment, machines: int, steady: int) -> str:
    """So many machines at their price; those that may not be spot at the price on demand."""
    first = f"{machines - steady} x {usd(d.price_per_instance_usd_per_hour)}"
    return f"{first} + {steady} x {usd(d.steady_price_per_instance_usd_per_hour)}" if steady else first


def hours_of_day(ratio: float) -> str:
    """A share of the day in its hours.

    >>> hours_of_day(10 / 24)
    '10/24'
    """
    return f"{amount(ratio * DAY / HOUR)}/{DAY / HOUR:.0f}"


def drawn_numbers(e: Energy) -> tuple[str, str]:
    """What draws power, and what is in it: GPUs by their board power, or one's own machines as stated."""
    share = percent(e.utilisation_ratio)
    if e.board_power_watts is not None:
        drawn = f"{amount(e.num_gpus)} GPUs x {amount(e.board_power_watts)} W x {share} of the time"
        return f"{drawn}; low: x load factor; high: always", "without hosts and cooling"
    machines = f"{amount(e.num_machines or 0)} machines x {amount(e.machine_watts or 0)} W x {e.cooling_ratio:g} (PUE)"
    return f"{machines}, as stated and charged; low: x {share} of the time", "with hosts and cooling"


def energy_table(plan: ServePlan) -> Table:
    """Electricity of the answer, and what it emits where the grid was given."""
    columns = [
        Column("name", "energy"),
        Column("value", "expected (80% range)", wraps=True),
        Column("formula", "is", wraps=True),
    ]
    return Table.of_cells(columns, energy_rows(plan.answer), "Energy")


def energy_rows(d: Deployment) -> list[tuple[str, str, str]]:
    """Electricity of the GPUs, and what it emits where the grid was given."""
    e = d.energy
    if e is None:
        return [("electricity", "unknown", "the board power of this device is not known")]
    kwh, per_million = e.kwh_per_hour, e.kwh_per_million_output_tokens
    drawn, scope = drawn_numbers(e)
    rows = [
        ("electricity", ranged(kwh.value, kwh.low, kwh.high, "kWh/h"), drawn),
        (
            "kWh/1M out",
            ranged(per_million.value, per_million.low, per_million.high, "kWh"),
            f"electricity / output tokens; {scope}",
        ),
    ]
    co2 = e.kg_co2_per_hour
    if co2 is not None and e.grid_g_co2_per_kwh is not None:
        source = f"{significant(kwh.value)} kWh x {amount(e.grid_g_co2_per_kwh)} g/kWh, as given"
        rows.append(("CO2", ranged(co2.value, co2.low, co2.high, "kg/h"), source))
    return rows
