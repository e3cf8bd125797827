"""The page of a batch job, whatever its model does with a request: what to rent, why, what else, what was rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Generic, TypeVar

from gpufleet.records import dataclass
from gpufleet.report.detail import WHOLE, Detail, Details, is_screen
from gpufleet.report.numbers import (
    count,
    duration,
    percent,
    plural,
    ranged,
    significant,
    usd,
    usd_per_hour,
)
from gpufleet.report.page import Column, Fact, Page, Row, Table, formulas_table, lines_table
from gpufleet.report.ranges import ranged_by, ranged_figure, ranged_time
from gpufleet.report.rented import (
    NARROW_PAGE,
    OUTDATED,
    PRICE_DAYS,
    about,
    are_regions_asked,
    kind,
    machine_cells,
    machines,
    machines_texts,
    marked,
    range_legend,
    ranking,
    rented_fact,
    rented_words,
    surer,
    tight_row,
    titled,
    undated_line,
    unmeasured_line,
    until_line,
    varied_columns,
    verdict,
    verdict_fact,
)
from gpufleet.report.screen import (
    NOT_TO_BE_HAD,
    NUM_REASONS,
    price_table,
    screen_notes,
    screen_ranking,
    screen_rejections,
)
from gpufleet.report.search import inputs_table, notes_of, rejection_table, spread_words
from gpufleet.report.words import grade_line
from gpufleet.results.base import Figure
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.units import DAY

BINDING = {
    "deadline": "The deadline sets the number: fewer machines would be late.",
    "one_machine": "One machine is enough: it finishes in time.",
    "starting": (
        "The deadline does not set the number: with fewer machines more time is lost waiting for the last wave."
    ),
    "wait_for_spot": "The deadline does not set the number: fewer machines leave less time to wait for spot.",
    "stated_gpus": "The number of GPUs was asked for.",
    "cost": "No number of machines costs clearly less.",
    "cost_of_few": "Without a deadline few GPUs of a type are tried: no number of them costs clearly less.",
}
SEED_RULE = "seed rule"
SPOT_PLAYS = "Starts that are refused: ask 'gpufleet spot PLAN.json --deadline TIME'."
ASSUMED_WORDS = {
    "engine": "engine {}",
    "stack": "{}",
    "beams": "beams {}, the engine's default",
    "time to start": "{} until a machine is ready",
    "headroom": "{} headroom",
}
UNMEASURED = "A speed that nobody measured counts as slow as it is with the confidence of the plan."
ASSUMED = "reclaimed, assumed: the cloud publishes no rate; the notes give the rate used instead, with its range."
LATE = ("late", "late_on_spot", "late_with_cap", "training_late", "training_never_ends")
TELLING = ("over_job_budget", "binds_longer", "training_binds_longer", "training_late", "training_never_ends")
COST_FORMULA = (
    "machines x $/h x machine time by the second; capacity blocks per started day; terms and own "
    "machines round the clock"
)
FIGURES = ("usd", "finish_s", "used_s", "paid_s", "usd_per_thousand_requests", "requests_per_s")
FILE_COLUMNS = (
    "cloud", "region", "instance", "instance_count", "gpu", "gpus_per_instance", "price_kind", "price_basis",
    "price_source", "price_per_instance_usd_per_hour", "usd_per_hour", "running_usd", "usd_per_month", "interruption",
    "interruptions", "interruptions_per_hour", "interruption_source", "repeated_ratio", "engine", "drafts",
    "weight_format", "gpus_per_replica", "replicas", "idle_gpus", "requests_per_replica", "batch", "largest_batch",
    "wave_s", "work_s",
)  # fmt: skip


@dataclass(frozen=True)
class OwnColumns:
    """What a kind of job shows beside what all have: data columns, figures, and two texts of every row.

    `varied` are shown where rows differ in them; `cells` are further cells of the rows. Where it
    `says_reclaimed`, rows that differ in how often machines are taken away say so on a narrow page too.
    """

    data: tuple[str, ...]
    figures: tuple[str, ...]
    replicas: Sequence[str]
    unit_cost: Sequence[str]
    unit_header: str = "$/1M"
    shape_header: str = "replicas"
    varied: Sequence[str] = ("weights", "engine")
    cells: Sequence[Row] = ()
    says_reclaimed: bool = True


@dataclass(frozen=True)
class OwnReasons:
    """Lines of a kind of model: how replicas lie, what they work on at a time, and what all get done.

    `hazards`: what it says where others say what spot costs them.
    """

    layout: str
    batches: str
    throughput: str
    hazards: Sequence[str] | None = None


P_contra = TypeVar("P_contra", bound=JobPlan, contravariant=True)
P = TypeVar("P", bound=JobPlan)


@dataclass(frozen=True)
class JobWords(Generic[P_contra]):
    """What pages of one kind of job say in words of their own.

    `asked` begins the headline, `work` says how many of what, `unit_cost` what a unit of the answer costs. `limits` are
    tables of what binds, `terms` of where figures come from; `unmet` says what would meet a deadline that nothing does.
    """

    asked: Callable[[P_contra], str]
    work: Callable[[P_contra], str]
    unit_cost: Callable[[P_contra], tuple[float, str]]
    unit_costs: Callable[[P_contra], dict[str, Figure | None]]
    reasons: Callable[[P_contra], OwnReasons]
    columns: Callable[[P_contra], OwnColumns]
    formulas: Sequence[tuple[str, str]]
    started: Callable[[P_contra], list[Table]] = lambda _: []
    tried: str = "layouts"
    spot_or_not: Callable[[P_contra], list[str]] = lambda plan: dearer_spot(plan)
    limits: Callable[[P_contra], list[Table]] = lambda _: []
    terms: Callable[[P_contra], list[Table]] = lambda _: []
    unmet: Callable[[P_contra], str] = lambda _: ""
    does: str = "do"
    screen_rows: int | None = None


def job_page(
    plan: P,
    words: JobWords[P],
    *,
    explain: bool = False,
    details: Details = WHOLE,
    today: date | None = None,
    width: int = NARROW_PAGE,
    num_rows: int | None = None,
) -> Page:
    """Headline, reasons, costs, ranking and rejections."""
    explained = [*words.terms(plan), inputs_table(plan.inputs), formulas_table(words.formulas)] if explain else []
    if plan.deployments and (explain or Detail.LIMITS in details):
        explained = [*words.limits(plan), *explained]
    d = plan.undated_alternative
    said = [*undated_line(d, "" if d is None else usd(d.usd.value)), *unmeasured_line(plan.unmeasured_alternative)]
    beside = [" ".join(said)] if said else []
    if plan.deployments and is_screen(details):
        tables = [*screen_tables(plan, words, details, width, num_rows), *explained]
        notes = screen_notes(plan, plan.notes, assumed_line(plan), today)
        return Page(headline(plan, words), tables, notes, beside)
    tables = answer_tables(plan, words, width) if plan.deployments else []
    tables.append(rejection_table(plan.rejections, Detail.REJECTED in details))
    notes = notes_of(plan, plan.notes, assumed_line(plan), today, words.tried)
    facts, title = facts_of(plan, words), title_of(plan, words)
    return Page(headline(plan, words), [*tables, *explained], notes, beside, facts, title, next_step(plan))


def screen_tables(
    plan: P, words: JobWords[P], details: Details, width: int, num_rows: int | None = None
) -> list[Table]:
    """Reasons, ranking, start and rejections in a few lines each; in full what `details` name."""
    has_limits = Detail.LIMITS in details
    brief = [] if has_limits else [lines_table("Why this one", short_reasons(plan, words))]
    return [
        *(brief or [why_table(plan, words), cost_table(plan, words)]),
        screen_ranking(ranking_table(plan, words.columns(plan), width), width, num_rows or words.screen_rows),
        *words.started(plan),
        *screen_rejections(plan.rejections, details, width),
        *([price_table(plan.price_sources)] if Detail.PRICES in details else []),
    ]


def short_reasons(plan: P, words: JobWords[P]) -> list[str]:
    """The reasons that matter most."""
    d, own = plan.deployments[0], words.reasons(plan)
    steady = next((x for x in plan.deployments if not x.is_tight), None) if d.is_tight else None
    surer = [] if steady is None else [f"{kept(steady, d)} is in time at 90% too: {usd(steady.usd.value)}."]
    lines = [
        own.layout,
        f"Done in {ranged_time(d.finish_s)}, {ranged_usd(d.usd)}{each_run(plan, d)}.",
        own.batches,
        *common_reasons(plan, own, surer),
        *words.spot_or_not(plan),
    ]
    return lines[:NUM_REASONS]


def common_reasons(plan: JobPlan, own: OwnReasons, surer: Sequence[str], throughput: Sequence[str] = ()) -> list[str]:
    """What binds, what it rests on, hazards, what is paid beside the work, and what is in time more surely."""
    d = plan.deployments[0]
    return [
        BINDING.get(d.binding, f"Binding limit: {d.binding_limit}."),
        *throughput,
        grade_line(d.grade, d.drafts),
        *(spot_lines(plan, d) if own.hazards is None else own.hazards),
        *until_line(d),
        *paid_lines(d),
        *surer,
    ]


def kept(steady: RentedJob, answer: RentedJob) -> str:
    """The machines of a row, with how they are bought where the answer's are the same."""
    bought = f", {steady.price_kind.replace('_', ' ')}," if machines(steady) == machines(answer) else ""
    return f"{machines(steady)}{bought}"


