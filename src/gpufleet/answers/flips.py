"""What flips the choice of a plan, as users get it."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.flips import INPUT, OTHER_PRICE, OUTPUT, PRICE, QUOTA, RATE, Winner
from gpufleet.optimize.flips import Flip as FoundFlip
from gpufleet.results.flips import Flip, FlipWinner

UNITS = {PRICE: "USD/h", OTHER_PRICE: "USD/h", RATE: "1/s", QUOTA: "machines", INPUT: "tokens", OUTPUT: "tokens"}


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
        price_basis=offer.basis.value,
        instance_count=winner.instance_count,
        usd_per_hour=winner.usd_per_hour,
        doubt_ratio=winner.doubt_ratio,
    )
