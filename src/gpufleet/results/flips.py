"""What flips the choice of a plan, as users get it."""

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
