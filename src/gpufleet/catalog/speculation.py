"""What steps were measured to yield where engines draft (`data/speculation.csv`), and engines that draft so."""

from __future__ import annotations

from functools import cache, lru_cache

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.speculation import Measured, Speculation, accepted_length_of, measured_length
from gpufleet.errors import UsageError
from gpufleet.provenance import Sourced

ALIKE_VOCABULARY = 0.005
"""Share of its tokens by which a vocabulary may be padded."""
THAT_DRAFT = ("vllm", "sglang", "tensorrt-llm")
STATED = "as stated"
COLUMNS = ("model", "method", "drafted_tokens", "task", "mode", "accepted_length", "source", "as_of")


@cache
def load_accepted_lengths() -> tuple[Measured, ...]:
    """Every measured accepted length.

    >>> max(row.accepted_length for row in load_accepted_lengths())
    5.21
    """
    return tuple(
        Measured(
            model=row["model"],
            method=row["method"],
            num_tokens=int(row["drafted_tokens"]),
            task=row["task"],
            mode=row["mode"],
            accepted_length=float(row["accepted_length"]),
            source=row["source"],
        )
        for _, row in rows_of(SHIPPED / "speculation.csv", COLUMNS)
    )


def checked_draft(found: Architecture, arch: Architecture) -> Architecture:
    """A model that drafts for another, refused where it has other tokens, or is no smaller."""
    if abs(found.vocab_size - arch.vocab_size) > ALIKE_VOCABULARY * arch.vocab_size:
        raise UsageError(
            f"{found.name} has other tokens than {arch.name}",
            found=f"a vocabulary of {found.vocab_size:,}",
            expected=f"{arch.vocab_size:,}",
        )
    if num_parameters(found) >= num_parameters(arch):
        raise UsageError(f"a draft is smaller than its model: {found.name} is not", expected=f"less than {arch.name}")
    return found


@lru_cache(maxsize=64)
def drafting_engine(
    engine: EngineProfile, model: str, how: Speculation, stated_length: float | None, acceptance: float | None
) -> EngineProfile:
    """The engine that drafts for a model, one object for one question: replicas are kept by it."""
    if engine.name not in THAT_DRAFT:
        raise UsageError(f"drafts of {engine.title} are not known", expected=", ".join(THAT_DRAFT))
    return engine.drafting(how, yielded(how, model, stated_length, acceptance))


def yielded(how: Speculation, model: str, stated_length: float | None, acceptance: float | None) -> Sourced:
    """Tokens that a step yields: as stated, by a stated share of those accepted, or as was measured."""
    if stated_length is not None and acceptance is not None:
        raise UsageError("two ways to say what a step yields", expected="--accepted-length or --acceptance")
    if stated_length is None and acceptance is None:
        return measured_length(load_accepted_lengths(), how, model)
    length = stated_length if acceptance is None else float(accepted_length_of(acceptance, how.num_tokens))
    assert length is not None, "one of both is stated"
    if not 1 <= length <= how.num_tokens + 1:
        raise UsageError(
            "a step yields one token of its own, and at most those that were drafted (--accepted-length)",
            found=f"{length:g}",
            expected=f"1 to {how.num_tokens + 1}",
        )
    return Sourced(length, "tokens", STATED, length, length, 1)
