"""Classes of results are completed when the first of them is made: without the names of whoever makes it."""

from __future__ import annotations

import sys

import pytest

from gpufleet.results.base import Figure, Result


class Holder(Result):
    """Names a class of another module."""

    figures: list[Figure]


def test_a_class_is_completed_without_reading_the_frames_of_its_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13.0 crashes on the names of a frame that runs a comprehension."""
    assert not Holder.__pydantic_complete__
    read: list[object] = []
    real = sys._getframe

    class Watched:
        """A frame whose names nobody may read."""

        def __init__(self, depth: int) -> None:
            self._frame = real(depth + 1)

        def __getattr__(self, name: str) -> object:
            if name == "f_locals":
                read.append(name)
            return getattr(self._frame, name)

    monkeypatch.setattr(sys, "_getframe", lambda depth=0: Watched(depth + 1))
    found = [Holder(figures=[Figure(value=float(n), unit="s")]) for n in range(2)]
    monkeypatch.undo()
    assert [holder.figures[0].value for holder in found] == [0.0, 1.0]
    assert Holder.__pydantic_complete__
    assert read == []
