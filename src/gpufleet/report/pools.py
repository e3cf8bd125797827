"""Prefill and decode apart on a page: both pools, which of them binds, rates that match, parts of a first token."""

from __future__ import annotations

from collections.abc import Callable

from gpufleet.report.explanation import share
from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    percent,
    plural,
    ranged_duration,
    significant,
    usd_per_hour,
)
from gpufleet.report.page import Column, Columns, Table, column, number
from gpufleet.report.ranges import ranged_figure
from gpufleet.results.base import ExplainedTerm
from gpufleet.results.estimate import ServingEstimate
from gpufleet.results.pools import Pool, PooledDeployment, PooledMachines, PooledServing
from gpufleet.units import GB, MB

LEAST_DIFFERENCE = 0.005


def pools_subject(result: ServingEstimate, pools: PooledServing) -> str:
    """The model, both pools and the engine."""
    return (
        f"{result.model} in {result.weight_format}, prefill on {pool_label(pools.prefill)}, "
        f"decode on {pool_label(pools.decode)}, with {result.engine}"
    )


def pool_label(pool: Pool | PooledMachines) -> str:
    """A pool as it is typed: 2x H100-SXM:4 TP4."""
    return f"{pool.copies}x {pool.gpu}:{pool.num_gpus} ({pool.layout})"


def pools_lines(result: ServingEstimate, pools: PooledServing) -> list[str]:
    """The pool that carries less and how full it is, rates side by side, what lies between, and what fits."""
    d, handover = pools.decode, pools.handover
    binding, size, seconds = pools.prefill if pools.binds == "prefill" else d, handover.bytes_per_gpu, handover.seconds
    said = f"{significant(size / GB)} GB" if size >= GB else f"{significant(size / MB)} MB"
    return [
        f"Binding limit: {result.binding_limit}, at {percent(binding.load_ratio)} of what it carries.",
        matched_line(pools),
        f"Hand-over of a prompt: {said} a GPU {handover.link}: "
        f"{ranged_duration(seconds.value, seconds.low, seconds.high)}.",
        f"Memory: prefill {pools.prefill.verdict}, decode {d.verdict}; {amount_of(d.together)} "
        f"sequences decode at a time on a copy, at most {count(d.most_together)} fit.",
    ]


def matched_line(pools: PooledServing) -> str:
    """Rates side by side, and the copies whose rates match."""
    prefill, decode = (p.carried_requests_per_s.value for p in (pools.prefill, pools.decode))
    more, less = ("Prefill", "decode") if prefill >= decode else ("Decode", "prefill")
    times = significant(max(prefill, decode) / min(prefill, decode))
    copies = f"{plural(pools.matched_prefill, 'prefill copy')} to {plural(pools.matched_decode, 'decode copy')}"
    return f"{more} could carry {times} times what {less} does: {copies.replace('copys', 'copies')} would match."


def pools_tables(pools: PooledServing) -> list[Table]:
    """Both pools, and the parts of the first token."""
    return [pools_table(pools), first_token_table(pools.first_token)]


def pools_table(pools: PooledServing) -> Table:
    """Copies, what they carry, how full they are, and how many the other pool asks for, side by side."""
    columns = [Column("what", "pool"), Column("prefill", "prefill"), Column("decode", "decode")]
    figures: dict[str, Callable[[Pool], str]] = {
        "copies": pool_label,
        "carries, requests/s": lambda pool: ranged_figure(pool.carried_requests_per_s),
        "load": lambda pool: percent(pool.load_ratio),
        "together on a copy": lambda pool: (
            f"{amount_of(pool.together)} of {count(pool.most_together)} "
            f"{'prompts' if pool is pools.prefill else 'sequences'}"
        ),
        "copies to match the other": lambda pool: count(pool.needed_copies),
    }
    return Table.of_cells(columns, [(what, say(pools.prefill), say(pools.decode)) for what, say in figures.items()])


def amount_of(number: float) -> str:
    """A number to three digits, without zeros at the end."""
    return amount(float(f"{number:.3g}"))


def first_token_table(parts: list[ExplainedTerm]) -> Table:
    """What the time to first token is made of."""
    total_s = sum(part.value for part in parts)
    columns: Columns[ExplainedTerm] = [
        column("what makes the TTFT", lambda p: p.name),
        number("time", lambda p: duration(p.value)),
        number("share", lambda p: share(p.value / total_s)),
        column("as", lambda p: p.formula, wraps=True),
    ]
    return Table.of(parts, columns)


def pools_of_plan_table(pools: PooledDeployment) -> Table:
    """The cheapest pools of a plan beside its answer: copies, machines and price, and what limits are planned at."""
    columns = [
        Column("pool", "pool"),
        Column("copies", "copies"),
        Column("machines", "machines", wraps=True),
        Column("carries", "carries, requests/s", align="right"),
    ]
    for_both = " (for both)" if pools.decode.machines is None else ""
    rows = [
        (name, pool_label(pool), machines, significant(pool.carried_requests_per_s))
        for name, pool, machines in (
            ("prefill", pools.prefill, machines_text(pools.prefill) + for_both),
            ("decode", pools.decode, machines_text(pools.decode)),
        )
    ]
    planned = ", ".join(f"{label} {duration(seconds)}" for label, seconds in pools.planned_s.items())
    notes = [pools_price_line(pools), *([f"Planned: {planned}."] if planned else [])]
    return Table.of_cells(columns, rows, "Prefill and decode apart", notes)


def machines_text(pool: PooledMachines) -> str:
    """How many of which machines, or that they are those of the other pool."""
    if pool.machines is None:
        return "the same machines"
    kind = "" if pool.price_kind == "on_demand" else f" {pool.price_kind.replace('_', ' ')}"
    return f"{pool.machines}x {pool.cloud} {pool.instance}{kind}, {pool.region}"


def pools_price_line(pools: PooledDeployment) -> str:
    """The price of both pools, and how it compares with the answer."""
    price = usd_per_hour(pools.usd_per_hour)
    if pools.cost_ratio is None:
        return f"{price}; nothing else serves this."
    share = abs(pools.cost_ratio - 1)
    word = "less" if pools.cost_ratio < 1 else "more"
    beside = "as much as" if share < LEAST_DIFFERENCE else f"{percent(share)} {word} than"
    return f"{price}, {beside} copies that do both."
