"""From words, typed or written or preferred, to the request that they ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from gpufleet.cli.market import SHIPPED_MARKET, MarketFlags
from gpufleet.cli.money import usd_of
from gpufleet.errors import UsageError, named
from gpufleet.inputs.workload import WorkloadFile
from gpufleet.questions.fields import PlanRequest, words_of
from gpufleet.questions.words import Said, Word
from gpufleet.records import dataclass
from gpufleet.table import SUCH_AS

R = TypeVar("R", bound=PlanRequest)
T = TypeVar("T")
HELD_BY = {"trace": ("rate", "in", "out"), "classes": ("rate", "in", "out", "slo")}
HINT = "A workload file may give it too: --workload."


@dataclass(frozen=True)
class ServeFlags:
    """What the command line says beside the words that a workload file may hold, and the verb that hears it."""

    seed_config: str | None = None
    market: MarketFlags = SHIPPED_MARKET
    verb: str = "plan serve"


@dataclass(frozen=True)
class FurtherFlags:
    """What is asked about the plan beside its answer; `asks_front`: by a flag of its own, not by a page of HTML."""

    why_not: tuple[str, ...] = ()
    flips: bool = False
    front: bool = False
    token_price: str | None = None
    grid_g_co2_per_kwh: float | None = None
    asks_front: bool = False
    is_verified: bool = False


NOTHING_FURTHER = FurtherFlags()


@dataclass(frozen=True)
class SaidWords:
    """What was typed over what a file says over what is preferred, and which words came from where."""

    words: WorkloadFile
    from_file: frozenset[str] = frozenset()
    from_config: frozenset[str] = frozenset()

    @classmethod
    def of(cls, typed: WorkloadFile, written: WorkloadFile, liked: WorkloadFile) -> SaidWords:
        """The three layers as one."""
        said = typed.over(written)
        return cls(said.over(liked), said_below(typed, written), said_below(said, liked))


def said_below(above: WorkloadFile, below: WorkloadFile) -> frozenset[str]:
    """Words that only the layer below says, itself or in the trace or the classes that it names."""
    names = below.names - above.names
    held = {name for source in names & HELD_BY.keys() for name in HELD_BY[source]}
    return frozenset(names | (held - above.names))


def with_words(request: R, asked: SaidWords, market: MarketFlags) -> R:
    """The request with every word that is said of it and that it does not hold yet, at the prices of a market."""
    rows, said = words_of(type(request)), asked.words
    is_open = {name: getattr(request, row.field, None) == row.default for name, row in rows.items() if row.field}
    values = {
        rows[name].field: value_of(rows[name], text, asked) for name, text in said.words.items() if is_open.get(name)
    }
    origins = [frozenset(fields_of(rows, names)) for names in (asked.from_file, asked.from_config)]
    return replace(
        request,
        **values,
        price_change=market.price_change,
        max_price_age_s=market.max_price_age_s,
        today=market.today,
        from_file=origins[0],
        from_config=origins[1],
        said=request.said | values.keys(),
    )


def fields_of(rows: dict[str, Word[Any]], names: frozenset[str]) -> list[str]:
    """Fields of a request that words fill; a name that is no word of it stays."""
    return [rows[name].field or name if name in rows else name for name in names]


def value_of(row: Word[Any], said: Said, asked: SaidWords) -> Any:
    """What is said of a word, read; money in dollars. What cannot be read is told with the option or the key."""
    with named(row.flag if row.name not in asked.from_file else f"'{row.name}'"):
        if not row.kind.is_money:
            return row.value_of(said)
        return usd_of(str(said), asked.words.text("currency"), lambda bare: row.kind.read(bare, row.what))


def read_as(name: str, read: Callable[[str], T], text: str) -> T:
    """A text, read; what cannot be read is told with the name of its option."""
    with named(name):
        return read(text)


def model_of(said: WorkloadFile, verb: str) -> str:
    """The model that a question is about."""
    return needed(said.model, "MODEL", f"a name or a config.json, as in '{SUCH_AS[verb]}'")


def needed(value: str | None, name: str, expected: str) -> str:
    """A value that no default can stand in for."""
    if value is None:
        raise UsageError(f"{name} is missing", expected=expected, hint=HINT)
    return value
