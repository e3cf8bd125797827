"""Offers as columns of small integers, so that a filter is a few array operations however many offers there are."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray, IntArray

if TYPE_CHECKING:
    from gpufleet.domain.instance import Instance
    from gpufleet.domain.offer import Offer

EVERYWHERE = "all"


class CodedColumn(NamedTuple):
    """One property of every offer as a code, and the code of each value."""

    codes: IntArray
    code_of: Mapping[Hashable, int]

    @classmethod
    def of(cls, values: Iterable[Hashable]) -> CodedColumn:
        """Codes in the order in which values first appear."""
        code_of: dict[Hashable, int] = {}
        codes = [code_of.setdefault(value, len(code_of)) for value in values]
        return cls(np.array(codes, dtype=np.int64), code_of)

    def is_among(self, wanted: Collection[Hashable]) -> BoolArray:
        """Offers whose value is one of the wanted."""
        chosen = np.zeros(len(self.code_of) + 1, dtype=np.bool_)
        chosen[[self.code_of[value] for value in wanted if value in self.code_of]] = True
        return chosen[self.codes]


class OfferIndex(NamedTuple):
    """The offers, and columns that they are chosen by."""

    offers: AnyArray
    cloud: CodedColumn
    region: CodedColumn
    instance: CodedColumn
    price_kind: CodedColumn
    accelerator: CodedColumn
    place: CodedColumn

    @classmethod
    def of(cls, offers: Sequence[Offer], instances: Mapping[tuple[str, str], Instance]) -> OfferIndex:
        """The columns of these offers; an accelerator is that of the instance."""
        objects = np.empty(len(offers), dtype=np.object_)
        objects[:] = offers
        return cls(
            offers=objects,
            cloud=CodedColumn.of(o.cloud for o in offers),
            region=CodedColumn.of(o.region for o in offers),
            instance=CodedColumn.of(o.instance for o in offers),
            price_kind=CodedColumn.of(o.price_kind for o in offers),
            accelerator=CodedColumn.of(instances[o.cloud, o.instance].accelerator for o in offers),
            place=CodedColumn.of((o.cloud, o.region) for o in offers),
        )
