"""What is drafted for a model, as a question says it: names read, lengths found or stated, engines that do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gpufleet.architecture.drafts import draft_of
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.speculation import load_accepted_lengths
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.speculation import (
    EXPECTED,
    UNREADABLE,
    Speculation,
    accepted_length_of,
    measured_length,
    parse_speculation,
)
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.provenance import Sourced
from gpufleet.questions.fields import SPECULATED

if TYPE_CHECKING:
    from gpufleet.results.rented import RentedMachines

Asked = TypeVar("Asked", bound=Any)
ALIKE_VOCABULARY = 0.005
"""Share of its tokens by which a vocabulary may be padded."""
THAT_DRAFT = ("vllm", "sglang", "tensorrt-llm")
STATED = "as stated"


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
    if abs(found.vocab_size - arch.vocab_size) > ALIKE_VOCABULARY * arch.vocab_size:
        raise UsageError(
            f"{found.name} has other tokens than {arch.name}",
            found=f"a vocabulary of {found.vocab_size:,}",
            expected=f"{arch.vocab_size:,}",
        )
    if num_parameters(found) >= num_parameters(arch):
        raise UsageError(f"a draft is smaller than its model: {found.name} is not", expected=f"less than {arch.name}")
    return found


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
    if engine.name not in THAT_DRAFT:
        raise UsageError(f"drafts of {engine.title} are not known", expected=", ".join(THAT_DRAFT))
    said = (getattr(asked, name, None) for name in ("accepted_length", "acceptance"))
    return _drafting(engine, arch.name, how, *said)


@lru_cache(maxsize=64)
def _drafting(
    engine: EngineProfile, model: str, how: Speculation, stated_length: float | None, acceptance: float | None
) -> EngineProfile:
    """The same, one object for one question."""
    return engine.drafting(how, yielded(how, model, stated_length, acceptance))


def yielded(how: Speculation, model: str, stated_length: float | None, acceptance: float | None) -> Sourced:
    """Tokens that a step yields: as stated, by a stated share of those accepted, or as was measured."""
    if stated_length is not None and acceptance is not None:
        raise UsageError("two ways to say what a step yields", expected="--accepted-length or --acceptance")
    if stated_length is None and acceptance is None:
        return measured_length(load_accepted_lengths(), how, model)
    if acceptance is not None and not 0 <= acceptance <= 1:
        raise UsageError("not a share of drafted tokens (--acceptance)", found=acceptance, expected="0 to 1, or a %")
    length = stated_length if acceptance is None else float(accepted_length_of(acceptance, how.num_tokens))
    assert length is not None, "one of both is stated"
    if not 1 <= length <= how.num_tokens + 1:
        raise UsageError(
            "a step yields one token of its own, and at most those that were drafted (--accepted-length)",
            found=f"{length:g}",
            expected=f"1 to {how.num_tokens + 1}",
        )
    return Sourced(length, "tokens", STATED, length, length, 1)
