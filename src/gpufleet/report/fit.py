"""The answer of `gpufleet fit` as a page."""

from __future__ import annotations

from typing import Any

from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.report.grades import memory_look
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import count, duration, gib, ranged, significant, usd_per_hour
from gpufleet.report.page import Column, Fact, Page, Table
from gpufleet.results.base import ExplainedTerm, Figure
from gpufleet.results.fit import FitResult, UsersByPrecision
from gpufleet.units import GIB

SHOWN_REJECTIONS = 6
SHOWN_LOADING_RATIO = 0.01


def fit_page(result: FitResult, *, explain: bool = False) -> Page:
    """Verdict, users by precision, memory by part; when it does not fit, why and what would help."""
    tables = [users_table(result)]
    if result.parts:
        tables.append(memory_table(result))
    tables += [otherwise_table(result)] if result.otherwise else []
    tables += launch_tables(result.launch)
    if not result.fits:
        tables += [rejected_table(result)] if result.rejected else []
        tables += [changes_table(result)]
    if explain:
        tables.append(terms_table(result.terms))
    notes = [f"{note.rstrip('.')}." for note in result.notes]
    return Page(headline(result), tables, notes, paragraphs(result), facts(result), title(result))


def title(result: FitResult) -> str:
    """What fits on what, where it does: the facts say how well."""
    return f"{what_on_what(result)}." if result.fits else ""


def what_on_what(result: FitResult) -> str:
    """The model, its number format and the GPUs."""
    return f"{result.model} in {result.weight_format} on {result.gpus}"


def facts(result: FitResult) -> list[Fact]:
    """Whether it fits, as what, and for how many users."""
    if not result.fits:
        missing = f"short by {shortage(result)} per GPU" if result.layout else ""
        return [Fact("Memory", DOES_NOT_FIT.capitalize(), missing, "bad")]
    verdict = Fact("Memory", result.verdict.capitalize(), f"as {result.layout}", memory_look(result.verdict))
    each = f"of {count(result.context_tokens)} tokens each"
    return [verdict, *([] if result.users is None else [Fact("Users at once", users_text(result.users), each)])]


def headline(result: FitResult) -> str:
    """The verdict in one sentence."""
    what = what_on_what(result)
    if result.refusal:
        return f"{what}: does not fit. {result.refusal}."
    if result.layout is None:
        reasons = "; ".join(f"{x.layout}: {x.reason}" for x in result.rejected[:2])
        return f"{what}: does not fit, no layout is possible. {reasons}."
    if not result.fits:
        return f"{what}: does not fit. The nearest layout, {result.layout}, is short by {shortage(result)} per GPU."
    users = "" if result.users is None else f", room for {users_in_words(result.users)}"
    return f"{what}: {result.verdict} as {result.layout}{users} of {count(result.context_tokens)} tokens."


def shortage(result: FitResult) -> str:
    """Missing bytes of each GPU."""
    return gib(result.short_by_bytes_per_gpu)


def users_text(figure: Any) -> str:
    """Users with their range, whole."""
    if figure is None:
        return "-"
    if figure.low == figure.high:
        return count(figure.value)
    return f"{count(figure.value)} ({count(figure.low)}-{count(figure.high)})"


def users_in_words(figure: Figure) -> str:
    """Users with their range and noun."""
    return f"{users_text(figure)} {'user' if figure.low == figure.high == 1 else 'users'}"


def paragraphs(result: FitResult) -> list[str]:
    """Engine, KV room, floor and binding limit, each in a line."""
    lines = [f"Engine {result.engine}. Binding limit: {result.binding_limit}."]
    if result.layout and result.kv_pool_bytes and result.usable_bytes and result.kv_bytes_per_user:
        pool = result.kv_pool_bytes
        shown = ranged(max(pool.value, 0.0), max(pool.low or 0.0, 0.0), max(pool.high or 0.0, 0.0), "GiB", GIB)
        lines.append(
            f"{usable_line(result)} (memory fraction {result.memory_fraction:.3g}); KV room {shown}, "
            f"{gib(result.kv_bytes_per_user)} for each user."
        )
        lines += startup_line(result, result.kv_bytes_per_user, pool)
    if result.tpot_floor_s:
        users = "one user" if result.batch in (None, 1) else f"{count(result.batch)} users"
        floor = duration(result.tpot_floor_s.value)
        lines.append(f"TPOT floor {floor} for {users}: weights and KV read over memory bandwidth, a bound.")
    return lines


def startup_line(result: FitResult, held_bytes: float, pool: Figure) -> list[str]:
    """That the engine asks for more before it starts than a user holds, where the pool may have less."""
    asked = result.startup_kv_bytes
    if asked is None or asked <= held_bytes or asked <= (pool.low or 0.0):
        return []
    return [
        f"{result.engine} starts only where the pool has {gib(asked)}: one sequence of {count(result.context_tokens)} "
        "tokens while its prompt is prefilled, each layer with a window keeping a whole step beside it."
    ]


def usable_line(result: FitResult) -> str:
    """What of a GPU's memory an engine may use, the driver's part named where there is one."""
    usable = f"the engine may use {gib(result.usable_bytes)}"
    if not result.driver_bytes:
        return f"Of {gib(result.device_bytes)} per GPU {usable}"
    driver = gib(result.driver_bytes)
    left = gib(result.device_bytes - result.driver_bytes)
    return f"Of {gib(result.device_bytes)} per GPU the driver keeps {driver}; of the other {left} {usable}"


