"""What moves the bill of a plan most and what flips its choice: certainty, and each single change of the question."""

from __future__ import annotations

from gpufleet.results.base import Result


class FlipWinner(Result):
    """Who wins beyond a flip, and what it then costs; `doubt_ratio` above 1: it breaks halfway to certainty."""

    cloud: str
    region: str
    instance: str
    price_kind: str
    price_basis: str = "observed"
    instance_count: int
    usd_per_hour: float
    doubt_ratio: float = 1.0


class Flip(Result):
    """The nearest value of one quantity, all else unchanged, at which another machine type or price kind wins.

    `value` None: the same row wins up to `searched_to`. `winner` None at a value: nothing on offer serves there.
    `of` names the machine whose price moves, in all its regions, or of which more can be had. `change_ratio` None:
    there is no value, or none is to be had now.
    """

    quantity: str
    unit: str
    now: float
    value: float | None
    change_ratio: float | None
    searched_to: float
    of: str | None = None
    winner: FlipWinner | None = None

    @property
    def is_rise(self) -> bool:
        """Whether the quantity grows on the way there."""
        return (self.searched_to if self.value is None else self.value) > self.now


class CheapestThen(FlipWinner):
    """The cheapest machines where something is asked otherwise, with their GPUs."""

    gpu: str
    gpus: float


class CertaintyPrice(Result):
    """The cheapest machines that keep every limit with a confidence; None where nothing on offer does."""

    confidence: float
    winner: CheapestThen | None


class CopiesForCertainty(Result):
    """Copies of an answer beyond those that keep its limits as expected: all that they do is to move one `limit`.

    It is expected to be `expected_s` on `expected_replicas` and `all_s` on all `replicas`.
    """

    limit: str
    expected_replicas: int
    expected_s: float
    replicas: int
    all_s: float


class Lever(Result):
    """A single change of the question that saves much, with the cheapest machines after it.

    `code` names what is changed and `value` what to, where it is a number in its base unit or a name; `change` says it
    in words and `typed` is the option that asks for it, "" where only a file says it. `limit`: the objective.
    """

    code: str
    change: str
    typed: str
    saved_ratio: float
    value: float | str | None = None
    limit: str | None = None
    interruption: str | None = None
    winner: CheapestThen


class LimitEdge(Result):
    """A limit so near to a value at which the choice changes that it is no reason for it: the neighbours decide.

    `tighter_s`, `looser_s`: the nearest values tried at which other machines win, or the bill moves by a tenth; None
    where none does within a quarter below and a third above. A neighbour is None where nothing on offer holds there.
    """

    limit: str
    limit_s: float
    tighter_s: float | None = None
    tighter: CheapestThen | None = None
    looser_s: float | None = None
    looser: CheapestThen | None = None
