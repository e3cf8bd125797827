"""The answer of `gpufleet plan serve` as a page: what to rent, why, what else serves, what was rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from gpufleet.report.detail import WHOLE, Detail, Details, is_screen
from gpufleet.report.launch import launch_tables
from gpufleet.report.mixed import mixed_facts, mixed_headline, mixed_price, mixed_tables, total
from gpufleet.report.numbers import amount, count, percent, plural, significant, usd, usd_per_hour
from gpufleet.report.page import Column, Fact, Page, Table
from gpufleet.report.plan_explained import energy_table, explained_tables
from gpufleet.report.plan_further import drawn_front, further_tables, machines_of
from gpufleet.report.rented import NARROW_PAGE, about, machines, price_lines, titled, try_first, verdict
from gpufleet.report.screen import one_screen
from gpufleet.report.search import rejection_table, relaxation_table
from gpufleet.report.service_page import (
    LOAD,
    OwnReasons,
    ServiceWords,
    answer_tables,
    any_asked,
    brief_notes,
    facts_of,
    notes,
    screen_tables,
    title_of,
    why_table,
)
from gpufleet.report.service_page import headline as headline_of
from gpufleet.report.service_page import next_step as relaxed
from gpufleet.report.service_reasons import bill_table, is_told
from gpufleet.report.service_tables import OwnColumns, ranking_table
from gpufleet.report.text import page_as_text
from gpufleet.report.words import engine_words
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.results.today import Today
from gpufleet.units import PERCENT

SCREEN_REFUSALS = 4
AS_PUBLISHED = "as in published traces"
LOOSEN = "ask again with looser limits (--slo) or more machines to choose from."
REPLAY_FIRST = "replay it request by request (--verify), "
EIGHT_BIT_CACHES, SAID = ("fp8", "int8"), ("given", "file", "config")
ROOM, USD_PER_HOUR, PRECISION = "KV room", "USD/h", "precision"


def plan_page(
    plan: ServePlan,
    *,
    explain: bool = False,
    details: Details = WHOLE,
    all_flips: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
    num_rows: int | None = None,
) -> Page:
    """Headline, reasons, ranking and rejections; without an answer, what would have to give way."""
    most = SCREEN_REFUSALS if is_screen(details) and Detail.REJECTED not in details else None
    further, explained = further_tables(plan, all_flips, most), explained_tables(plan) if explain else []
    on_today, of_today = [*sized_by_draws(plan), *verdict_on_today(plan), *price_lines(plan)], today_tables(plan)
    if plan.deployments and is_screen(details):
        page = Page(headline(plan), (), brief_notes(plan, WORDS, not_among_reasons(plan), today), on_today)
        tables_over = partial(own_screen, plan, details, width, num_rows)
        fitting = one_screen(page, plan.rejections, tables_over, details, width)
        return replace(fitting, tables=[*drawn_front(plan, width), *further, *of_today, *fitting.tables, *explained])
    rejected = rejection_table(plan.rejections, Detail.REJECTED in details)
    energy = [energy_table(plan)] if plan.deployments and Detail.ENERGY in details else []
    tables = [*of_today, *served_tables(plan, width), *further, rejected, *energy, *explained]
    said = notes(plan, WORDS, not_among_reasons(plan), today)
    return Page(headline(plan), tables, said, on_today, facts(plan), title(plan), next_step(plan))


def own_screen(plan: ServePlan, details: Details, width: int, num_rows: int | None, over: int) -> list[Table]:
    """The answer in a few lines a part, with how it is started, two offers together where they cost less."""
    started = launch_tables(plan.answer.launch, plan.answer.replicas, is_brief=True) if plan.is_feasible else []
    energy = [energy_table(plan)] if Detail.ENERGY in details else []
    return [*screen_tables(plan, WORDS, details, width, num_rows, started, over), *mixed_tables(plan), *energy]


def sized_by_draws(plan: ServePlan) -> list[str]:
    """What draws of the engine's speed made of the plan, where it was replayed."""
    if plan.verification is None:
        return []
    from gpufleet.report.verification import sized_line

    return sized_line(plan.verification)


def verdict_on_today(plan: ServePlan) -> list[str]:
    """What to do with what runs today, where that was said."""
    if plan.today is None:
        return []
    from gpufleet.report.today import price_lines as prices_of_today
    from gpufleet.report.today import verdict_line

    return [verdict_line(plan, plan.today), *prices_of_today(plan, plan.today)]


def today_tables(plan: ServePlan) -> list[Table]:
    """What runs today; what writes it is loaded then."""
    if plan.today is None:
        return []
    from gpufleet.report.today import tables_of_today

    return tables_of_today(plan, plan.today)


def reasons(plan: ServePlan) -> str:
    """Headline and reasons as plain text."""
    nothing = mixed_tables(plan)[:1] or [relaxation_table(plan)]
    tables = [*bill_table(plan), why_table(plan, own_reasons(plan))] if plan.deployments else nothing
    return page_as_text(Page(headline(plan), tables), NARROW_PAGE)


