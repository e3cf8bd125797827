"""The page of a service, whatever its model does with a request: what to rent, why, what else, what was rejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Generic, TypeVar

from gpufleet.domain.confidence import EXPECTED
from gpufleet.records import dataclass
from gpufleet.report.detail import WHOLE, Detail, Details, is_screen
from gpufleet.report.numbers import (
    count,
    duration,
    percent,
    plural,
    several,
    significant,
    spare,
    usd,
    usd_per_hour,
    usd_per_month,
)
from gpufleet.report.page import Fact, Page, Table, formulas_table, lines_table
from gpufleet.report.rented import (
    NARROW_PAGE,
    kind,
    price_lines,
    rented_fact,
    rented_words,
    titled,
    try_first,
    until_line,
    verdict,
    verdict_fact,
)
from gpufleet.report.screen import (
    NUM_REASONS,
    fewer_levers,
    is_crowded,
    latency_line,
    one_screen,
    price_table,
    screen_notes,
    screen_ranking,
    screen_rejections,
)
from gpufleet.report.search import (
    LOWER_PRECISION,
    OTHER_ENGINES,
    assumed_line,
    inputs_table,
    notes_of,
    rejection_table,
    relaxation_table,
)
from gpufleet.report.service_reasons import (
    aged_row_line,
    bill_table,
    binding_line,
    busy_words,
    capacity_line,
    hours_line,
    hours_words,
    idle_line,
    is_told,
    own_line,
    price_words,
    risk_line,
    sets_the_number,
    spot_line,
    steadier_line,
    surer_line,
    total,
    why_nothing,
)
from gpufleet.report.service_tables import OwnColumns, objective_table, ranking_table, rest_of_bill_tables
from gpufleet.report.words import grade_line
from gpufleet.results.base import Figure
from gpufleet.results.plan import RentedService, ServicePlan

P_contra = TypeVar("P_contra", bound=ServicePlan, contravariant=True)
LOAD, PRICE_KIND, SPOT, MEASURED, WHY = "load", "price_kind", "spot", "measured", "Why this one"
FORMULAS = (
    ("capacity", "replicas x the highest rate at which one keeps all objectives and load <= 0.95"),
    ("headroom", "capacity / rate - 1"),
    ("$/month", "$/h x 730 h"),
)


@dataclass(frozen=True)
class OwnReasons:
    """Lines of a kind of model: how replicas lie, how full they are, what parts cost, then those only it has.

    `is_limit_told`: what a looser limit would save stands above, and says why GPUs are mostly idle.
    """

    layout: str
    load: str
    price: str
    quality: Sequence[str] = ()
    is_limit_told: bool = False
    cheaper: Sequence[str] = ()
    further: Sequence[str] = ()
    flips: Sequence[str] = ()


@dataclass(frozen=True)
class ServiceWords(Generic[P_contra]):
    """What pages of one kind of service say in words of their own.

    `asked` begins the headline, `work` says what a request is, `unit_cost` what the answer costs by a unit of it.
    """

    asked: Callable[[P_contra], str]
    work: Callable[[P_contra], str]
    unit_cost: Callable[[P_contra], tuple[float, str]]
    reasons: Callable[[P_contra], OwnReasons]
    columns: Callable[[P_contra], OwnColumns]
    explained: Callable[[P_contra], list[Table]]
    questions: Sequence[str] = ()
    started: Callable[[P_contra], list[Table]] = lambda _: []
    no_objective: str = "No objective was asked for (--slo): the cheapest that keeps up"
    tried: str = "layouts"
    lower_precision: str = LOWER_PRECISION
    other_engines: str = OTHER_ENGINES


P = TypeVar("P", bound=ServicePlan)


def service_page(
    plan: P,
    words: ServiceWords[P],
    *,
    explain: bool = False,
    details: Details = WHOLE,
    today: date | None = None,
    width: int = NARROW_PAGE,
    num_rows: int | None = None,
) -> Page:
    """Headline, reasons, ranking and rejections; without an answer, what would have to give way."""
    explained = words.explained(plan) if explain else []
    if plan.deployments and is_screen(details):
        page = Page(headline(plan, words), (), brief_notes(plan, words, plan.notes, today))
        tables_over = partial(screen_tables, plan, words, details, width, num_rows, words.started(plan))
        fitting = one_screen(page, plan.rejections, tables_over, details, width)
        return replace(fitting, tables=[*fitting.tables, *explained])
    answer = [*answer_tables(plan, words, width), *words.started(plan)] if plan.deployments else []
    rejected = rejection_table(plan.rejections, Detail.REJECTED in details)
    tables = [*(answer or [nothing_table(plan, words)]), rejected, *explained]
    said, facts = notes(plan, words, plan.notes, today), facts_of(plan, words)
    return Page(headline(plan, words), tables, said, price_lines(plan), facts, title_of(plan), next_step(plan))


def screen_tables(
    plan: P,
    words: ServiceWords[P],
    details: Details,
    width: int,
    num_rows: int | None = None,
    started: Sequence[Table] = (),
    over: int = 0,
) -> list[Table]:
    """Reasons, ranking, start and rejections in a few lines each, fewer by what is `over`; `details` are in full."""
    own, bill = words.reasons(plan), bill_table(plan, width, fewer_levers(over))
    brief = [] if Detail.LIMITS in details else short_reasons(plan, own, bool(bill), is_crowded(over))
    in_full = [] if brief else [why_table(plan, own), objective_table(plan, words.work(plan))]
    return [
        *bill,
        *(in_full or [lines_table(WHY, brief)]),
        screen_ranking(ranking_table(plan, words.columns(plan), width), width, num_rows, over),
        *rest_of_bill_tables(plan),
        *started,
        *screen_rejections(plan.rejections, details, width, over),
        *([price_table(plan.price_sources)] if Detail.PRICES in details else []),
    ]


def short_reasons(plan: ServicePlan, own: OwnReasons, is_bill_told: bool, is_brief: bool) -> list[str]:
    """The reasons that matter most, those first that say what the answer is and how surely it holds.

    In brief without what nobody doubts or asked for.
    """
    d = plan.deployments[0]
    binds = f"{sets_the_number(d)}." if d.binding in plan.objectives else binding_line(plan, d)
    is_spot_cheaper = plan.spot_alternative is not None and plan.spot_alternative.usd_per_hour < d.usd_per_hour
    lines = [
        own.layout,
        latency_line(plan, is_brief),
        f"{capacity_line(plan, d)} {binds}",
        *([] if is_brief and d.grade == MEASURED else [grade_line(d.grade, d.drafts)]),
        *own.quality,
        *hours_line(d),
        *until_line(d),
        *own_line(d),
        *risk_line(d),
        *surer_line(plan),
        *aged_row_line(plan),
        *own.cheaper,
        *(spot_line(plan) if is_spot_cheaper and not is_told(plan, PRICE_KIND, SPOT) else []),
        *own.further,
        *([] if is_bill_told else own.flips),
    ]
    return lines[:NUM_REASONS]


def brief_notes(plan: P, words: ServiceWords[P], said: Sequence[str], today: date | None) -> list[str]:
    """What is said of a plan with an answer on one screen, and what may be asked next."""
    return screen_notes(plan, [*said, *free_line(plan, words)], assumed_line(plan), today, words.questions)


def free_line(plan: P, words: ServiceWords[P]) -> list[str]:
    """That nobody asked for a limit on the answer."""
    return [words.no_objective] if plan.deployments and not plan.objectives else []


def service_rows_page(plan: P, words: ServiceWords[P]) -> Page:
    """The ranking alone: what a CSV holds."""
    return Page(headline(plan, words), [ranking_table(plan, words.columns(plan))])


def answer_tables(plan: P, words: ServiceWords[P], width: int, front: Sequence[Table] = ()) -> list[Table]:
    """Latency, cost against it, reasons and ranking of a plan with an answer; without a front its rows are drawn.

    What draws them is loaded then.
    """
    ranking = ranking_table(plan, words.columns(plan), width)
    if not front:
        from gpufleet.report.front import service_picture

        ranking = replace(ranking, picture=service_picture(plan))
    why, latency = why_table(plan, words.reasons(plan)), objective_table(plan, words.work(plan))
    return [latency, *bill_table(plan), why, ranking, *front, *rest_of_bill_tables(plan)]


def nothing_table(plan: P, words: ServiceWords[P]) -> Table:
    """What would have to give way, where nothing serves."""
    return relaxation_table(plan, words.lower_precision, words.other_engines)


def headline(plan: P, words: ServiceWords[P]) -> str:
    """The answer in one sentence."""
    if not plan.deployments:
        return f"{words.asked(plan)}: {why_nothing(plan)}"
    d, (unit_usd, unit) = plan.deployments[0], words.unit_cost(plan)
    price = f"{price_words(d)}, {total(d, usd_per_month, d.usd_per_month)}"
    sure = verdict(plan, d.is_tight)
    return f"{words.asked(plan)}: {rented_words(d, kind(d))}: {price}, {total(d, usd, unit_usd)} {unit}. {sure}"


def facts_of(plan: P, words: ServiceWords[P]) -> list[Fact]:
    """The answer in a few figures: how surely, for how much, what is rented, with how much to spare."""
    if not plan.deployments:
        return []
    d, (unit_usd, unit) = plan.deployments[0], words.unit_cost(plan)
    alone = f"{usd_per_hour(d.price_per_instance_usd_per_hour)} a machine" if d.instance_count > 1 else ""
    hours, expected = hours_words(d), f"{significant(d.requests_per_s_capacity.value)} requests/s as expected"
    is_surer = d.sure_requests_per_s is not None and plan.confidence > EXPECTED
    surely = f"{significant(d.sure_requests_per_s)} at {percent(plan.confidence)} confidence, " if is_surer else ""
    return [
        verdict_of(plan),
        Fact("Per hour", total(d, usd, d.usd_per_hour), f"mean of {hours}" if hours else alone),
        rented_fact(d, kind(d)),
        Fact("Load may grow by", spare(d.spare_ratio), f"carries {surely}{expected}"),
        Fact(unit[:1].upper() + unit[1:], total(d, usd, unit_usd)),
    ]


def verdict_of(plan: ServicePlan, shared: Sequence[Mapping[str, Figure]] = ()) -> Fact:
    """How surely limits hold, by the latency on machines that it shares; where none was asked for, that it keeps up."""
    latencies = shared or [plan.deployments[0].latency]
    over = [
        f"{name} breaks {duration(limit_s)}"
        for name, limit_s in plan.objectives.items()
        if any(name in latency and (latency[name].high or 0.0) > limit_s for latency in latencies)
    ]
    is_tight = bool(over) or (plan.deployments[0].is_tight and not shared)
    if not plan.objectives and plan.missed_confidence is None and not is_tight:
        return Fact("Verdict", "Keeps up", "no limit was asked for (--slo)", "good")
    return verdict_fact(plan, is_tight, verdict(plan, is_tight), breaks=" and ".join(over) or "a limit breaks")


def title_of(plan: ServicePlan) -> str:
    """The answer as a manager reads it: GPUs and provider in words, what they serve, what a month costs."""
    if not plan.deployments:
        return ""
    d = plan.deployments[0]
    return titled([d], "serve", any_asked(plan), f"{total(d, usd, d.usd_per_month)} a month")


def next_step(plan: ServicePlan) -> str:
    """What to do with the answer."""
    if plan.deployments:
        return try_first(plan.deployments[:1])
    if not plan.relaxations:
        return "leave out a limit or a restriction (--slo, --gpus, --clouds) and ask again."
    needed = [f"{r.limit} at {r.needed}" for r in plan.relaxations]
    changes = " and ".join(needed) if any(r.together for r in plan.relaxations) else needed[0]
    return f"ask again with {changes}."


def why_table(plan: ServicePlan, own: OwnReasons) -> Table:
    """The reasons for the answer, a line each."""
    d = plan.deployments[0]
    lines = [
        own.layout,
        capacity_line(plan, d),
        binding_line(plan, d),
        own.load,
        grade_line(d.grade, d.drafts),
        f"{own.price}{usd_per_hour(d.price_per_instance_usd_per_hour)} per machine, "
        f"{usd_per_hour(d.price_per_gpu_usd_per_hour)} per GPU.",
        *own.quality,
        *steadier_line(plan),
        *risk_line(d),
        *surer_line(plan),
        *aged_row_line(plan),
        *hours_line(d),
        *until_line(d),
        *own_line(d),
        *([] if own.is_limit_told else idle_line(plan, d)),
        *own.cheaper,
        *spot_line(plan),
        *own.further,
        *own.flips,
    ]
    return lines_table(WHY, lines)


def notes(plan: P, words: ServiceWords[P], said: Sequence[str], today: date | None) -> list[str]:
    """How names were read, what was assumed, price sources, and how much was searched."""
    return notes_of(plan, [*said, *free_line(plan, words)], assumed_line(plan), today, words.tried)


def any_asked(plan: ServicePlan) -> str:
    """What was asked of any model."""
    return f"{plan.model} at {several(plan.rate_requests_per_s, 'request')}/s{busy_words(plan)}"


def any_reasons(plan: ServicePlan) -> OwnReasons:
    """Replicas and load of any model."""
    d = plan.deployments[0]
    slack = f" ({percent(d.slack_ratio[LOAD])} slack)" if LOAD in d.slack_ratio else ""
    return OwnReasons(
        f"{plural(d.replicas, 'replica')} on {plural(d.gpus_per_replica, 'GPU')} in {d.weight_format} with {d.engine}.",
        f"Load factor {significant(d.load_ratio, 2)} of what a replica sustains{slack}.",
        f"{usd(d.usd_per_request)} per request, ",
    )


def any_columns(plan: ServicePlan) -> OwnColumns:
    """Replicas, and what a request costs."""
    deployments: Sequence[RentedService] = plan.deployments
    replicas, costs = [f"{count(d.replicas)}x" for d in deployments], [usd(d.usd_per_request) for d in deployments]
    return OwnColumns(data=(), replicas=replicas, unit_cost=costs, unit_header="$/request")


ANY_SERVICE = ServiceWords[ServicePlan](
    any_asked,
    lambda plan: f"{several(plan.rate_requests_per_s, 'request')}/s",
    lambda plan: (plan.deployments[0].usd_per_request, "per request"),
    any_reasons,
    any_columns,
    lambda plan: [inputs_table(plan.inputs), formulas_table(FORMULAS)],
)
