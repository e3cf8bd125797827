"""Records are frozen dataclasses: they equal, hash, print, copy and refuse as the standard library's do."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.records import dataclass


@dataclass(frozen=True)
class Point:
    """Three fields, one of them neither compared nor shown."""

    x: float
    y: str = "a"
    seen: object = field(default=None, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Standard:
    """What `Point` has to be like."""

    x: float
    y: str = "a"
    seen: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Nothing:
    """No field at all."""


@dataclass(frozen=True, eq=False)
class Itself:
    """Equal to itself alone."""

    x: int


@dataclass(frozen=True)
class Spoken:
    """Writes its own text."""

    x: int

    def __repr__(self) -> str:
        return f"spoken {self.x}"


@dataclass(frozen=True)
class Wider(Point):
    """One field more than its base."""

    z: int = 0


@dataclass(frozen=True)
class Holder:
    """May hold itself."""

    items: list[object]


VALUES = st.tuples(st.integers(-2, 2), st.sampled_from("ab"), st.integers(0, 1))


@given(VALUES, VALUES)
def test_equality_hash_and_text_are_the_standard_ones(one: tuple[int, str, int], other: tuple[int, str, int]) -> None:
    assert (Point(*one) == Point(*other)) is (Standard(*one) == Standard(*other))
    assert (Point(*one) != Point(*other)) is (Standard(*one) != Standard(*other))
    assert hash(Point(*one)) == hash(Standard(*one))
    assert repr(Point(*one)) == repr(Standard(*one)).replace("Standard", "Point")


def test_a_record_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Point(1.0).x = 2.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del Point(1.0).x


def test_what_makes_a_record_is_compiled_with_the_first_one_and_refuses_what_the_standard_one_does() -> None:
    @dataclass(frozen=True)
    class Late:
        x: int
        items: list[int] = field(default_factory=list)
        z: int = field(default=0, kw_only=True)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below zero")

    with pytest.raises(TypeError, match=r"Late.__init__\(\) missing 1 required positional argument: 'x'"):
        Late()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Late(1, [], 2)  # type: ignore[call-arg,misc]
    with pytest.raises(ValueError, match="below zero"):
        Late(-1)
    assert Late(1, z=2) == Late(1, [], z=2)
    assert Late(1).items is not Late(1).items


def test_a_class_of_other_kind_that_extends_a_record_keeps_attributes_of_its_own() -> None:
    class Marked(Point):
        pass

    marked = Marked(1.0)
    marked.mark = 1  # type: ignore[attr-defined]
    del marked.mark  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        marked.x = 2.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Point(1.0).mark = 1  # type: ignore[attr-defined]


def test_a_record_is_copied_with_a_change_and_survives_a_pickle() -> None:
    assert replace(Point(1.0), y="b") == Point(1.0, "b")
    assert pickle.loads(pickle.dumps(Point(1.0, "b"))) == Point(1.0, "b")


def test_a_record_of_another_class_is_never_equal() -> None:
    assert Point(1.0) != Standard(1.0)
    assert Point(1.0) != Wider(1.0)
    assert Wider(1.0, z=1) != Wider(1.0, z=2)
    assert repr(Wider(1.0)) == "Wider(x=1.0, y='a', z=0)"


def test_records_without_fields_are_all_equal() -> None:
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()) == "Nothing()"


def test_a_class_that_keeps_identity_or_its_own_text_keeps_it() -> None:
    assert Itself(1) != Itself(1)
    assert len({Itself(1), Itself(1)}) == 2
    assert repr(Spoken(1)) == "spoken 1"


def test_a_record_that_holds_itself_can_be_printed() -> None:
    held = Holder([])
    held.items.append(held)
    assert repr(held) == "Holder(items=[...])"


def test_the_signature_is_that_of_the_standard_class_before_any_record_is_made() -> None:
    @dataclass(frozen=True)
    class Place:
        cloud: str
        regions: tuple[str, ...] = ()

    @dataclasses.dataclass(frozen=True)
    class Standard:
        cloud: str
        regions: tuple[str, ...] = ()

    assert inspect.signature(Place).parameters == inspect.signature(Standard).parameters
    assert Place("aws").regions == ()
    assert inspect.signature(Place).parameters == inspect.signature(Standard).parameters


def test_a_standard_dataclass_extends_a_record() -> None:
    @dataclasses.dataclass(frozen=True)
    class Placed(Point):
        cloud: str = "aws"

    assert Placed(1.0, "b", cloud="gcp") == Placed(1.0, "b", cloud="gcp")
    assert Placed(1.0).cloud == "aws"
    with pytest.raises(FrozenInstanceError):
        Placed(1.0).x = 2.0  # type: ignore[misc]