def plan_rows_page(plan: ServePlan) -> Page:
    """The ranking alone: what a CSV holds; of two offers together, the two."""
    if plan.mix is None or plan.deployments:
        return Page(headline(plan), [ranking_table(plan, own_columns(plan))])
    deployments = [part.deployment for part in plan.mix.parts]
    parts = plan.model_copy(update={"deployments": deployments})
    shares = [part.share_ratio for part in plan.mix.parts]
    table = ranking_table(parts, columns_of(deployments))
    rows = [{**row, "share_ratio": share} for row, share in zip(table.rows, shares, strict=True)]
    share = Column("share_ratio", "share", where="data")
    return Page(headline(plan), [replace(table, columns=[share, *table.columns], rows=rows)])


def served_tables(plan: ServePlan, width: int) -> list[Table]:
    """What serves: one offer, and two where they cost less or none alone has enough; else what would have to change."""
    if not plan.is_feasible:
        return [] if plan.deployments else [relaxation_table(plan)]
    if not plan.deployments:
        return mixed_tables(plan)
    started = launch_tables(plan.answer.launch, plan.answer.replicas)
    return [*answer_tables(plan, WORDS, width, drawn_front(plan, width)), *started, *mixed_tables(plan)]


def lengths_text(plan: ServePlan) -> str:
    """Tokens of prompts and answers."""
    return f"{amount(plan.input_tokens)} tokens in, {amount(plan.output_tokens)} out"


def asked_text(plan: ServePlan) -> str:
    """The model, its rate, and how long requests are, with the spread that counts as much as the mean."""
    kinds = f" in {plan.num_classes} classes" if plan.num_classes > 1 else ""
    return f"{any_asked(plan)}{kinds}, {spread_text(plan)}"


def spread_text(plan: ServePlan) -> str:
    """Tokens of prompts and answers with their spread, where they differ: that nobody said it, or what somebody did.

    Of several classes the means.
    """
    ends = {
        "input": (plan.input_p90_tokens, plan.input_p95_tokens),
        "output": (plan.output_p90_tokens, plan.output_p95_tokens),
    }
    said = {name: percentile_words(name not in plan.lengths_assumed, *tokens) for name, tokens in ends.items()}
    for name in plan.lengths_assumed[:1]:
        said[name] = [*said[name], AS_PUBLISHED]
    prompts, answers = (f" ({' '.join(words)})" if words else "" for words in said.values())
    return f"{amount(plan.input_tokens)} tokens in{prompts}, {amount(plan.output_tokens)} out{answers}"


def percentile_words(is_stated: bool, p90: float | None, p95: float | None) -> list[str]:
    """How far tokens spread around their mean; where it was said, that it is the mean."""
    if p95 is None:
        return []
    stated = [f"mean; p90 {count(p90)},"] if is_stated and p90 is not None else []
    return [*stated, f"p95 {count(p95)}"]


def headline(plan: ServePlan) -> str:
    """The answer in one sentence; that no machines keep what was promised, and what the first ones break."""
    if not plan.deployments and plan.mix is not None:
        sure = verdict(plan, any(part.deployment.is_tight for part in plan.mix.parts))
        return f"{asked_text(plan)}: {mixed_headline(plan.mix)}. {sure}"
    if not plan.deployments or plan.is_feasible:
        return headline_of(plan, WORDS)
    d, found = plan.answer, plan.verification
    replayed = [o.replayed for row in (found.of_answer if found else []) for o in row.objectives]
    broken = ", ".join(dict.fromkeys(o.label for o in replayed if not o.is_kept))
    return (
        f"{asked_text(plan)}: no machines keep every limit when requests are replayed one by one. {machines(d)} "
        f"({usd_per_hour(d.usd_per_hour)}), which would do on paper, breaks {broken}, and so does what carries up to "
        "four times as much."
    )


def facts(plan: ServePlan) -> list[Fact]:
    """The answer in a few figures; of two offers together what both cost."""
    if plan.deployments or plan.mix is None:
        return facts_of(plan, WORDS)
    return mixed_facts(plan.mix)


def title(plan: ServePlan) -> str:
    """The answer in words: GPUs and providers, what they serve, what a month costs; nothing where nothing serves."""
    if not plan.is_feasible:
        return ""
    if plan.deployments or plan.mix is None:
        return title_of(plan)
    parts = [part.deployment for part in plan.mix.parts]
    return titled(parts, "serve", asked_text(plan), f"{total(plan.mix, usd, plan.mix.usd_per_month)} a month")


def next_step(plan: ServePlan) -> str:
    """What to do with the answer; a plan that was not replayed may be."""
    if not plan.is_feasible:
        return LOOSEN if plan.deployments else relaxed(plan)
    if not plan.deployments and plan.mix is not None:
        return try_first([part.deployment for part in plan.mix.parts])
    return try_first(plan.deployments[:1], "" if plan.verification else REPLAY_FIRST)


