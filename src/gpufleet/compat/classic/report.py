"""A migration report: text that prints within 80 columns, and the same figures as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gpufleet.compat.classic.analysis import Analysis
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.judgement import Judgement, Level
from gpufleet.compat.classic.lines import INDENT, WIDTH, bullets, percent, plural, said_saving, share, usd
from gpufleet.compat.classic.names import Goal
from gpufleet.compat.classic.options import MOST_OPTION_GPUS, Option, Remedy
from gpufleet.compat.classic.truth import Truth, Verdict
from gpufleet.compat.classic.whole_machines import is_price_of_machine, listed_lines, machine_sold
from gpufleet.report.controls import visible_lines
from gpufleet.report.page import Column, Table
from gpufleet.report.text import table_as_text, wrapped

SHOWN_OPTIONS = 8
OF_ITS_DAY = "Prices and speeds below are those of the source document of its day."
REFUTED, MARK = "REFUTED TODAY", "!"
UNDERSTATED, DEARER_MARK = "COST UNDERSTATED TODAY", "$"
CANNOT_FIT = "CANNOT FIT MODEL"
TRUE_HEADING = "TRUE TODAY (catalog and model, not the arithmetic below)"
LISTED_HEADING = "TRUE TODAY (shipped list prices, not the arithmetic below)"
Section = tuple[str, Sequence[str]]


class MigrationReport(str):
    """The text of a report, which prints as it is; `data` holds its figures, `to_json()` writes them."""

    data: dict[str, Any]

    def __new__(cls, text: str, data: dict[str, Any]) -> MigrationReport:
        """A text with the figures behind it."""
        report = super().__new__(cls, text)
        report.data = data
        return report

    def to_json(self) -> str:
        """The figures as JSON."""
        return visible_lines(json.dumps(self.data, indent=2, ensure_ascii=False))

    def __repr__(self) -> str:
        return f"<MigrationReport: {self.data['recommendation']['summary']}>"


def migration_report(a: Analysis, title: str, expected: str, notes: Sequence[str], truth: Truth) -> MigrationReport:
    """The report of an analysis, headed by what is true today."""
    return MigrationReport(report_text(a, title, expected, notes, truth), report_data(a, title, expected, notes, truth))


def report_text(a: Analysis, title: str, expected: str, notes: Sequence[str], truth: Truth) -> str:
    """The whole report within 80 columns."""
    sections = [section for section in _sections(a, expected, notes, truth) if section[1]]
    bodies = ["\n".join([heading, *lines]) for heading, lines in sections]
    head = ["=" * WIDTH, wrapped(f"GPU MIGRATION REPORT: {title}", WIDTH), "=" * WIDTH]
    heading = TRUE_HEADING if truth.verdicts else LISTED_HEADING
    true = ["\n".join([heading, *bullets(truth.lines)])] if truth.lines else []
    of_its_day = [*true, OF_ITS_DAY] if truth.verdicts else [OF_ITS_DAY, *true]
    return "\n".join(head) + "\n\n" + "\n\n".join([*of_its_day, *bodies]) + "\n"


def _sections(a: Analysis, expected: str, notes: Sequence[str], truth: Truth) -> Iterator[Section]:
    yield "CURRENT SETUP", list(_current(a, truth))
    if a.remedies:
        yield CANNOT_FIT, list(_cannot_fit(a, truth))
    yield "BEST OPTION BY GOAL", list(_best(a, truth))
    yield f"OPTIONS, ranked by {a.question.goal.value}", _table(a, truth)
    yield "RECOMMENDATION", list(_recommendation(a, expected, truth))
    for trouble in a.troubles:
        if trouble.key != "cannot_fit":
            yield trouble.title.upper(), list(bullets([f"Cause: {trouble.cause}.", *trouble.solutions]))
    yield "TIPS", list(bullets(a.tips))
    yield "NOTES", list(bullets(notes))


def _pairs(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        lines = wrapped(value, WIDTH - len(INDENT) - width - 2).splitlines()
        yield f"{INDENT}{name:<{width}}  {lines[0]}"
        yield from (" " * (len(INDENT) + width + 2) + line for line in lines[1:])


def _current(a: Analysis, truth: Truth) -> Iterator[str]:
    q, today = a.question, a.question.today
    instance = today.instance
    other, price = ("on demand", today.on_demand_usd) if today.use_spot else ("on spot", today.spot_usd)
    yield from _pairs(
        [
            ("GPUs", f"{today.label}: {instance.gpu_type}, {instance.gpu_memory_gb:g} GB each"),
            ("Workload", f"{q.work.title}, {q.size.name} ({q.size.parameter_count_billion:g}B), {q.precision.name}"),
            ("Price", _price(today)),
            ("Monthly cost", f"{usd(today.monthly_usd)} {_bought(today)} ({usd(price)} {other})"),
            ("Memory needed", _memory(a)),
            (
                "Memory available",
                f"{today.memory_gb:,g} GB ({share(q.needed_gb / today.memory_gb)} used): {_verdict_on_today(a, truth)}",
            ),
            ("Sold as", _sold_as(today)),
            *(("Listed at", line) for line in listed_lines(today)),
        ]
    )


def _verdict_on_today(a: Analysis, truth: Truth) -> str:
    """Whether the rule of memory lets the model in, and what today's facts say where they say otherwise."""
    fits, against = a.question.fits_today, "; ".join(truth.against(a.question.today))
    if fits:
        return f"fits by this rule. {REFUTED}: {against}" if against else "fits"
    stands = truth.works(a.question.today)
    return f"{CANNOT_FIT} by this rule. {REFUTED}: it fits" if stands else CANNOT_FIT