def job_rows_page(plan: P, words: JobWords[P]) -> Page:
    """The ranking alone: what a CSV holds."""
    return Page(headline(plan, words), [ranking_table(plan, words.columns(plan))])


def answer_tables(plan: P, words: JobWords[P], width: int) -> list[Table]:
    """Reasons, costs, ranking and start of a plan that has an answer; what draws its rows is loaded then."""
    from gpufleet.report.front import job_picture

    ranking = replace(ranking_table(plan, words.columns(plan), width), picture=job_picture(plan))
    return [why_table(plan, words), cost_table(plan, words), ranking, *words.started(plan)]


def facts_of(plan: P, words: JobWords[P]) -> list[Fact]:
    """The answer in a few figures: how surely, for how much, what is rented, when it is done."""
    if not plan.deployments:
        return []
    d, (unit_usd, unit) = plan.deployments[0], words.unit_cost(plan)
    until = f"{duration(d.finish_s.low)} to {duration(d.finish_s.high)}"
    sure = verdict_fact(plan, d.is_tight, verdict(plan, d.is_tight, "in time", "late", "is "), "in time", "it is late")
    return [
        *([] if math.isinf(plan.deadline_s) else [sure]),
        Fact("Cost, 80% range", f"{about(d)}{usd(d.usd.low)} to {usd(d.usd.high)}"),
        rented_fact(d, kind(d)),
        Fact("Done in", duration(d.finish_s.value), f"{until}{by_when(plan, ', deadline ')}"),
        Fact(unit[:1].upper() + unit[1:], usd(unit_usd)),
    ]