def own_columns(plan: ServePlan) -> OwnColumns:
    """Layouts, what output tokens cost, and what a row saves beside what runs today."""
    return columns_of(plan.deployments, plan.today)


def columns_of(deployments: Sequence[Deployment], today: Today | None = None) -> OwnColumns:
    """The same of any deployments."""
    return OwnColumns(
        data=("kv_precision", "layout", "usd_per_million_output_tokens"),
        replicas=[f"{d.replicas}x {d.layout}" for d in deployments],
        unit_cost=[usd(d.usd_per_million_output_tokens) for d in deployments],
        saves=[] if today is None else [today.saved_by(d.avoidable_usd_per_hour) for d in deployments],
    )


def not_among_reasons(plan: ServePlan) -> list[str]:
    """What is said of a plan beside the reasons for its answer."""
    among_reasons = plan.quality_costs.get(plan.answer.weight_format) if plan.deployments else None
    return [note for note in plan.notes if note != among_reasons]


def own_reasons(plan: ServePlan, *, is_alone: bool = True) -> OwnReasons:
    """The lines of a model that writes; a plan among others is not asked further."""
    d = plan.answer
    return OwnReasons(
        layout_line(d),
        load_line(d),
        f"{usd(d.usd_per_request)} per request, ",
        quality=[*quality_line(plan), *cache_line(plan)],
        is_limit_told=bool(plan.looser_limits),
        cheaper=lower_precision_line(plan),
        further=mix_line(plan, is_alone),
        flips=flip_line(plan, " More: --flips." if is_alone else ""),
    )


def layout_line(d: Deployment) -> str:
    """Replicas, layout, formats, engine and GPUs without work."""
    size = plural(d.gpus_per_replica, "GPU") + (" each" if d.replicas > 1 else "")
    idle = f"; {plural(d.idle_gpus, 'GPU')} idle but paid for" if d.idle_gpus else ""
    return (
        f"{plural(d.replicas, 'replica')} of {d.layout} ({size}) in {d.weight_format} with "
        f"{engine_words(d.engine, d.drafts)}, KV cache {d.kv_precision}{idle}."
    )


def load_line(d: Deployment) -> str:
    """How full a replica is, in time and in memory, with the slack of both limits."""
    load, room = (f" ({percent(d.slack_ratio[name])} slack)" if name in d.slack_ratio else "" for name in (LOAD, ROOM))
    return (
        f"Load factor {significant(d.load_ratio, 2)} of what a replica sustains{load}; {significant(d.batch, 2)} "
        f"sequences decode at a time, {count(d.largest_batch)} fit{room}."
    )


def flip_line(plan: ServePlan, more: str) -> list[str]:
    """The price at which another row wins: the nearest of the answer's own."""
    flip = next((f for f in plan.flips or [] if f.is_rise and f.unit == USD_PER_HOUR and f.winner is not None), None)
    if flip is None or flip.winner is None or flip.value is None or flip.change_ratio is None:
        return []
    rise = f"{significant(PERCENT * flip.change_ratio, 2)}%"
    return [f"Flips at {usd_per_hour(flip.value)} per machine (+{rise}): then {machines_of(flip.winner)}.{more}"]


def mix_line(plan: ServePlan, is_alone: bool) -> list[str]:
    """That two offers together cost less; beside other models which, as no table of them follows."""
    if plan.mix is None:
        return []
    if is_alone:
        return [f"Two offers together cost less: {mixed_price(plan.mix)}, see below."]
    which = " + ".join(machines_of(part.deployment) for part in plan.mix.parts)
    return [f"Planned alone, two offers together would cost {mixed_price(plan.mix)}: {which}."]


def quality_line(plan: ServePlan) -> list[str]:
    """What the chosen weights cost in quality, where they are below the checkpoint's."""
    cost = plan.quality_costs.get(plan.answer.weight_format)
    return [] if cost is None else [f"Quality: {cost}."]


def cache_line(plan: ServePlan) -> list[str]:
    """That the KV cache has fewer bits than nobody asked for."""
    d, is_chosen = plan.answer, any(i.name == "KV cache" and i.origin in SAID for i in plan.inputs)
    if is_chosen or d.kv_precision not in EIGHT_BIT_CACHES:
        return []
    return [f"KV cache {d.kv_precision} costs quality too: {d.engine}'s default (--kv-precision bf16: 16 bits)."]


def lower_precision_line(plan: ServePlan) -> list[str]:
    """What a checkpoint of lower precision would save."""
    d = plan.lower_precision_alternative
    if d is None or is_told(plan, PRECISION):
        return []
    run = f"{machines(d)}, {d.layout}"
    return [f"With {d.weight_format} weights {about(d)}{usd_per_hour(d.usd_per_hour)} ({run}): --precision fp8."]


WORDS = ServiceWords[ServePlan](
    asked_text,
    lengths_text,
    lambda plan: (plan.answer.usd_per_million_output_tokens, "per 1M output tokens"),
    own_reasons,
    own_columns,
    explained_tables,
    questions=("--flips", "--why-not L40S:4", "--pareto"),
)
