"""What somebody said of a question, apart from what they left to its defaults: one rule for every verb."""

from __future__ import annotations

from dataclasses import field, fields, replace
from typing import Any, TypeVar

from gpufleet.records import dataclass

S = TypeVar("S", bound="Spoken")


class KeepsWhatIsSaid(type):
    """Makes questions that know which of their fields somebody filled; a copy knows what its original did."""

    def __call__(cls, *values: Any, **said: Any) -> Any:
        """A question, with the names of the fields that it is made with; None says nothing."""
        if "said" not in said:
            in_order = [f.name for f in fields(cls) if f.init and not f.kw_only]  # type: ignore[arg-type]
            filled = {**dict(zip(in_order, values, strict=False)), **said}
            said["said"] = frozenset(name for name, value in filled.items() if value is not None)
        return super().__call__(*values, **said)


@dataclass(frozen=True)
class Spoken(metaclass=KeepsWhatIsSaid):
    """A question whose fields somebody fills. `said` are those that somebody did, with their default too.

    `preferred` are those that the user's configuration filled. They change nothing but the origin that the answer
    states.
    """

    said: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)
    preferred: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)

    def origin(self, name: str, otherwise: str = "default") -> str:
        """Where the value of a field came from: 'given' where somebody filled it, `otherwise` where nobody did."""
        if name in self.preferred:
            return "preference"
        return "given" if name in self.said else otherwise


def filled(question: S, /, **values: Any) -> S:
    """A question with further fields said; None says nothing.

    >>> filled(Spoken()).said
    frozenset()
    """
    found = {name: value for name, value in values.items() if value is not None}
    return replace(question, **found, said=question.said | frozenset(found))
