"""What flips the choice of a plan, as users get it."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.flips import INPUT, OTHER_PRICE, OUTPUT, PRICE, QUOTA, RATE, Winner
from gpufleet.optimize.flips import Flip as FoundFlip
from gpufleet.results.base import Result

UNITS = {PRICE: "USD/h", OTHER_PRICE: "USD/h", RATE: "1/s", QUOTA: "machines", INPUT: "tokens", OUTPUT: "tokens"}


class FlipWinner(Result):
    """Who wins beyond a flip, and what it then costs."""

    cloud: str
    region: str
    instance: str
    price_kind: str
    instance_count: int
    usd_per_hour: float


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


def flips_of(found: Sequence[FoundFlip]) -> list[Flip]:
    """The flips of a solved question, in their order."""
    return [
        Flip(
            quantity=flip.quantity,
            unit=UNITS.get(flip.quantity, "s"),
            now=flip.now,
            value=flip.value,
            change_ratio=None if flip.value is None or not flip.now else flip.value / flip.now - 1,
            searched_to=flip.searched_to,
            of=None if flip.of is None else f"{flip.of.cloud} {flip.of.instance}{kind_words(flip.of)}",
            winner=None if flip.winner is None else winner_of(flip.winner),
        )
        for flip in found
    ]


def kind_words(offer: Offer) -> str:
    """How machines are bought, where it is not on demand."""
    kind = offer.price_kind
    return "" if kind is PriceKind.ON_DEMAND else f" {kind.value.replace('_', ' ')}"


def winner_of(winner: Winner) -> FlipWinner:
    """The winner in words."""
    offer = winner.offer
    return FlipWinner(
        cloud=offer.cloud,
        region=offer.region,
        instance=offer.instance,
        price_kind=offer.price_kind.value,
        instance_count=winner.instance_count,
        usd_per_hour=winner.usd_per_hour,
    )