def _price(setup: Setup) -> str:
    rate = setup.instance.spot_cost_per_hour if setup.use_spot else setup.instance.on_demand_cost_per_hour
    return f"${rate:,.2f} per GPU and hour {_bought(setup)} x {setup.gpu_count} x {setup.monthly_hours:g} hours"


def _bought(setup: Setup) -> str:
    return "on spot" if setup.use_spot else "on demand"


def _memory(a: Analysis) -> str:
    q = a.question
    size, each = q.size.parameter_count_billion, plural(q.precision.bytes_per_parameter, "byte")
    return f"{q.needed_gb:,g} GB = {size:g}B parameters x {each} x {q.overhead:.3g} ({q.work.title})"


def _sold_as(setup: Setup) -> str:
    """The per-instance truth beside the price per GPU."""
    instance = setup.instance
    name, gpus = instance.stands_for or instance.key, instance.gpus_per_instance
    if gpus == 1:
        return f"{setup.machines}x {name} with one GPU each"
    rate = instance.spot_cost_per_hour if setup.use_spot else instance.on_demand_cost_per_hour
    is_of_machine = is_price_of_machine(instance, machine_sold(instance))
    whole = setup.machines * rate * setup.monthly_hours * (gpus if is_of_machine is False else 1)
    basis = {
        True: f"the printed ${rate:,.2f} is the price of a whole machine",
        False: f"the printed ${rate:,.2f} is the price of one GPU",
        None: "if the printed price is that of a whole instance",
    }
    return f"{setup.machines}x {name}, whole, {gpus} GPUs each: {usd(whole)} a month; {basis[is_of_machine]}"


def _cannot_fit(a: Analysis, truth: Truth) -> Iterator[str]:
    q = a.question
    needed, there = f"{q.needed_gb:,g} GB", f"{q.today.memory_gb:,g} GB"
    short = f"{q.needed_gb - q.today.memory_gb:,g} GB"
    problem = f"{q.size.name} in {q.precision.name} needs {needed}, {there} are on {q.today.label}: short by {short}."
    yield from bullets([f"{problem} Solutions:"])
    yield from bullets((f"{r.text}{_refuted_remedy(r, a, truth)}" for r in a.remedies), INDENT * 2)


def _refuted_remedy(remedy: Remedy, a: Analysis, truth: Truth) -> str:
    """Why today's facts refute other GPUs; they were not asked of another precision."""
    is_other = remedy.setup is not None and remedy.setup != a.question.today
    against = truth.against(remedy.setup) if is_other and remedy.setup else ()
    return f" {REFUTED}: {'; '.join(against)}." if against else ""


def _best(a: Analysis, truth: Truth) -> Iterator[str]:
    if not a.best:
        yield from bullets([f"No instance of the configuration holds the model on up to {MOST_OPTION_GPUS} GPUs."])
        return
    rows = []
    for goal, best in a.best.items():
        mark = " (asked)" if goal is a.question.goal else ""
        rows.append((f"{goal.value}{mark}", _one_line(best, truth)))
    yield from _pairs(rows)


def _one_line(o: Option, truth: Truth) -> str:
    stay = "stay with " if o.is_today else ""
    return (
        f"{stay}{o.setup.label}: {usd(o.setup.monthly_usd)} a month, {_saving(o)}, "
        f"{o.speed_ratio:.2f}x speed{_risk_or_refuted(o, truth)}"
    )


def _risk_or_refuted(o: Option, truth: Truth) -> str:
    """The risk of an option that stands, and what it does to bill and speed today; else why it does not stand."""
    refuted, dearer = _refuted(o, truth, "; "), truth.understated(o.setup)
    known = today_in_words(truth.verdicts.get(o.setup), o.is_today)
    mark = f"; {UNDERSTATED}: {dearer}" if dearer else ""
    return refuted or f", risk {o.risk.level.title}{mark}{f'; true today: {known}' if known else ''}"


