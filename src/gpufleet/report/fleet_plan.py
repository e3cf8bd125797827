"""The answer to several models at once as a page: totals first, then each model, then what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from gpufleet.report import encoder_service
from gpufleet.report.detail import WHOLE, Detail, Details
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import amount, percent, plural, usd, usd_per_hour, usd_per_month
from gpufleet.report.page import Column, Columns, Fact, Page, Row, Table, column, number
from gpufleet.report.plan import lengths_text, own_reasons
from gpufleet.report.rented import (
    are_regions_asked,
    gpus,
    in_doubt,
    kind,
    marked,
    place,
    range_word,
    short_machines,
    try_first,
)
from gpufleet.report.search import (
    assumed_line,
    dated_sources,
    inputs_table,
    preferred_line,
    rejection_table,
    relaxation_table,
)
from gpufleet.report.service_page import nothing_table, verdict_of, why_table
from gpufleet.report.service_reasons import bill_table
from gpufleet.report.service_tables import objective_table
from gpufleet.results.encoders import EncoderServePlan
from gpufleet.results.fleet import FleetPlan, MissingMachines, SharedDeployment, TenantPlan
from gpufleet.results.plan import Deployment, RentedService, ServePlan, ServicePlan
from gpufleet.results.rented import OfferedMachines
from gpufleet.units import HOURS_PER_MONTH


def fleet_page(fleet: FleetPlan, *, explain: bool = False, details: Details = WHOLE, today: date | None = None) -> Page:
    """Totals, a row for each model, shared machines; then of each why, its latency, its start, what was rejected."""
    tables = [models_table(fleet), *([shared_table(fleet)] if fleet.shared else [])]
    for index, plan in enumerate(fleet.every_plan):
        own = tables_of(plan, tenancies(fleet, index), details)
        tables += [titled(table, f"{name_of(fleet, index)}: {table.title}") for table in own]
    if explain:
        named = ((name_of(fleet, index), plan.inputs) for index, plan in enumerate(fleet.every_plan))
        tables += [titled(inputs_table(inputs), f"Inputs of {name}") for name, inputs in named]
    return Page(headline(fleet), tables, notes(fleet, today), (), facts(fleet), title(fleet), next_step(fleet))


def name_of(fleet: FleetPlan, index: int) -> str:
    """A model's name; where it stands in the list more than once, with its number among its own."""
    models = [plan.model for plan in fleet.every_plan]
    model, total = models[index], models.count(models[index])
    return model if total == 1 else f"{model} ({models[: index + 1].count(model)} of {total})"


def tenancies(fleet: FleetPlan, index: int) -> list[TenantPlan]:
    """Where the replicas of a model share machines."""
    return [tenant for shared in fleet.shared for tenant in shared.tenants if tenant.plan == index]


def tables_of(plan: ServicePlan, tenants: Sequence[TenantPlan], details: Details) -> list[Table]:
    """What is said of one model, as on a page of its own but for the ranking; started as it shares, where it does."""
    rejected = rejection_table(plan.rejections, Detail.REJECTED in details)
    if isinstance(plan, EncoderServePlan):
        return [*tables_of_encoder(plan), rejected]
    if not isinstance(plan, ServePlan) or not plan.deployments:
        return [relaxation_table(plan), rejected]
    alone = launch_tables(plan.answer.launch, plan.answer.replicas)
    started = [table for t in tenants for table in launch_tables(t.launch, t.replicas)] or alone
    why, lengths = why_table(plan, own_reasons(plan, is_alone=False)), lengths_text(plan)
    if not tenants:
        return [*bill_table(plan), why, objective_table(plan, lengths), *started, rejected]
    latency = [objective_table(plan, lengths, t.latency) for t in tenants]
    alone_too = [titled(table, f"{table.title}, if planned alone") for table in (*bill_table(plan), why)]
    return [*latency, *started, *alone_too, rejected]


def tables_of_encoder(plan: EncoderServePlan) -> list[Table]:
    """The same of an encoder, which shares no machines."""
    if not plan.deployments:
        return [nothing_table(plan, encoder_service.WORDS)]
    latency = objective_table(plan, encoder_service.asked_text(plan))
    return [*bill_table(plan), why_table(plan, encoder_service.reasons(plan)), latency]


def titled(table: Table, title: str) -> Table:
    """The same table under another title."""
    return replace(table, title=title)


def fleet_rows_page(fleet: FleetPlan) -> Page:
    """The models alone: what a CSV holds."""
    return Page(headline(fleet), [models_table(fleet)])


