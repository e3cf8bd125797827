"""What `gpufleet plan serve --explain` adds: inputs, formulas of the objectives, and the figures of the answer."""

from __future__ import annotations

from gpufleet.report.numbers import count, significant, usd
from gpufleet.report.page import Column, Table
from gpufleet.results.base import Input
from gpufleet.results.plan import ServePlan

FORMULAS = (
    (
        "TTFT",
        "a lone request (handling, tokens, prefill) + the running step + the wait for others' prompts (M/D/1)",
    ),
    ("TPOT", "one decode step at the batch + the share of neighbours' prompts that lengthens it"),
    ("latency", "TTFT + (output tokens - 1) x TPOT, both at the same percentile: an upper bound"),
    ("percentiles", "over requests; TPOT at that percentile of the batch (Poisson), TTFT at that of the waiting time"),
    ("batch", "B = rate per replica x (prefill + output tokens x TPOT(B))"),
    ("load factor", "rate per replica / the most that a replica sustains; refused above 0.95"),
    (
        "capacity",
        "replicas x the highest rate at which one keeps all objectives, load <= 0.95 and KV room for a burst",
    ),
    ("headroom", "capacity / rate - 1"),
    ("range", "10th to 90th percentile, from errors on measurements that the fit had not seen"),
    ("$/month", "$/h x 730 h"),
    ("$/1M out", "$/h / (rate x output tokens x 3,600 s) x 1,000,000"),
)


def explained_tables(plan: ServePlan) -> list[Table]:
    """Inputs, formulas and, where there is an answer, its figures."""
    figures = [figures_table(plan)] if plan.deployments else []
    return [inputs_table(plan.inputs), *figures, formulas_table()]


def inputs_table(inputs: list[Input]) -> Table:
    """Every input as it was read, with where it came from."""
    columns = [Column("name", "input"), Column("value", "read as", wraps=True), Column("origin", "origin")]
    return Table(columns, [i.model_dump() for i in inputs], "Inputs")


def formulas_table() -> Table:
    """How the figures are computed, in words."""
    columns = [Column("name", "figure"), Column("formula", "is", wraps=True)]
    return Table(columns, [{"name": name, "formula": formula} for name, formula in FORMULAS], "How it is computed")


def figures_table(plan: ServePlan) -> Table:
    """The numbers behind the answer."""
    d = plan.answer
    rate = plan.rate_requests_per_s / d.replicas
    figures = (
        ("rate per replica", f"{significant(rate)} requests/s"),
        ("load factor", f"{d.load_ratio:.2f}"),
        ("mean batch", f"{significant(d.batch)} sequences"),
        ("largest batch", f"{count(d.largest_batch)} sequences"),
        ("capacity", f"{significant(d.requests_per_s_capacity.value)} requests/s"),
        ("price of a machine", f"{usd(d.price_per_instance_usd_per_hour)}/h, {d.price_basis}, {d.price_as_of}"),
        ("parameters", f"{count(plan.num_parameters)}, {count(plan.num_active_parameters)} active"),
    )
    columns = [Column("name", "figure"), Column("value", "value")]
    return Table(columns, [{"name": name, "value": value} for name, value in figures], "Figures of the answer")