def today_in_words(verdict: Verdict | None, is_today: bool) -> str:
    """What a setup costs at prices of today, and what moving to it does; nothing where that is not known."""
    if verdict is None:
        return ""
    saving, speed = verdict.saving_usd_per_month, verdict.speed_ratio
    known = [] if verdict.month_usd is None else [f"{usd(verdict.month_usd)} a month"]
    if not is_today:
        known += [] if saving is None else [said_saving(saving)]
        known += [] if speed is None else [f"{speed:.2f}x tokens/s"]
    return ", ".join(known)


def _refuted(o: Option, truth: Truth, before: str) -> str:
    """Why catalog and model refute an option; nothing where they do not."""
    against = truth.against(o.setup)
    return f"{before}{REFUTED}: {'; '.join(against)}" if against else ""


def _saving(o: Option) -> str:
    if o.is_today:
        return "as today"
    word = "costs" if o.saving_usd < 0 else "saves"
    more = " more" if o.saving_usd < 0 else ""
    return f"{word} {usd(abs(o.saving_usd))} ({percent(abs(o.saving_percent))}%){more}"


COLUMNS = (
    Column("option", "Option"),
    Column("on_demand", "On demand", usd, "right"),
    Column("spot", "Spot", usd, "right"),
    Column("saving", "Saves", usd, "right"),
    Column("saving_today", "Saves today", lambda x: "unknown" if x is None else usd(x), "right"),
    Column("percent", "%", percent, "right", priority=2),
    Column("speed", "Speed", lambda x: f"{x:.2f}x", "right"),
    Column("risk", "Risk"),
    Column("complexity", "Effort", priority=1),
)


def _table(a: Analysis, truth: Truth) -> list[str]:
    rows = [
        {
            "option": " ".join(_option_words(o, truth)),
            "on_demand": o.setup.on_demand_usd,
            "spot": o.setup.spot_usd,
            "saving": o.saving_usd,
            "saving_today": None if (verdict := truth.verdicts.get(o.setup)) is None else verdict.saving_usd_per_month,
            "percent": o.saving_percent,
            "speed": o.speed_ratio,
            "risk": "refuted" if truth.against(o.setup) else o.risk.level.title,
            "complexity": o.complexity.level.title,
        }
        for o in a.ranked
    ]
    if not rows:
        return []
    left_out = "percent" if truth.verdicts else "saving_today"
    columns = [column for column in COLUMNS if column.key != left_out]
    table = Table(columns, rows[:SHOWN_OPTIONS], notes=list(_table_notes(a, truth)), chosen=0)
    return table_as_text(table, WIDTH).splitlines()


def _option_words(o: Option, truth: Truth) -> Iterator[str]:
    """How an option is called in the table, and its mark."""
    yield o.setup.label
    if o.is_today:
        yield "today"
    if truth.against(o.setup):
        yield MARK
    elif truth.understated(o.setup):
        yield DEARER_MARK


def _table_notes(a: Analysis, truth: Truth) -> Iterator[str]:
    """What the columns mean, and what the order of the rows hides."""
    q, left = a.question, len(a.ranked) - SHOWN_OPTIONS
    are_some_risky = {o.risk.level for o in a.ranked} > {Level.HIGH}
    order = " Options of high risk come last." if q.goal is Goal.COST and are_some_risky else ""
    yield f"USD a month; 'Saves' is against today, both {_bought(q.today)}; 'Speed' is computed, today = 1.{order}"
    if truth.verdicts:
        yield "'Saves today' is at prices of today, on the machines that are sold."
    if not q.fits_today:
        yield f"{q.today.label} cannot hold this model: 'Saves' and 'Speed' compare GPUs, not two ways to run it."
    if any(truth.against(o.setup) for o in a.ranked):
        yield f"{MARK} refuted by catalog and model today; why: report.data['options'], and --json."
    if any(truth.understated(o.setup) for o in a.ranked):
        yield f"{DEARER_MARK} it costs far more today than printed, beside today's setup: see 'Saves today'."
    if left > 0:
        yield f"{left} more in report.data['options'], and by --json."


def _recommendation(a: Analysis, expected: str, truth: Truth) -> Iterator[str]:
    if a.recommended is not None and truth.against(a.recommended.setup):
        yield from bullets([_summary(a), f"{_refuted(a.recommended, truth, '')}. Do not act on it."])
        return
    if a.recommended is not None and truth.understated(a.recommended.setup):
        yield from bullets([f"{UNDERSTATED}: {truth.understated(a.recommended.setup)}."])
    yield from bullets([_summary(a), *_reasons(a, truth)])
    if expected:
        yield from bullets([f"Expected of this scenario: {expected}."])


