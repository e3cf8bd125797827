"""Frozen dataclasses that load quickly: what is the same in all of them is written once, not compiled for each.

The standard decorator compiles six methods for every frozen class, and this package has over three hundred. Text,
equality, hash and refusal of changes come from here instead and do the same; a class that writes its own keeps it.
What makes a record of its values is compiled by the standard decorator when the first one is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from inspect import Signature, signature
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, *, eq: bool = True, init: bool = True, **options: Any) -> Any:
        """`dataclasses.dataclass`, for frozen classes."""

        def made(of: type) -> type:
            shared = {**SHARED, **(COMPARED if eq else {}), **(begun(of) if init else {})}
            for name in shared.keys() - vars(of).keys():
                setattr(of, name, shared[name])
            plain = {**options, "init": False, "frozen": False}
            say_frozen(of.__mro__[1:], False)
            record = dataclasses.dataclass(repr=False, eq=False, **plain)(of)
            names = [field.name for field in dataclasses.fields(record) if field.compare]
            record._compared = attrgetter(*names) if names else staticmethod(no_values)
            say_frozen(of.__mro__, True)
            return record

        return made if cls is None else made(cls)


def say_frozen(records: Iterable[type], is_frozen: bool) -> None:
    """What records tell the standard decorator, which compiles nothing to freeze a class that it takes for open.

    Whoever extends a record by the standard decorator finds it frozen.
    """
    for record in records:
        if "_compared" in vars(record):
            record.__dataclass_params__.frozen = is_frozen  # type: ignore[attr-defined]


def begun(record: type) -> dict[str, object]:
    """What makes the first record of a class, and leaves the rest to the standard method, with its signature."""

    def make_first(made: Any, *values: Any, **named: Any) -> None:
        init = standard_init(record)
        setattr(record, "__init__", init)  # noqa: B010
        init(made, *values, **named)

    return {"__init__": make_first, "__signature__": Signed()}


def standard_init(record: Any) -> Callable[..., None]:
    """The method that the standard decorator writes for a frozen class with the fields of this one."""
    own = dataclasses.fields(record)
    names = {name: getattr(record, name) for name in ("__module__", "__qualname__")}
    if hasattr(record, "__post_init__"):
        names["__post_init__"] = record.__post_init__
    annotations = {"__annotations__": {field.name: field.type for field in own}}
    like = type(record.__name__, (), {**names, **annotations, **{field.name: field for field in own}})
    made: Any = dataclasses.dataclass(repr=False, eq=False, frozen=True)(like)
    return cast("Callable[..., None]", made.__init__)


class Signed:
    """The signature of a class of records, as its first record will have it."""

    def __get__(self, _: Any, record: Any) -> Signature:
        """Parameters of the method that makes a record, but for the record."""
        whole = signature(standard_init(record))
        return whole.replace(parameters=list(whole.parameters.values())[1:], return_annotation=Signature.empty)


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


def refuse_change(record: Any, name: str, *value: Any) -> None:
    """No field of a record is set or deleted, nor any other attribute where its class is one of records itself."""
    if "__dataclass_fields__" in vars(type(record)) or name in record.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
    change = object.__setattr__ if value else object.__delattr__
    change(record, name, *value)


SHARED = {"__repr__": text_of, "__setattr__": refuse_change, "__delattr__": refuse_change}
COMPARED = {"__eq__": are_equal, "__hash__": hash_of}