def title_of(plan: P, words: JobWords[P]) -> str:
    """The answer as a manager reads it: GPUs and provider in words, what they do, what it costs."""
    if not plan.deployments:
        return ""
    d = plan.deployments[0]
    return titled([d], words.does, words.asked(plan), f"{about(d)}{usd(d.usd.value)}")


def next_step(plan: JobPlan) -> str:
    """What to do with the answer."""
    if not plan.deployments:
        return "give it more time (--deadline), or leave out a restriction (--gpus, --clouds), and ask again."
    d = plan.deployments[0]
    rest = "rent the others" if d.instance_count > 1 else "run the rest"
    return f"{surer([d])}run a first part on one machine, and {rest} if it is as fast as this page says."


def headline(plan: P, words: JobWords[P]) -> str:
    """The answer in one sentence: what was asked, what to rent, what it costs, when it is done."""
    asked = words.asked(plan) + by_when(plan, " within ")
    if not plan.deployments:
        return f"{asked}: {why_nothing(plan)} {words.unmet(plan)}".rstrip()
    d, (unit_usd, unit) = plan.deployments[0], words.unit_cost(plan)
    cost, done = f"{about(d)}{usd(d.usd.value)}", f"done in {duration(d.finish_s.value)}"
    sure = "" if math.isinf(plan.deadline_s) else verdict(plan, d.is_tight, "in time", "late", "is ")
    return f"{asked}: {rented_words(d, kind(d))}: {cost}, {usd(unit_usd)} {unit}, {done}. {sure}".rstrip()


