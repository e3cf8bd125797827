"""What a plan says of itself, field by field, so that a file that somebody edited is known when it is read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import computed_field

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.results.base import Judged

SEAL, DIGEST_BYTES = "seal", 6


class Sealed(Judged):
    """A result whose file holds a digest of each of its fields (`seal`), whatever program laid the file out."""

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def seal(self) -> dict[str, str]:
        """By field: a digest of what it says."""
        return seal_of(self.model_dump(mode="json", exclude={SEAL}))


def seal_of(content: Mapping[str, Any]) -> dict[str, str]:
    """A digest of each field of a JSON object, but of the seal itself and of the currency that it is read in.

    >>> seal_of({"a": 1.0, "b": "x"}) == seal_of({"b": "x", "a": 1, "seal": {}})
    True
    """
    return {name: digest_of(value) for name, value in content.items() if name not in (SEAL, CURRENCY_KEY)}


def digest_of(value: object) -> str:
    """A short digest of a JSON value, however its numbers and keys are written."""
    text = json.dumps(as_read(value), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def as_read(value: Any) -> Any:
    """A value as it is read back from a file, whole numbers without a point; an inner seal is no part of it."""
    if isinstance(value, Mapping):
        return {str(name): as_read(item) for name, item in value.items() if name != SEAL}
    if isinstance(value, (list, tuple)):
        return [as_read(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value) if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return int(value) if value.is_integer() else value
    return value


def unlike_its_seal(content: Mapping[str, Any]) -> list[str]:
    """The fields of a JSON object that are not what its seal says, those of inner objects by their place.

    >>> content = {"a": 1, "b": [{"c": 2, "d": 4}]}
    >>> content["b"][0]["seal"] = seal_of(content["b"][0])
    >>> content["seal"] = seal_of(content)
    >>> content["b"][0]["c"] = 3
    >>> unlike_its_seal(content)
    ['b.0.c']
    """
    sealed, found = content[SEAL], seal_of(content)
    if not isinstance(sealed, Mapping):
        return [SEAL]
    names = [name for name in {**found, **sealed} if found.get(name) != sealed.get(name)]
    return [place for name in names for place in places_of(name, content.get(name))]


def places_of(name: str, value: object) -> list[str]:
    """Where in a field it is not as sealed, where its parts say that; else the field."""
    items = value if isinstance(value, list) else []
    inner = [
        f"{name}.{at}.{place}"
        for at, item in enumerate(items)
        if isinstance(item, Mapping) and SEAL in item
        for place in unlike_its_seal(item)
    ]
    return inner or [name]
