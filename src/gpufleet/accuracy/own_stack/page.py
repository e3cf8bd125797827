"""What runs of one's own say of an engine on a GPU, as a page."""

from __future__ import annotations

from gpufleet.accuracy.own_stack.shape import StackCalibration, StackFactor
from gpufleet.report.numbers import percent
from gpufleet.report.page import Column, Page, Table

NAMES = {"tpot": "TPOT", "ttft": "TTFT", "step": "a step"}
HELD = 0.03


def stack_page(found: StackCalibration) -> Page:
    """Each factor: what runs say, what is taken of it, and how much narrower ranges become."""
    columns = [
        Column("time", "time"),
        Column("of", "of", wraps=True),
        Column("runs", "runs", align="right"),
        Column("said", "runs say", align="right"),
        Column("taken", "taken", align="right"),
        Column("range", "80% range", align="right"),
        Column("width", "ranges", align="right"),
    ]
    tables = [Table(columns, [row_of(factor) for factor in found.factors], "Factors on predicted times")]
    if found.far:
        far = [{"run": f.name, "time": NAMES[f.time], "said": f"x{f.measured_ratio:.2f}"} for f in found.far]
        names = [Column("run", "run"), Column("time", "time"), Column("said", "measured / predicted", align="right")]
        tables.append(Table(names, far, "Far from the others, and counted for less"))
    return Page(headline(found), tables, [*explained(found), *found.notes])


def headline(found: StackCalibration) -> str:
    """What was measured, and what becomes of each time of its first model."""
    version = f" {found.engine_version}" if found.engine_version else ""
    first = [next((f for f in found.factors if f.time == time and f.layout), None) for time in NAMES]
    moves = ", ".join(f"{NAMES[f.time]} {move(f.ratio)}" for f in first if f is not None)
    number = f"{found.runs} run{'' if found.runs == 1 else 's'}"
    return f"{found.engine}{version} on {found.gpu}, {number}: {moves} of what was predicted."


def move(ratio: float) -> str:
    """A factor in words.

    >>> move(1.25), move(0.9), move(1.01)
    ('25% more', '10% less', 'as much (x1.01)')
    """
    if abs(ratio - 1) < HELD:
        return f"as much (x{ratio:.2f})"
    return f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


def row_of(factor: StackFactor) -> dict[str, object]:
    """A factor as a row."""
    other = f"{factor.model}, other layouts" if factor.model else "all other models"
    return {
        "time": NAMES[factor.time],
        "of": f"{factor.model}, {factor.layout}" if factor.layout else other,
        "runs": factor.runs,
        "said": f"x{factor.measured_ratio:.2f}",
        "taken": f"x{factor.ratio:.2f}",
        "range": f"{factor.low_ratio:.2f} to {factor.high_ratio:.2f}",
        "width": f"x{factor.range_ratio:.2f}",
    }


def explained(found: StackCalibration) -> list[str]:
    """How to read it, and what to do with it."""
    keeps = f"--calibration {found.saved} in a question uses it." if found.saved else "--save FILE.toml keeps it."
    grows = next((f for f in found.factors if f.slope), None)
    slope = f" {NAMES[grows.time]} at 16 sequences; x{4**grows.slope:.2f} for 4 times as many." if grows else ""
    return [
        "runs say: the median of measured / predicted; taken: what is left of it beside how far stacks differ where "
        "sources were left out. Runs of one sweep (one length, several loads) count as little more than one."
        f"{slope}",
        f"ranges: how wide they become, of what they were. {keeps}",
    ]