def by_when(plan: JobPlan, joined: str) -> str:
    """The deadline in words; nothing where there is none."""
    return "" if math.isinf(plan.deadline_s) else joined + duration(plan.deadline_s)


def why_nothing(plan: JobPlan) -> str:
    """Why there is no answer."""
    if not plan.rejections:
        return "no machine on offer can run it."
    telling = (r for r in plan.rejections if r.code in TELLING)
    had = (r for r in plan.rejections if r.code not in NOT_TO_BE_HAD)
    first = next(telling, next(had, plan.rejections[0]))
    missed = "meets the deadline" if first.code in LATE else "can do this job as asked"
    return f"no machine on offer {missed}. {first.reason[:1].upper()}{first.reason[1:]} (nearest: {first.best})."


def spot_lines(plan: JobPlan, d: RentedJob) -> list[str]:
    """Interruptions that are expected and what they cost; else what steady machines cost more."""
    if d.price_kind != "spot":
        return []
    expected = f"{significant(d.interruptions, 2)} interruptions expected{how_often(d)}"
    lines = [f"{expected}; {percent(d.repeated_ratio)} of the machine time repeats lost work.", *played_lines(d)]
    if d.played is not None:
        seldom = f"At the rate of the cloud's advisor alone {usd(d.played.usd_if_seldom_taken)}: {expected}."
        lines = [*played_lines(d), seldom]
    steady = next((x for x in plan.deployments if x.price_kind == "on_demand"), None)
    if steady is None:
        return lines
    return [*lines, f"On demand {about(steady)}{usd(steady.usd.value)} ({machines(steady)})."]


def dearer_spot(plan: JobPlan) -> list[str]:
    """That no row on spot costs less than the answer, or only at the price of a list that may be too old to hold."""
    answer, *others = plan.deployments
    if answer.price_kind == "spot" or all(d.price_kind != "spot" for d in others):
        return []
    old = next((i for i, d in enumerate(others, 2) if d.price_kind == "spot" and d.usd.value < answer.usd.value), None)
    if old is not None:
        day = others[old - 2].price_day
        return [f"Spot of row {old} costs less at its price of {day}, but may cost as much as on demand by now."]
    undated = plan.undated_alternative
    if undated is not None and undated.price_kind == "spot":
        how = "undated" if undated.price_first_seen else "older"
        return [f"Spot at a price with a date is not worth it: dearer; the {how} price above would be cheaper."]
    return ["Spot is not worth it: dearer."]


def played_lines(d: RentedJob) -> list[str]:
    """What drawn markets make of a job on spot, or who plays it where nothing has to be done by any time."""
    x = d.played
    if d.price_kind != "spot":
        return []
    if x is None:
        return [SPOT_PLAYS]
    late = "never late" if x.late_ratio == 0 else f"late in {percent(x.late_ratio)} of {x.draws} draws"
    return [
        f"Cost and time as played over {plural(x.zones, 'zone')} ('gpufleet spot PLAN.json'): lost "
        f"{significant(x.losses, 2)} times, on demand {percent(x.on_demand_ratio)} of the time, {late}."
    ]


def how_often(d: RentedJob) -> str:
    """The rate of interruptions of one machine, and whether its cloud says it."""
    rate = d.interruptions_per_hour
    if rate is None:
        return ""
    hourly = ranged(rate.value, rate.low, rate.high, "an hour", digits=2)
    said = f"{d.interruption} of such machines are reclaimed within a month" if is_band(d) else "no rate is published"
    return f", {hourly} ({said})"


def is_band(d: RentedJob) -> bool:
    """Whether the rate of interruptions is the cloud's own."""
    rate = d.interruptions_per_hour
    return rate is not None and rate.grade != SEED_RULE


def evidence(d: RentedJob) -> str:
    """Where the rate of interruptions comes from, in a word."""
    if d.interruptions_per_hour is None:
        return "-"
    return f"{d.interruption}/mo" if is_band(d) else "assumed"


