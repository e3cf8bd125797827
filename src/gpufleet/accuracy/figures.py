"""One measured quantity beside its prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.domain.verdict import DOES_NOT_FIT, FITS
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass
from gpufleet.results.accuracy import ScoredFigure
from gpufleet.results.base import Figure

FEW_SEQUENCES = 16
LONGEST_REASON = 300
OUT_OF_MEMORY = ("oom", "out of memory", "cuda out of memory")
STARTED = ("runs",)


@dataclass(frozen=True)
class Quantity:
    """A measured quantity: its name in the results, its column, and the unit of that column in base units."""

    name: str
    column: str
    unit: str
    scale: float = 1.0


@dataclass(frozen=True)
class RowScores:
    """What scoring a row gave. `left_out`: why the row is not scored; `ran` and `fits`: its memory verdict, if any."""

    figures: Sequence[ScoredFigure] = ()
    left_out: str | None = None
    ran: bool | None = None
    fits: bool | None = None


@dataclass(frozen=True)
class RowLabels:
    """What every figure of a row carries: where it stands and what it is grouped by."""

    file: str
    row: MeasurementRow
    engine: str = ""
    group: str = ""

    def figure(self, quantity: Quantity, **outcome: object) -> ScoredFigure:
        """A scored figure of this row."""
        return ScoredFigure.model_validate(
            {
                "file": self.file,
                "row": self.row.line,
                "quantity": quantity.name,
                "unit": quantity.unit,
                "source": self.row.text("source"),
                "model_id": self.row.text("model_id", "model"),
                "gpu_id": self.row.text("gpu_id", "gpu"),
                "engine": self.engine,
                "group": self.group,
                **outcome,
            }
        )

    def without_prediction(self, quantity: Quantity, reason: str) -> ScoredFigure:
        """A measured figure that nothing predicts, and why."""
        return self.figure(quantity, measured=measured_or_none(self.row, quantity), reason=reason)


@dataclass(frozen=True)
class Prediction:
    """A predicted figure in base units."""

    value: float
    low: float | None = None
    high: float | None = None
    grade: str | None = None

    @classmethod
    def of(cls, figure: Figure) -> Prediction:
        """What a result predicts."""
        return cls(figure.value, figure.low, figure.high, figure.grade)

    def amount_per(self, amount: float) -> Prediction:
        """The rate of an amount over this duration: the shortest time is the highest rate."""
        rate = [None if time is None or time <= 0 else amount / time for time in (self.value, self.high, self.low)]
        return Prediction(rate[0] or math.nan, rate[1], rate[2], self.grade)


def has_failed(row: MeasurementRow) -> bool:
    """Whether a row says that its run ran out of memory."""
    return any(cell.casefold() in OUT_OF_MEMORY for cell in row.cells.values())


def has_started(row: MeasurementRow) -> bool:
    """Whether a row says in a word that its run ran."""
    return any(cell.casefold() in STARTED for cell in row.cells.values())


def says_how_it_ended(cell: str) -> bool:
    """Whether a cell says that a run ran or ran out of memory, in place of a number."""
    return cell.casefold() in (*OUT_OF_MEMORY, *STARTED)


def one_line(refusal: Exception) -> str:
    """What was refused, on one line of bounded length."""
    line = " ".join(str(refusal).split()).rstrip(".") or type(refusal).__name__
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def measured_or_none(row: MeasurementRow, quantity: Quantity) -> float | None:
    """The measurement where it is a number above zero."""
    try:
        return row.positive(quantity.column)
    except GpufleetError:
        return None


def stated(row: MeasurementRow, quantities: Sequence[Quantity]) -> list[Quantity]:
    """The quantities whose cell says something; of a run that failed, the first one stands for its verdict."""
    return list(quantities[:1]) if has_failed(row) else [q for q in quantities if row.text(q.column)]


@dataclass(frozen=True)
class Comparison:
    """Turns predictions of one row into scored figures; `remark` goes with every one of them."""

    labels: RowLabels
    kv_room: str | None = None
    remark: str | None = None

    def failed(self, quantity: Quantity, *, fits: bool) -> ScoredFigure:
        """A run that ran out of memory: whether it was predicted to fit."""
        return self.ended("oom", quantity, fits=fits)

    def ended(self, how: str, quantity: Quantity, *, fits: bool, needed: Prediction | None = None) -> ScoredFigure:
        """A run of which no amount is known but how it ended, beside the verdict and the predicted need."""
        predicted = None if needed is None else in_unit(needed.value, quantity)
        return self.labels.figure(
            quantity, predicted=predicted, reason=f"{how}: predicted {FITS if fits else DOES_NOT_FIT}"
        )

    def refused(self, quantity: Quantity, refusal: Exception, *, ran: bool, fits: bool | None) -> ScoredFigure:
        """What the api does not answer: for a failed run that is said not to fit, that is the verdict."""
        if ran:
            return self.scored(quantity, one_line(refusal))
        return (
            self.labels.figure(quantity, reason=one_line(refusal)) if fits is None else self.failed(quantity, fits=fits)
        )

    def scored(self, quantity: Quantity, prediction: Prediction | str) -> ScoredFigure:
        """The measurement beside a prediction, both in the file's unit; a text says why there is none."""
        try:
            measured = self.labels.row.positive(quantity.column)
        except GpufleetError as error:
            return self.labels.without_prediction(quantity, one_line(error))
        if isinstance(prediction, str):
            return self.labels.without_prediction(quantity, prediction)
        if not (math.isfinite(prediction.value) and prediction.value > 0):
            return self.labels.without_prediction(quantity, f"no {quantity.name} is predicted for this load")
        ends = [in_unit(end, quantity) for end in (prediction.value, prediction.low, prediction.high)]
        return self.labels.figure(
            quantity,
            measured=measured,
            predicted=ends[0],
            low=ends[1],
            high=ends[2],
            grade=prediction.grade,
            kv_room=self.kv_room,
            reason=self.remark,
        )


def remark_on(*, ran: bool, fits: bool) -> str | None:
    """What is said about a run that ran although it was predicted not to fit."""
    return f"predicted {DOES_NOT_FIT}" if ran and not fits else None


def in_unit(value: float | None, quantity: Quantity) -> float | None:
    """A value in the unit of the file; unlimited ends are left open."""
    return None if value is None or not math.isfinite(value) else value / quantity.scale


def kv_room_of(largest_batch: float) -> str:
    """Whether the KV room holds few sequences: such cells swing by 2x between engine versions."""
    return f"room for under {FEW_SEQUENCES}" if largest_batch < FEW_SEQUENCES else f"room for {FEW_SEQUENCES} and more"
