"""A config that remembers what was asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class ReadConfig(Mapping[str, object]):
    """The fields of one config object, and every key that was asked for, there or not.

    `settled` are names of fields that were found under any of their names, `parts` the objects within it that were
    read the same way, `defaults` the sizes that were taken because the config leaves them out.
    """

    def __init__(self, values: Mapping[str, object]):
        self._values = values
        self.asked: set[str] = set()
        self.settled: set[str] = set()
        self.defaults: dict[str, int] = {}
        self.parts: list[ReadConfig] = []

    def __getitem__(self, key: str) -> object:
        self.asked.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def part(self, values: Mapping[str, object]) -> ReadConfig:
        """An object within this config, read as part of it."""
        inner = ReadConfig(values)
        self.parts.append(inner)
        return inner

    @property
    def missed(self) -> set[str]:
        """Keys that were asked for and that the config has under none of their names."""
        return {key for key in self.asked - self.settled if self._values.get(key) is None}

    @property
    def unread(self) -> dict[str, object]:
        """What the config says and nobody asked for."""
        return {key: value for key, value in self._values.items() if key not in self.asked and value is not None}