def headline(fleet: FleetPlan) -> str:
    """What all costs and how surely all models keep their limits at once, or what hinders."""
    models = plural(len(fleet.every_plan), "model")
    if fleet.missing:
        return f"{models}: {'; '.join(map(missing_words, fleet.missing))}. {NO_MIXES}"
    if fleet.usd_per_hour is None:
        mixed = [plan for plan in fleet.plans if not plan.deployments and plan.mix is not None]
        alone = "".join(f" Planned alone, {plan.model} is served by two machine types." for plan in mixed)
        hindered = f"{models}: {'no one machine type' if mixed else 'nothing on offer'} serves"
        return f"{hindered} {', '.join(fleet.unserved)}.{f'{alone} {NO_MIXES}' if mixed else ''}"
    total = f"{usd_per_hour(fleet.usd_per_hour)}, {usd_per_month(fleet.usd_per_month)}"
    if not fleet.is_within_budget:
        return f"{models}: {total} at least, over the budget of {budget_words(fleet.budget_usd_per_hour)}."
    apart, surely = fleet.usd_per_hour_apart or fleet.usd_per_hour, fleet.held_together
    saved = percent(1 - fleet.usd_per_hour / apart)
    beside = f"; {usd_per_hour(apart)} with machines of their own ({saved} saved)" if fleet.shared else ""
    sure = "" if surely is None else f" All hold at once with {percent(surely)} confidence."
    return f"{models} together{in_doubt(*bought(fleet))}: {total}{beside}.{sure}"


def title(fleet: FleetPlan) -> str:
    """What all costs by the month; nothing where not all is served."""
    if fleet.missing or fleet.usd_per_hour is None or not fleet.is_within_budget:
        return ""
    models = plural(len(fleet.every_plan), "model")
    return f"{models} together for {usd(fleet.usd_per_hour * HOURS_PER_MONTH)} a month{in_doubt(*bought(fleet))}."


def next_step(fleet: FleetPlan) -> str:
    """What to do with the answer."""
    if not title(fleet):
        return "change what is named above, or give the models more to choose from (--gpus, --clouds), and ask again."
    return try_first([plan.deployments[0] for plan in fleet.every_plan if plan.deployments])


def facts(fleet: FleetPlan) -> list[Fact]:
    """What all costs, by the budget and beside machines of their own; nothing where not all is served."""
    if fleet.missing or fleet.usd_per_hour is None:
        return []
    apart, surely, budget = fleet.usd_per_hour_apart, fleet.held_together, fleet.budget_usd_per_hour
    apart = apart or fleet.usd_per_hour
    saved = [Fact("Saved by sharing", percent(1 - fleet.usd_per_hour / apart), f"{usd_per_hour(apart)} apart")]
    kept = f"{'within' if fleet.is_within_budget else 'over'} the budget of {budget_words(budget)}"
    return [
        Fact("Per hour", usd(fleet.usd_per_hour)),
        *([] if surely is None else [Fact("All hold at once", percent(surely), "confidence")]),
        Fact("Models", str(len(fleet.every_plan)), "" if budget is None else kept),
        *(saved if fleet.shared else []),
        *(model_fact(fleet, index, plan) for index, plan in enumerate(fleet.every_plan) if plan.deployments),
    ]


def model_fact(fleet: FleetPlan, index: int, plan: ServicePlan) -> Fact:
    """The verdict on one model, with its GPUs: those that it shares, and as it runs there, where it does."""
    shared = [f"part of {gpus(s)}" for s in fleet.shared if any(tenant.plan == index for tenant in s.tenants)]
    sure = verdict_of(plan, [tenant.latency for tenant in tenancies(fleet, index)])
    note = "; ".join(filter(None, (*(shared or [gpus(plan.deployments[0])]), sure.note)))
    return replace(sure, label=name_of(fleet, index), note=note)


def bought(fleet: FleetPlan) -> list[OfferedMachines]:
    """What is rented for all models together: machines that they share, and those of each alone."""
    alone = [plan for index, plan in enumerate(fleet.every_plan) if not tenancies(fleet, index)]
    return [*fleet.shared, *(d for plan in alone for d in plan.deployments[:1])]


def budget_words(usd_hourly: float | None) -> str:
    """What may be spent, by the hour and by the month."""
    if usd_hourly is None:
        return usd_per_hour(None)
    return f"{usd_per_hour(usd_hourly)} ({usd_per_month(usd_hourly * HOURS_PER_MONTH)})"


NO_MIXES = (
    "Two machine types for one model were not tried and may fit: plan a model alone (it may get two), and the "
    "others within what is left in quotas.csv."
)


def missing_words(m: MissingMachines) -> str:
    """By how many machines an offer falls short."""
    if m.gpu_quota is not None:
        return f"together they need {m.needed} GPUs, the quota is {m.can_be_had}: {m.gpu_quota}"
    name = f"{m.cloud} {m.instance.removeprefix('Standard_')}, {m.region}, {m.price_kind.replace('_', ' ')}"
    is_own = m.price_kind == OWNED
    bound = f"{m.can_be_had} available" if is_own else f"the quota or reservation allows {m.can_be_had}"
    return f"together they need {plural(m.needed, 'machine')}, {bound}: {name}"


