"""The names of the classic tool: kinds of work, size classes that configs may add to, and goals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import ClassVar, TypeVar

from gpufleet.errors import UnknownName, nearest_names


def canonical(name: str) -> str:
    """A name as it is compared: lower case, with underscores.

    >>> canonical("Fine-Tuning")
    'fine_tuning'
    """
    return re.sub(r"[\W_]+", "_", name.strip().casefold()).strip("_")


class WorkloadType(Enum):
    """What the GPUs do."""

    TRAINING = "training"
    FINE_TUNING = "fine_tuning"
    INFERENCE = "inference"

    @property
    def title(self) -> str:
        """The name in a sentence."""
        return self.value.replace("_", "-")


class Goal(Enum):
    """What the options are ranked by."""

    COST = "cost"
    PERFORMANCE = "performance"
    RELIABILITY = "reliability"


Choice = TypeVar("Choice", WorkloadType, Goal)


def member_named(kind: type[Choice], name: object, what: str) -> Choice:
    """The member that a member, a name or a value means, in any capitals.

    >>> member_named(WorkloadType, "Inference", "workload type")
    <WorkloadType.INFERENCE: 'inference'>
    """
    if isinstance(name, kind):
        return name
    members: dict[str, Choice] = {member.value: member for member in kind}
    if isinstance(name, str) and canonical(name) in members:
        return members[canonical(name)]
    raise UnknownName(what, name, members)


class _Sizes(type):
    """What makes `ModelSize` behave like an enumeration: it can be iterated, indexed by name, and asked for members."""

    _members: ClassVar[dict[str, ModelSize]] = {}

    def __iter__(cls) -> Iterator[ModelSize]:
        return iter(cls._members.values())

    def __len__(cls) -> int:
        return len(cls._members)

    def __getitem__(cls, name: str) -> ModelSize:
        return ModelSize(name)

    def __getattr__(cls, name: str) -> ModelSize:
        found = cls._members.get(canonical(name))
        if found is None or name != name.upper():
            near = nearest_names(name, [size.name for size in cls])
            raise AttributeError(f"no model size {name}; did you mean {' or '.join(near) or 'one of a config'}?")
        return found


class ModelSize(metaclass=_Sizes):
    """A size class. Four always exist; every size that a config adds becomes a member when the config is read.

    >>> ModelSize.LARGE.value, ModelSize("large") is ModelSize.LARGE
    ('large', True)
    """

    name: str
    value: str

    def __new__(cls, value: str | ModelSize) -> ModelSize:
        """The member of that value or name, as in an Enum."""
        if isinstance(value, ModelSize):
            return value
        known = {size.value: size for size in cls}
        if not isinstance(value, str) or canonical(value) not in known:
            raise UnknownName("model size", value, known)
        return known[canonical(value)]

    @classmethod
    def learn(cls, value: str) -> ModelSize:
        """The member of that value, made where it is new."""
        folded = canonical(value)
        if folded not in cls._members:
            size = object.__new__(cls)
            size.name, size.value = folded.upper(), folded
            cls._members[folded] = size
        return cls._members[folded]

    def __repr__(self) -> str:
        return f"<ModelSize.{self.name}: {self.value!r}>"

    def __str__(self) -> str:
        return f"ModelSize.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return ModelSize.learn, (self.value,)


for _value in ("small", "medium", "large", "massive"):
    ModelSize.learn(_value)
