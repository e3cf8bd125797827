"""Frozen dataclasses that load quickly: what is the same in all of them is written once, not compiled for each.

The standard decorator compiles six methods for every frozen class, and this package has over three hundred. Text,
equality and hash come from here instead and do the same; a class that writes its own keeps it.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, *, eq: bool = True, **options: Any) -> Any:
        """`dataclasses.dataclass`, for frozen classes."""

        def made(of: type) -> type:
            shared = {**SHARED, **(COMPARED if eq else {})}
            for name in shared.keys() - vars(of).keys():
                setattr(of, name, shared[name])
            record = dataclasses.dataclass(repr=False, eq=False, **options)(of)
            names = [field.name for field in dataclasses.fields(record) if field.compare]
            record._compared = attrgetter(*names) if names else staticmethod(no_values)
            return record

        return made if cls is None else made(cls)


def no_values(record: Any) -> tuple[()]:
    """What is compared of a record without fields."""
    return ()


@recursive_repr()
def text_of(record: Any) -> str:
    """The class with its fields, as a dataclass is written."""
    shown = [f"{f.name}={getattr(record, f.name)!r}" for f in dataclasses.fields(record) if f.repr]
    return f"{type(record).__qualname__}({', '.join(shown)})"


def are_equal(record: Any, other: Any) -> Any:
    """Whether two records of one class have the same values."""
    if record.__class__ is not other.__class__:
        return NotImplemented
    return record._compared(record) == record._compared(other)


def hash_of(record: Any) -> int:
    """The hash of the values that are compared."""
    return hash(record._compared(record))


SHARED = {"__repr__": text_of}
COMPARED = {"__eq__": are_equal, "__hash__": hash_of}
