"""An answer for an assistant: at most 40 lines, the verdict, its figure, range, grade and age of prices first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from textwrap import wrap
from typing import Any

from gpufleet.cli.answered import Answered
from gpufleet.errors import GpufleetError, Infeasible
from gpufleet.records import dataclass
from gpufleet.report.formats import as_json
from gpufleet.report.numbers import significant, usd

MOST_LINES, COLUMNS, LONGEST_END = 40, 80, 9
DATES, DAY = ("as_of", "price_as_of"), re.compile(r"\d{4}-\d\d-\d\d")
NOT_PRICED = ("basis", "seal", "inputs")
Facts = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What a call is answered: the text, its facts, whether it is an error, and the JSON of a plan."""

    text: str
    facts: Facts
    is_error: bool = False
    plan: str | None = None


def reply_of(got: Answered, figures: Sequence[str], today: date) -> Reply:
    """The reply to a command line that was answered; that nothing will do is an answer too."""
    if got.error is not None:
        return refusal(got.error)
    whole = as_json(got.result) if got.result is not None else "{}"
    told = facts_of(as_mapping(whole), figures, got.code, today)
    plan_id = told.get("plan")
    lines = shortened(head(told), got.text.splitlines())
    return Reply("\n".join(lines), told, plan=whole if plan_id else None)


def as_mapping(text: str) -> Mapping[str, Any]:
    """An answer's JSON."""
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def refusal(error: GpufleetError) -> Reply:
    """What went wrong, by its parts."""
    parts = {"problem": error.problem, "found": error.found, "expected": error.expected, "hint": error.hint}
    said = {name: str(value)[:1000] for name, value in parts.items() if value is not None}
    is_infeasible = isinstance(error, Infeasible)
    verdict = "infeasible" if is_infeasible else "error"
    lines = [line for text in (f"Verdict: {verdict}", str(error)) for line in wrap(text, COLUMNS)]
    facts = {"verdict": verdict, "exit_code": error.exit_code, "code": error.code, **said}
    return Reply("\n".join(lines[:MOST_LINES]), facts, is_error=not is_infeasible)


def facts_of(answer: Mapping[str, Any], figures: Sequence[str], code: int, today: date) -> Facts:
    """The small facts of an answer: what an assistant would say of it in one breath."""
    told: Facts = {"verdict": verdict_of(answer, code), "exit_code": code}
    found = [(path.replace("deployments.0.", ""), at(answer, path)) for path in figures]
    told["figures"] = [figure_of(name, value, answer) for name, value in found if value is not None]
    if told["figures"] and "usd" in told["figures"][0]["name"]:
        first = told["figures"][0]
        told |= {first["name"].split(".")[-1]: first["value"], "low": first["low"], "high": first["high"]}
    told["grade"] = answer.get("grade") or None
    days = sorted(set(days_in(answer)))
    if days:
        told |= {"oldest_price": days[0], "oldest_price_days": (today - date.fromisoformat(days[0])).days}
    told |= {key: [plain(row) for row in answer[key]] for key in ("levers", "flips") if answer.get(key)}
    if answer.get("seal") and answer.get("basis") and answer.get("input_hash"):
        told["plan"] = f"plan-{answer['input_hash']}"
    return told


def plain(row: Mapping[str, Any]) -> Facts:
    """What would change an answer, with the machine that would then win and its bill."""
    winner = row.get("winner") or {}
    then = {key: winner.get(key) for key in ("cloud", "instance", "instance_count", "usd_per_hour")}
    return {**{key: value for key, value in row.items() if not isinstance(value, (Mapping, list))}, **then}


def verdict_of(answer: Mapping[str, Any], code: int) -> str:
    """The answer's own verdict; of a listing, whether there is one."""
    return str(answer.get("verdict") or ("infeasible" if code == Infeasible.exit_code else "answered"))