def paid_lines(d: RentedJob) -> list[str]:
    """What is paid though the machines do not work on this job."""
    if d.paid_s.value <= d.used_s.value:
        return []
    used, paid = duration(d.used_s.value), duration(d.paid_s.value)
    if d.running_usd is None:
        return [f"Each machine is paid for {paid}; this job uses {used} of that."]
    running = f"{usd(d.running_usd)} of the {about(d)}{usd(d.usd.value)} is electricity while they work ({used})"
    return [f"Your own machines: {running}; the rest is a fixed cost over {paid}."]


def each_run(plan: JobPlan, d: RentedJob) -> str:
    """That the cost is of one run, and what a month of runs costs; nothing of a job that comes once."""
    if d.usd_per_month is None or plan.period_s is None:
        return ""
    often = "one a day" if plan.period_s == DAY else f"one every {duration(plan.period_s)}"
    return f" each run; {about(d)}{usd(d.usd_per_month)} a month at {often}"


def cost_table(plan: P, words: JobWords[P]) -> Table:
    """Finish and cost of the answer, of a month where the job comes again, and what its units cost, with ranges."""
    d, period_s = plan.deployments[0], plan.period_s
    columns = [Column("name", "figure"), Column("value", "expected (80% range)", align="right")]
    rows = [
        ("finish", ranged_time(d.finish_s)),
        ("time paid per machine", ranged_time(d.paid_s)),
        ("cost", ranged_usd(d.usd)),
    ]
    if d.usd_per_month is not None and period_s is not None:
        rows.append((f"per month, one job every {duration(period_s)}", usd(d.usd_per_month)))
    rows += [(name, ranged_usd(figure)) for name, figure in words.unit_costs(plan).items() if figure is not None]
    return Table.of_cells(columns, rows, words.work(plan))


def ranged_usd(figure: Figure) -> str:
    """An amount of money with its range, short."""
    return ranged_by(figure, usd, "-")


def ranking_table(plan: JobPlan, own: OwnColumns, width: int = NARROW_PAGE) -> Table:
    """Every deployment, the chosen one marked; a narrow page shortens the names of machines."""
    named = machines_texts(plan.deployments, width)
    rows = [
        ranking_row(rank, d, own, text, plan.confidence)
        for rank, (d, text) in enumerate(zip(plan.deployments, named, strict=True), 1)
    ]
    marks = [ASSUMED] if any(evidence(d) == "assumed" for d in plan.deployments) else []
    usd_in_order = [d.usd.value for d in plan.deployments]
    if usd_in_order != sorted(usd_in_order):
        likely_in_order = [d.usd.value * d.price_age_ratio for d in plan.deployments]
        marks.append(OUTDATED if likely_in_order == sorted(likely_in_order) else UNMEASURED)
    is_any_tight = any(d.is_tight for d in plan.deployments)
    legend = range_legend(is_any_tight, plan.confidence, "in time", "late")
    return ranking(plan.deployments, ranking_columns(plan, own), rows, legend, marks)


def ranking_columns(plan: JobPlan, own: OwnColumns) -> list[Column]:
    """Columns of the ranking: for files, then the essential ones, then what wide pages hold."""
    return [
        *(Column(key, key, where="data") for key in (*FILE_COLUMNS, *own.data)),
        *(
            Column(f"{key}{end}", key, where="data")
            for key in (*FIGURES, *own.figures)
            for end in ("", "_low", "_high")
        ),
        Column("row", "", align="right", where="text"),
        Column("cost", "cost", align="right", where="text"),
        Column("machines", "machines", where="text", wraps=True),
        Column("place", "region", priority=0 if are_regions_asked(plan.inputs) else 4, where="text"),
        Column("kind", "price", where="text", qualifies=True),
        Column("gpus", "GPUs", priority=2, where="text"),
        Column("shape", own.shape_header, where="text"),
        *(c for c in varied_columns(plan.deployments) if c.header in own.varied),
        *reclaimed_columns(plan, own.says_reclaimed),
        Column("finish", "done in", align="right", where="text"),
        *([] if math.isinf(plan.deadline_s) else [Column("verdict", "range")]),
        Column("unit_cost", own.unit_header, align="right", priority=3, where="text"),
        Column("grade", "grade", priority=6),
        Column("hourly", "$/h", align="right", priority=5, where="text"),
        Column("binding_limit", "set by", priority=10),
        *PRICE_DAYS,
    ]


