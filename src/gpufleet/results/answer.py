"""What every question gets back: the question with its origins, a hash, prices with dates, a verdict, and its pages."""

from __future__ import annotations

from datetime import date
from typing import Any

from gpufleet.errors import UsageError
from gpufleet.results.base import SCHEMA_VERSION, Input, Judged, Result, StatedDay
from gpufleet.table import SHAPES, Shape, resolved

DRAWN = "plan serve of one model, plan batch, compare of models, mix, regions, schedule, estimate or simulate"


class PriceSource(StatedDay):
    """Where prices of an answer come from; of an undated copy `as_of` is the earliest day, null in a file."""

    id: str
    title: str
    as_of: date | None
    first_seen: date | None = None


class AskedWord(Result):
    """One word of a question: its value in base units, and where it came from.

    `origin`: given, file, preference or default.
    """

    word: str
    value: Any
    unit: str = ""
    origin: str


class Answer(Judged):
    """What all answers say of themselves, under their own keys.

    `question` are the words that were asked, `inputs` what became of them: the question as it was understood.
    `input_hash` is of the question and of all that the answer rests on: who asks the same of the same tables gets the
    same. `verdict` in one word, `grade` of the figure that is least sure, `exit_code` of the command line.
    """

    schema_version: str = SCHEMA_VERSION
    question: list[AskedWord] = []
    inputs: list[Input] = []
    input_hash: str = ""
    price_sources: list[PriceSource] = []
    notes: list[str] = []
    verdict: str = ""
    grade: str = ""
    exit_code: int = 0

    def to_json(self) -> str:
        """The answer as JSON, as `-o json` prints it; its class reads it back (`model_validate_json`)."""
        text: str = resolved("report.formats:as_json")(self)
        return text

    def to_df(self) -> Any:
        """The first table, as `-o csv` prints it, in a pandas DataFrame; pandas is not installed with gpufleet."""
        return resolved("report.formats:page_as_frame")(self._page(as_rows=True))

    def why(self) -> str:
        """What leads to the answer and what puts it in doubt, in words."""
        page = self._page()
        return "\n".join([page.first_sentence, *page.leading, *page.closing])

    def plot(self) -> Any:
        """The first picture, which a notebook shows and `.svg` holds."""
        pictures = self._page().pictures
        if not pictures:
            raise UsageError("this answer has no picture", expected=f"one of {DRAWN}")
        return resolved("report.page:Drawn")(pictures[0].wide)

    def _repr_html_(self) -> str:
        page: str = resolved("report.html:page_as_fragment")(self._page())
        return page

    def _page(self, *, as_rows: bool = False) -> Any:
        shape = shape_of(type(self))
        return resolved(shape.rows if as_rows and shape.rows else shape.page)(self)


def shape_of(kind: type) -> Shape:
    """The row of a class, or of the nearest that it comes from."""
    return next(SHAPES[each.__name__] for each in kind.__mro__ if each.__name__ in SHAPES)