def loaded_note(result: FitResult) -> list[str]:
    """Why weights take more once they are loaded, where it shows."""
    counted, loaded = result.checkpoint_bytes_per_gpu, result.parts[0].size.value
    if counted is None or loaded < (1 + SHOWN_LOADING_RATIO) * counted:
        return []
    return [f"weights: {gib(counted)} in the checkpoint, {gib(loaded)} loaded: the engine pads tiles and keeps tables."]


def users_table(result: FitResult) -> Table:
    """Users of the context by weight and KV precision, the asked one marked."""
    columns = [
        Column("weights", "weights"),
        Column("kv", "KV"),
        Column("verdict", "verdict"),
        Column("layout", "layout", lambda v: "-" if v is None else str(v), priority=1),
        Column("weights_bytes_per_gpu", "checkpoint/GPU", lambda v: "-" if v is None else gib(_number(v)), "right"),
        Column("users_text", "users", str, "right", where="text"),
        Column("users", "users", where="data"),
        Column("users_low", "users low", where="data"),
        Column("users_high", "users high", where="data"),
    ]
    asked = [i for i, row in enumerate(result.by_precision) if _is_asked(result, row)]
    title = f"Users of {count(result.context_tokens)} tokens by precision"
    refused = dict.fromkeys(row.reason for row in result.by_precision if row.reason)
    notes = [f"{reason}." for reason in refused if reason]
    return Table(columns, [_users_row(row) for row in result.by_precision], title, notes, next(iter(asked), None))


def _is_asked(result: FitResult, row: UsersByPrecision) -> bool:
    return (row.weights, row.kv) == (result.weight_format, result.kv_precision)


def _users_row(row: UsersByPrecision) -> dict[str, object]:
    users = row.users
    return {
        "weights": row.weights,
        "kv": row.kv,
        "verdict": row.verdict,
        "layout": row.layout,
        "weights_bytes_per_gpu": row.weights_bytes_per_gpu,
        "users_text": users_text(users),
        "users": users and users.value,
        "users_low": users and users.low,
        "users_high": users and users.high,
    }


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None


def memory_table(result: FitResult) -> Table:
    """What the fullest GPU holds, by part."""
    columns = [
        Column("part", "memory of the fullest GPU"),
        Column("size", "GiB", align="right"),
        Column("range", "range", align="right", priority=1),
    ]
    named = [(part.name, part.size) for part in result.parts]
    if result.total_bytes:
        named.append(("total", result.total_bytes))
    rows = [{"part": name, "size": gib(f.value), "range": _range(f.low, f.high)} for name, f in named]
    return Table(columns, rows, notes=loaded_note(result))


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None or low == high:
        return "exact"
    return f"{significant(low / GIB, 2)}-{significant(high / GIB, 2)}"


def rejected_table(result: FitResult) -> Table:
    """Layouts of these GPUs and why none of them serves."""
    columns = [Column("layout", "layout"), Column("reason", "why not")]
    rows = [
        {
            "layout": x.layout,
            "reason": x.reason
            if x.short_by_bytes_per_gpu is None
            else f"short by {gib(x.short_by_bytes_per_gpu)} a GPU",
        }
        for x in result.rejected
    ]
    more = [f"And {len(rows) - SHOWN_REJECTIONS} more layouts."] if len(rows) > SHOWN_REJECTIONS else []
    return Table(columns, rows[:SHOWN_REJECTIONS], "What did not fit", more)


def changes_table(result: FitResult) -> Table:
    """Single changes that make it fit, the cheapest marked."""
    columns = [
        Column("what", "change"),
        Column("verdict", "then"),
        Column("layout", "layout", priority=3),
        Column("users", "users", lambda v: count(_number(v)), "right"),
        Column("price_usd_per_hour", "price", lambda v: usd_per_hour(_number(v)), "right"),
        Column("instance", "machine", lambda v: "-" if v is None else str(v), priority=1),
        Column("lowers_quality", "lowers quality", lambda v: "yes" if v else "no", priority=2),
    ]
    rows = [change.model_dump() for change in result.changes]
    empty = "No single change of GPU count (up to 16), precision or context makes it fit."
    dates = sorted({f"{c.price_source} of {c.price_as_of}" for c in result.changes if c.price_source})
    notes = [f"On-demand prices: {', '.join(dates)}."] if dates else []
    return Table(columns, rows, "Cheapest change that makes it fit", notes, 0 if rows else None, empty)


def otherwise_table(result: FitResult) -> Table:
    """What the verdict rests on that nobody said, and what is missing in other usual settings."""
    columns = [
        Column("assumed", "assumed", wraps=True),
        Column("otherwise", "otherwise", wraps=True),
        Column("verdict", "then"),
        Column("short_by_bytes_per_gpu", "short by, a GPU", lambda v: gib(_number(v)), "right"),
    ]
    return Table(columns, [x.model_dump() for x in result.otherwise], "What the verdict rests on")


def terms_table(terms: list[ExplainedTerm]) -> Table:
    """Every term with its formula, the numbers put in and its source."""
    columns = [Column("name", "term"), Column("size", "GiB", align="right"), Column("grade", "grade")]
    rows = [{"name": t.name, "size": significant(t.value / GIB), "grade": t.grade} for t in terms]
    notes = [f"{t.name}: {t.formula}; {t.inputs}. Source: {t.source}." for t in terms]
    return Table(columns, rows, "Terms", notes)