def reclaimed_columns(plan: JobPlan, is_said: bool = True) -> list[Column]:
    """How often machines are taken away: shown wherever rows rest on different evidence."""
    words = {evidence(d) for d in plan.deployments}
    if words == {"-"}:
        return []
    differs = is_said and len({word == "assumed" for word in words - {"-"}}) > 1
    return [Column("reclaimed", "reclaimed", priority=0 if differs else 7, where="text")]


def ranking_row(rank: int, d: RentedJob, own: OwnColumns, machines: str, confidence: float) -> Row:
    """The cells of one deployment."""
    cells: dict[str, object] = {
        **d.model_dump(exclude={*FIGURES, *own.figures, "launch"}),
        **machine_cells(rank, d, machines, confidence),
        "cost": marked(d, usd(d.usd.value)),
        "kind": kind(d),
        "shape": own.replicas[rank - 1],
        "reclaimed": evidence(d),
        "interruptions_per_hour": d.interruptions_per_hour and d.interruptions_per_hour.value,
        "finish": duration(d.finish_s.value),
        "unit_cost": own.unit_cost[rank - 1],
        "hourly": marked(d, usd_per_hour(d.usd_per_hour)),
    }
    cells |= own.cells[rank - 1] if own.cells else {}
    for key in (*FIGURES, *own.figures):
        figure: Figure | None = getattr(d, key)
        ends = (None, None, None) if figure is None else (figure.value, figure.low, figure.high)
        cells |= {key: ends[0], f"{key}_low": ends[1], f"{key}_high": ends[2]}
    return cells


def why_table(plan: P, words: JobWords[P]) -> Table:
    """The reasons for the answer, a line each, from how replicas and batches lie to what it rests on.

    Where it is late at the high end of its range: the cheapest row that is not.
    """
    own, prices = words.reasons(plan), [usd(d.usd.value) for d in plan.deployments]
    late = "late at the high end of its range"
    surer = tight_row(plan.deployments, prices, late, "is in time", plan.confidence)
    common = common_reasons(plan, own, surer, [f"Total throughput: {own.throughput}."])
    return lines_table("Why this one", [own.layout, own.batches, *common, *words.spot_or_not(plan)])


def assumed_line(plan: JobPlan) -> list[str]:
    """Inputs that nobody gave."""
    assumed = {i.name: i.value for i in plan.inputs if i.origin == "default"}
    parts = [words.format(assumed[name]) for name, words in ASSUMED_WORDS.items() if name in assumed]
    open_to_all = [name for name in ("clouds", "regions", "GPUs") if name in assumed]
    parts += [f"all {', '.join(open_to_all)}"] if open_to_all else []
    parts += spread_words(assumed)
    return [f"Assumed: {'; '.join(parts)}; billed by the second."] if parts else []


def any_reasons(plan: JobPlan) -> OwnReasons:
    """Replicas and batches of any model."""
    d = plan.deployments[0]
    return OwnReasons(
        f"{plural(d.replicas, 'replica')} on {plural(d.gpus_per_replica, 'GPU')} in {d.weight_format} with {d.engine}.",
        f"Each works on {count(d.batch)} requests at a time; a batch takes {duration(d.wave_s)}.",
        ranged_figure(d.requests_per_s, "requests/s"),
    )


def any_columns(plan: JobPlan) -> OwnColumns:
    """Replicas, and what a thousand requests cost."""
    replicas = [f"{count(d.replicas)}x" for d in plan.deployments]
    costs = [usd(d.usd_per_thousand_requests.value) for d in plan.deployments]
    return OwnColumns(data=(), figures=(), replicas=replicas, unit_cost=costs, unit_header="$/1,000")


ANY_JOB = JobWords[JobPlan](
    asked=lambda plan: f"{count(plan.requests)} requests of {plan.model}",
    work=lambda plan: f"{count(plan.requests)} requests",
    unit_cost=lambda plan: (plan.deployments[0].usd_per_thousand_requests.value, "per 1,000 requests"),
    unit_costs=lambda plan: {"$/1,000 requests": plan.deployments[0].usd_per_thousand_requests},
    reasons=any_reasons,
    columns=any_columns,
    formulas=[("cost", COST_FORMULA)],
)