def _summary(a: Analysis) -> str:
    best, q = a.recommended, a.question
    if best is None:
        return f"{CANNOT_FIT}: no instance of the configuration holds it; use less precision or a smaller model."
    if best.is_today:
        return f"Stay with {q.today.label}: by {q.goal.value}, nothing in the configuration is better."
    spot = f"; {usd(best.setup.spot_usd)} on spot" if not best.setup.use_spot else ""
    return (
        f"Move from {q.today.label} to {best.setup.label} ({best.setup.instance.gpu_type}): "
        f"{usd(best.setup.monthly_usd)} a month {_bought(best.setup)}{spot}; {_saving(best)}; "
        f"{best.speed_ratio:.2f}x today's computed speed."
    )


def _reasons(a: Analysis, truth: Truth) -> Iterator[str]:
    best, other = a.recommended, a.as_fast_for_least
    if best is None:
        return
    yield f"Risk {best.risk.level.title}: {'; '.join(best.risk.reasons)}."
    yield f"Migration complexity {best.complexity.level.title}: {'; '.join(best.complexity.reasons)}."
    if best.setup.instance.gpus_per_instance > 1:
        yield f"Sold as {_sold_as(best.setup)}."
    yield from (f"Listed at {line}." for line in listed_lines(best.setup))
    if other is not None and other.setup != best.setup and not other.is_today:
        yield f"At least as fast as today for least: {_one_line(other, truth)}."


def report_data(a: Analysis, title: str, expected: str, notes: Sequence[str], truth: Truth) -> dict[str, Any]:
    """Everything that the report says, as plain data."""
    q, best = a.question, a.recommended
    return {
        "title": title,
        "workload_type": q.work.value,
        "model_size": q.size.key,
        "parameter_count_billion": q.size.parameter_count_billion,
        "precision": q.precision.key,
        "goal": q.goal.value,
        "requests_per_s": q.requests_per_s,
        "current": {**_setup_data(q.today), "fits": q.fits_today},
        "memory_needed_gb": q.needed_gb,
        "memory_available_gb": q.today.memory_gb,
        "cannot_fit_model": not q.fits_today,
        "solutions": [remedy.text for remedy in a.remedies],
        "best_by_goal": {goal.value: _option_data(a.best[goal], truth) for goal in Goal if goal in a.best},
        "options": [_option_data(o, truth) for o in a.ranked],
        "recommendation": {"summary": _summary(a), "option": _option_data(best, truth) if best else None},
        "troubleshooting": [t._asdict() for t in a.troubles],
        "expected_outcome": expected,
        "tips": list(a.tips),
        "notes": list(notes),
        "prices_and_speeds": OF_ITS_DAY,
        "true_today": list(truth.lines),
        "checked_today": bool(truth.verdicts),
        "best_today": None if truth.best is None else _option_data(truth.best, truth),
    }


def _setup_data(setup: Setup) -> dict[str, Any]:
    return {
        "instance": setup.instance.key,
        "gpu_count": setup.gpu_count,
        "gpu_type": setup.instance.gpu_type,
        "monthly_hours": setup.monthly_hours,
        "use_spot": setup.use_spot,
        "monthly_cost_usd": setup.monthly_usd,
        "monthly_cost_on_demand_usd": setup.on_demand_usd,
        "monthly_cost_spot_usd": setup.spot_usd,
        "memory_available_gb": setup.memory_gb,
        "stands_for": setup.instance.stands_for,
        "machines": setup.machines,
    }


def _option_data(o: Option, truth: Truth) -> dict[str, Any]:
    """An option as the classic arithmetic has it; keys that end in `_today` are of catalog and model, None unknown."""
    verdict = truth.verdicts.get(o.setup)
    return {
        **_setup_data(o.setup),
        "is_today": o.is_today,
        "monthly_saving_usd": o.saving_usd,
        "saving_percent": o.saving_percent,
        "performance_ratio": o.speed_ratio,
        "risk": _judgement_data(o.risk),
        "migration_complexity": _judgement_data(o.complexity),
        "refuted_today": None if verdict is None else bool(verdict.against),
        "refuted_because_today": [] if verdict is None else list(verdict.against),
        "cost_understated_today": None if verdict is None else bool(verdict.understated),
        "monthly_cost_usd_today": None if verdict is None else verdict.month_usd,
        "monthly_saving_usd_today": None if verdict is None else verdict.saving_usd_per_month,
        "performance_ratio_today": None if verdict is None else verdict.speed_ratio,
    }


def _judgement_data(judgement: Judgement) -> dict[str, Any]:
    return {"level": judgement.level.title, "reasons": list(judgement.reasons)}
