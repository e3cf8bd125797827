"""The answer of `gpufleet fit` as a page."""

from __future__ import annotations

from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import count, duration, gib, or_dash, ranged, significant, usd_per_hour
from gpufleet.report.page import Column, Columns, Fact, Page, Table, column, number
from gpufleet.report.words import memory_look
from gpufleet.results.base import ExplainedTerm, Figure
from gpufleet.results.fit import FitResult, RejectedLayout, UsersByPrecision
from gpufleet.units import GIB

SHOWN_REJECTIONS = 6
SHOWN_LOADING_RATIO = 0.01


def fit_page(result: FitResult, *, explain: bool = False) -> Page:
    """Verdict, users by precision, memory by part; when it does not fit, why and what would help."""
    tables = [
        users_table(result),
        *([memory_table(result)] if result.parts else []),
        *([otherwise_table(result)] if result.otherwise else []),
        *launch_tables(result.launch),
        *([rejected_table(result)] if result.rejected and not result.fits else []),
        *([] if result.fits else [changes_table(result)]),
        *([terms_table(result.terms)] if explain else []),
    ]
    notes = [f"{note.rstrip('.')}." for note in result.notes]
    title = f"{what_on_what(result)}." if result.fits else ""
    return Page(headline(result), tables, notes, paragraphs(result), facts(result), title)


def what_on_what(result: FitResult) -> str:
    """The model, its number format and the GPUs."""
    return f"{result.model} in {result.weight_format} on {result.gpus}"


def facts(result: FitResult) -> list[Fact]:
    """Whether it fits, as what, and for how many users."""
    if not result.fits:
        missing = f"short by {gib(result.short_by_bytes_per_gpu)} per GPU" if result.layout else ""
        return [Fact("Memory", DOES_NOT_FIT.capitalize(), missing, "bad")]
    verdict = Fact("Memory", result.verdict.capitalize(), f"as {result.layout}", memory_look(result.verdict))
    each = f"of {count(result.context_tokens)} tokens each"
    return [verdict, *([] if result.users is None else [Fact("Users at once", users_text(result.users), each)])]


def headline(result: FitResult) -> str:
    """The verdict in one sentence."""
    what, users = what_on_what(result), result.users
    if result.refusal:
        return f"{what}: does not fit. {result.refusal}."
    if result.layout is None:
        reasons = "; ".join(f"{x.layout}: {x.reason}" for x in result.rejected[:2])
        return f"{what}: does not fit, no layout is possible. {reasons}."
    if not result.fits:
        short = gib(result.short_by_bytes_per_gpu)
        return f"{what}: does not fit. The nearest layout, {result.layout}, is short by {short} per GPU."
    room = ""
    if users is not None:
        room = f", room for {users_text(users)} {'user' if users.low == users.high == 1 else 'users'}"
    return f"{what}: {result.verdict} as {result.layout}{room} of {count(result.context_tokens)} tokens."


def users_text(figure: Figure | None) -> str:
    """Users with their range, whole."""
    if figure is None:
        return "-"
    if figure.low == figure.high:
        return count(figure.value)
    return f"{count(figure.value)} ({count(figure.low)}-{count(figure.high)})"


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
    tokens = count(result.max_model_len or result.context_tokens)
    beside = "" if result.max_model_len else ", each layer with a window keeping a whole step beside it"
    return [
        f"{result.engine} starts only where the pool has {gib(asked)}: one sequence of {tokens} tokens while its "
        f"prompt is prefilled{beside}."
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
    columns: Columns[UsersByPrecision] = [
        column("weights", lambda row: row.weights),
        column("KV", lambda row: row.kv, key="kv"),
        column("verdict", lambda row: row.verdict),
        column("layout", lambda row: row.layout, show=or_dash(str), priority=1),
        number("checkpoint/GPU", lambda row: row.weights_bytes_per_gpu, key="weights_bytes_per_gpu", show=or_dash(gib)),
        number("users", lambda row: users_text(row.users), key="users_text", where="text"),
        column("users", lambda row: row.users and row.users.value, where="data"),
        column("users_low", lambda row: row.users and row.users.low, where="data"),
        column("users_high", lambda row: row.users and row.users.high, where="data"),
    ]
    asked = (result.weight_format, result.kv_precision)
    chosen = next((i for i, row in enumerate(result.by_precision) if (row.weights, row.kv) == asked), None)
    title = f"Users of {count(result.context_tokens)} tokens by precision"
    refused = dict.fromkeys(row.reason for row in result.by_precision if row.reason)
    return Table.of(result.by_precision, columns, title, [f"{reason}." for reason in refused], chosen=chosen)


def memory_table(result: FitResult) -> Table:
    """What the fullest GPU holds, by part."""
    columns = [
        Column("part", "memory of the fullest GPU"),
        Column("size", "GiB", align="right"),
        Column("range", "range", align="right", priority=1),
    ]
    named = [(part.name, part.size) for part in result.parts]
    named += [("total", result.total_bytes)] if result.total_bytes else []
    rows = [(name, gib(f.value), range_words(f.low, f.high)) for name, f in named]
    return Table.of_cells(columns, rows, notes=loaded_note(result))


def range_words(low: float | None, high: float | None) -> str:
    """A range of bytes in GiB, without its unit."""
    if low is None or high is None or low == high:
        return "exact"
    return f"{significant(low / GIB, 2)}-{significant(high / GIB, 2)}"


def rejected_table(result: FitResult) -> Table:
    """Layouts of these GPUs and why none of them serves."""
    columns: Columns[RejectedLayout] = [column("layout", lambda x: x.layout), column("why not", miss_words)]
    hidden = len(result.rejected) - SHOWN_REJECTIONS
    more = [f"And {hidden} more layouts."] if hidden > 0 else []
    return Table.of(result.rejected[:SHOWN_REJECTIONS], columns, "What did not fit", more)


def miss_words(x: RejectedLayout) -> str:
    """By how much a layout misses, or why it is none."""
    return x.reason if x.short_by_bytes_per_gpu is None else f"short by {gib(x.short_by_bytes_per_gpu)} a GPU"


def changes_table(result: FitResult) -> Table:
    """Single changes that make it fit, the cheapest marked."""
    columns = [
        Column("what", "change"),
        Column("verdict", "then"),
        Column("layout", "layout", priority=3),
        Column("users", "users", count, "right"),
        Column("price_usd_per_hour", "price", usd_per_hour, "right"),
        Column("instance", "machine", or_dash(str), priority=1),
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
        Column("short_by_bytes_per_gpu", "short by, a GPU", gib, "right"),
    ]
    return Table(columns, [x.model_dump() for x in result.otherwise], "What the verdict rests on")


def terms_table(terms: list[ExplainedTerm]) -> Table:
    """Every term with its formula, the numbers put in and its source."""
    columns = [Column("name", "term"), Column("size", "GiB", align="right"), Column("grade", "grade")]
    rows = [(t.name, significant(t.value / GIB), t.grade) for t in terms]
    notes = [f"{t.name}: {t.formula}; {t.inputs}. Source: {t.source}." for t in terms]
    return Table.of_cells(columns, rows, "Terms", notes)