def figure_of(name: str, value: Any, answer: Mapping[str, Any]) -> Facts:
    """A figure with its range: its own, or that of the hourly bill from as expected to the highest certainty."""
    if isinstance(value, Mapping):
        parts = {key: value.get(key) for key in ("value", "unit", "low", "high", "grade")}
        return {"name": name, **parts, "of": "range"}
    rows = [row for row in answer.get("certainty") or () if row.get("winner") and name == "usd_per_hour"]
    bills = [row["winner"]["usd_per_hour"] for row in rows]
    low, high = (min(bills), max(bills)) if bills else (None, None)
    sure = f"{rows[0]['confidence']:.0%} to {rows[-1]['confidence']:.0%} sure" if rows else None
    return {"name": name, "value": value, "unit": "USD/h", "low": low, "high": high, "grade": None, "of": sure}


def at(answer: Any, path: str) -> Any:
    """What stands at a path of an answer, if anything does."""
    for step in path.split("."):
        if isinstance(answer, list):
            answer = answer[int(step)] if step.isdigit() and len(answer) > int(step) else None
        else:
            answer = answer.get(step) if isinstance(answer, Mapping) else None
    return answer


def days_in(value: Any) -> Iterator[str]:
    """Days of the prices in an answer, without those that were only considered; of undated copies the first seen.

    >>> list(days_in({"price_as_of": "undated copy, first seen 2026-11-21", "basis": {"as_of": "2024-01-01"}}))
    ['2026-11-21']
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            day = DAY.search(item) if key in DATES and isinstance(item, str) else None
            if day is not None:
                yield day[0]
            elif key not in NOT_PRICED:
                yield from days_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from days_in(item)


def head(told: Facts) -> list[str]:
    """The first lines: verdict, figures with their ranges, grade, how old the prices are, the id of a plan."""
    lines = [f"Verdict: {told['verdict']}"]
    lines += map(in_words, told["figures"])
    lines.append(f"Grade: {told['grade'] or 'none is given'}")
    lines.append(age_in_words(told.get("oldest_price"), told.get("oldest_price_days")))
    if "plan" in told:
        lines.append(f"Plan: {told['plan']}, for explain, compare and what_would_change")
    return [*lines, ""]


def in_words(figure: Facts) -> str:
    """A figure with its range, money as money.

    >>> in_words({"name": "usd_per_hour", "value": 74.0, "unit": "USD/h", "low": 59.57, "high": 74.0, "of": "50% sure"})
    'usd_per_hour: $74.00 (50% sure: $59.57 to $74.00)'
    """
    is_money = str(figure["unit"]).startswith("USD")
    value, low, high = (usd(figure[k]) if is_money else significant(figure[k]) for k in ("value", "low", "high"))
    spread = "no range" if figure["low"] is None else f"{figure['of']}: {low} to {high}"
    return f"{figure['name']}: {value}{'' if is_money else ' ' + str(figure['unit'] or '')} ({spread})"


def age_in_words(oldest: str | None, days: int | None) -> str:
    """How old the prices of an answer are."""
    return "Prices: none in this answer" if oldest is None else f"Prices: the oldest is of {oldest}, {days} days old"


def shortened(first: Sequence[str], page: Sequence[str]) -> list[str]:
    """The page under its first lines: where it is too long, what stands before its last paragraphs is cut."""
    body = [line[:COLUMNS] for line in page]
    while body and not body[-1].strip():
        body.pop()
    room = MOST_LINES - len(first)
    if len(body) <= room:
        return [*first, *body]
    end = last_paragraph(body)
    start = body[: room - len(end) - 1]
    if len(start) > 2 and not start[-2].strip():
        del start[-2:]  # a heading without its lines
    return [*first, *start, f"… {len(body) - len(start) - len(end)} lines are left out", *end]


def last_paragraph(body: Sequence[str]) -> list[str]:
    """The end of a page, where its notes and what to ask next stand."""
    starts = [place for place, line in enumerate(body) if not line.strip()]
    return list(body[max(starts[-1] + 1 if starts else 0, len(body) - LONGEST_END) :])