def models_table(fleet: FleetPlan) -> Table:
    """One row for each model: its demand and the cheapest machines of its own."""
    columns = [
        *(Column(key, key, where="data") for key in DATA_COLUMNS),
        Column("name", "model", where="text"),
        Column("asked", "requests/s", align="right", where="text"),
        Column("price", "$/h", align="right", where="text"),
        Column("machines", "machines", where="text", wraps=True),
        Column("where", "region", priority=region_priority(fleet, 3), where="text"),
        Column("bought", "price", where="text", qualifies=True),
        Column("gpus", "GPUs", priority=1, where="text"),
        Column("shape", "replicas", where="text"),
        Column("spare", "spare", align="right", priority=2, where="text"),
        Column("range", "range", where="text"),
        Column("binds", "set by", priority=4, where="text"),
    ]
    rows = [model_row(fleet, i, plan) for i, plan in enumerate(fleet.every_plan)]
    shown = any(row["shares"] for row in rows)
    legend = ["*: shares machines, see below; the row shows its machines if planned alone."] if shown else []
    return Table(columns, rows, "Each model on the cheapest machines of its own", legend)


def region_priority(fleet: FleetPlan, otherwise: int) -> int:
    """Regions that were asked for stay on every page."""
    return 0 if any(are_regions_asked(plan.inputs) for plan in fleet.every_plan) else otherwise


def model_row(fleet: FleetPlan, index: int, plan: ServicePlan) -> Row:
    """The cells of one model."""
    d = plan.deployments[0] if plan.deployments else None
    shares = bool(tenancies(fleet, index))
    return {
        **{key: getattr(d, key, None) for key in DATA_COLUMNS},
        "model": plan.model,
        "rate_requests_per_s": plan.rate_requests_per_s,
        "shares": shares,
        "price_as_of": d and d.stated_price_day,
        "name": name_of(fleet, index) + ("*" if shares else ""),
        "asked": amount(plan.rate_requests_per_s),
        **(NO_ANSWER if d is None else answer_cells(d, plan.confidence)),
    }


def answer_cells(d: RentedService, confidence: float) -> dict[str, object]:
    """Machines and price of a model's own deployment."""
    return {
        "price": marked(d, usd(d.usd_per_hour)),
        "machines": short_machines(d),
        "where": place(d),
        "bought": kind(d),
        "gpus": gpus(d),
        "shape": f"{d.replicas}x {d.layout}" if isinstance(d, Deployment) else f"{d.replicas}x",
        "spare": percent(d.spare_ratio),
        "range": range_word(d.is_tight, confidence),
        "binds": d.binding_limit,
    }


OWNED = "owned"
DATA_COLUMNS = (
    "model", "rate_requests_per_s", "usd_per_hour", "cloud", "region", "instance", "instance_count", "gpu",
    "price_kind", "price_basis", "price_source", "price_as_of", "price_first_seen", "layout", "replicas", "shares",
)  # fmt: skip
NO_ANSWER = {
    **dict.fromkeys(("price", "where", "bought", "gpus", "shape", "spare", "range", "binds"), "-"),
    "machines": "nothing serves it",
}


def shared_table(fleet: FleetPlan) -> Table:
    """Machines that hold replicas of several models."""
    columns: Columns[SharedDeployment] = [
        number("$/h", lambda s: marked(s, usd(s.usd_per_hour))),
        column("price", lambda s: s.price_kind.replace("_", " "), qualifies=True),
        column("machines", short_machines),
        column("region", place, priority=region_priority(fleet, 1)),
        column(
            "replicas",
            lambda s: "; ".join(f"{t.replicas}x {t.layout} {name_of(fleet, t.plan)}" for t in s.tenants),
            wraps=True,
        ),
        number("idle GPUs", lambda s: s.idle_gpus),
    ]
    return Table.of(fleet.shared, columns, "Shared machines")


def notes(fleet: FleetPlan, today: date | None) -> list[str]:
    """What is to be said of each model once, how surely each holds, prices with dates, the hash."""
    said = dict.fromkeys((*fleet.notes, *(note for plan in fleet.every_plan for note in plan.notes)))
    each = ", ".join(f"{name_of(fleet, i)} {percent(c)}" for i, c in enumerate(fleet.held_confidences))
    held = [f"Holds: {each}; copies of one engine on one GPU err together, all others apart."]
    return [
        *(f"{note.rstrip('.')}." for note in said),
        *([] if fleet.held_together is None else held),
        *dict.fromkeys(x for plan in fleet.every_plan for x in (*preferred_line(plan.inputs), *assumed_line(plan))),
        *dated_sources(fleet.price_sources, today),
        f"Hash of inputs and prices: {fleet.input_hash}.",
    ]
