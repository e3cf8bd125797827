"""What is drafted for a model, as a question says it: names read, lengths found or stated, engines that do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gpufleet.architecture.drafts import draft_of
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.speculation import STATED, checked_draft, drafting_engine
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.speculation import EXPECTED, UNREADABLE, Speculation, parse_speculation
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.questions.fields import SPECULATED

if TYPE_CHECKING:
    from gpufleet.results.rented import RentedMachines

Asked = TypeVar("Asked", bound=Any)


class Speculating(Protocol):
    """A question that says what drafts tokens; most say too how many a step then yields."""

    @property
    def speculate(self) -> str | None:
        """The method or model that drafts, and how many tokens."""


def speculation_of(asked: Speculating) -> Speculation | None:
    """What is drafted, None where nothing is; figures of drafts alone are refused."""
    if asked.speculate is None:
        for name in ("accepted_length", "acceptance"):
            if getattr(asked, name, None) is not None:
                raise UsageError(f"--{name.replace('_', '-')} is of drafted tokens", expected="--speculate with it")
        return None
    found = parse_speculation(asked.speculate)
    return found if found.num_tokens else None


def with_draft(arch: Architecture, asked: Speculating) -> Architecture:
    """The model with what drafts for it."""
    how = speculation_of(asked)
    return arch if how is None else _with_draft(arch, how)


def without_drafts(asked: Asked) -> Asked:
    """The same question of engines that draft nothing."""
    return replace(asked, **dict.fromkeys(SPECULATED))


def drafts_yield(engines: Sequence[EngineProfile]) -> list[str]:
    """What a step of engines yields that draft, with its range; nothing where none does."""
    drafting = next((engine for engine in engines if engine.drafts is not None), None)
    if drafting is None or drafting.drafts is None:
        return []
    found = drafting.constants["accepted_length"]
    ends = "" if found.source == STATED else f" ({found.low:.2f} to {found.high:.2f})"
    return [f"{drafting.drafts.label} yields {found.value:.2f}{ends} tokens a step, {found.source}"]


def drafts_told(
    engines: Sequence[EngineProfile], chosen: RentedMachines, plain_usd_per_hour: float | None
) -> list[str]:
    """What a step with drafts yields, and what machines cost without them."""
    [yields] = drafts_yield(engines)
    if chosen.drafts is None:
        return [f"Drafts are off here, where they cost as much or more: {yields}"]
    if plain_usd_per_hour is not None and plain_usd_per_hour <= chosen.usd_per_hour:
        return [f"Drafts buy room and no machine: without them ${plain_usd_per_hour:,.2f}/h too; {yields}"]
    if plain_usd_per_hour is None:
        return [f"Without drafts nothing serves: {yields}"]
    return [f"Without drafts ${plain_usd_per_hour:,.2f}/h instead of ${chosen.usd_per_hour:,.2f}: {yields}"]


@lru_cache(maxsize=64)
def _with_draft(arch: Architecture, how: Speculation) -> Architecture:
    """The same, one object for one question: replicas are kept by it."""
    model = None if how.draft_model is None else draft_model(how.draft_model, arch)
    return replace(arch, draft=draft_of(arch, how.method, model))


def draft_model(name: str, arch: Architecture) -> Architecture:
    """A model that drafts for another: with the same tokens, and smaller."""
    try:
        found = read_model(name, shipped_architecture)
    except UnknownName as error:
        raise UsageError(UNREADABLE, found=name, expected=EXPECTED, hint=error.hint) from None
    return checked_draft(found, arch)


def planned_draft(arch: Architecture, asked: Speculating) -> Architecture:
    """The model of a plan with what drafts for it; without where it has nothing of the kind, of several models."""
    try:
        return with_draft(arch, asked)
    except Infeasible:
        return arch


def drafting(engine: EngineProfile, arch: Architecture, asked: Speculating) -> EngineProfile:
    """The engine that drafts as a question says, for a model; as it is where nothing is drafted."""
    how = speculation_of(asked)
    if how is None:
        return engine
    said = (getattr(asked, name, None) for name in ("accepted_length", "acceptance"))
    return drafting_engine(engine, arch.name, how, *said)
