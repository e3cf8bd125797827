"""Typed access to the fields of a Hugging Face config, with one clear error for each that is missing or absurd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.architecture.read_config import ReadConfig
from gpufleet.architecture.spelling import near_key
from gpufleet.domain.dimensions import MAX_DIMENSION, MAX_LAYERS
from gpufleet.errors import UsageError
from gpufleet.records import dataclass


@dataclass(frozen=True)
class ConfigFields:
    """The fields of one config; several keys in one call are names of the same field, newest first."""

    values: Mapping[str, object]
    name: str

    def _first(self, keys: Sequence[str]) -> object:
        found = next((self.values[key] for key in keys if self.values.get(key) is not None), None)
        if found is not None and isinstance(self.values, ReadConfig):
            self.values.settled.update(keys)
        return found

    def part(self, values: Mapping[str, object]) -> ConfigFields:
        """The fields of an object within this config."""
        inner = self.values.part(values) if isinstance(self.values, ReadConfig) else values
        return ConfigFields(inner, self.name)

    def count(self, *keys: str, default: int | None = None) -> int:
        """A whole number from 1 to 2**24; `default` is the class default for configs that leave it out."""
        value = self._first(keys)
        if value is None and default is not None:
            self._note_default(keys[0], default)
            value = default
        if value is None:
            self._refuse_null(keys)
            raise self._lacking(keys)
        return self._whole_number(keys[0], value, lowest=1)

    def _lacking(self, keys: Sequence[str]) -> UsageError:
        """A required field under none of its names, with the key that was probably meant to be it."""
        meant = [(key, near) for key in keys if (near := near_key(key, set(self.values) - set(keys)))]
        hint = f"Did you mean {meant[0][0]} by {meant[0][1]}?" if meant else None
        problem = f"{self.name}: the config lacks {' or '.join(keys)}"
        return UsageError(problem, expected="a complete Hugging Face config.json", hint=hint)

    def _note_default(self, key: str, default: int) -> None:
        if isinstance(self.values, ReadConfig):
            self.values.defaults[key] = default

    def _refuse_null(self, keys: Sequence[str]) -> None:
        null = next((key for key in keys if key in self.values), None)
        if null is not None:
            expected = f"a whole number from 1 to {MAX_DIMENSION}"
            raise UsageError(f"{self.name}: {null} is null", expected=expected)

    def optional_count(self, *keys: str) -> int | None:
        """A whole number, or None where the field is absent, null or zero."""
        value = self._first(keys)
        return (self._whole_number(keys[0], value, lowest=0) or None) if value is not None else None

    def layers(self, *keys: str, default: int | None = None) -> int:
        """The number of layers, bounded before anything is built for each of them."""
        layers = self.count(*keys, default=default)
        if layers > MAX_LAYERS:
            raise UsageError(f"{self.name}: {keys[0]} is absurd", found=layers, expected=f"at most {MAX_LAYERS} layers")
        return layers

    def flag(self, *keys: str, default: bool) -> bool:
        """A true or false field."""
        value = self._first(keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UsageError(f"{self.name}: {keys[0]} is not a switch", found=value, expected="true or false")
        return value

    def mapping(self, *keys: str) -> Mapping[str, object]:
        """An object field; empty where it is absent or no object."""
        value = self._first(keys)
        return value if isinstance(value, Mapping) else {}

    def items(self, key: str, length: int | None = None) -> Sequence[object] | None:
        """A list field; None where absent or empty."""
        value = self.values.get(key)
        if value is None or value == []:
            return None
        if not isinstance(value, list) or (length is not None and len(value) != length):
            expected = "a list" if length is None else f"a list of {length}, one per layer"
            raise UsageError(f"{self.name}: {key} does not match the model", found=value, expected=expected)
        return value

    def layer_numbers(self, key: str) -> frozenset[int] | None:
        """A list of layers; None where absent or empty."""
        listed = self.items(key)
        if listed is None:
            return None
        return frozenset(self._whole_number(key, layer, lowest=0) for layer in listed)

    def _whole_number(self, key: str, value: object, lowest: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= MAX_DIMENSION:
            expected = f"a whole number from {lowest} to {MAX_DIMENSION}"
            raise UsageError(f"{self.name}: {key} is not a size", found=value, expected=expected)
        return value
