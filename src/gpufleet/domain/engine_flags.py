"""The flags that one version of an engine's command takes, and whether a command is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpufleet.errors import OurBug, nearest_names
from gpufleet.records import dataclass

NEGATED = "--no-"


@dataclass(frozen=True)
class EngineFlag:
    """One flag with its other spellings; without `choices` its value is not held to a list.

    `takes_value` None: it may have one, or nobody knows.
    """

    name: str
    aliases: tuple[str, ...] = ()
    takes_value: bool | None = True
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class EngineFlags:
    """The flags of one version of an engine's command, by every spelling. `is_exact`: it is the version asked for."""

    engine: str
    version: str
    by_spelling: Mapping[str, EngineFlag]
    is_exact: bool = True

    @classmethod
    def of(cls, engine: str, version: str, flags: Iterable[EngineFlag], *, is_exact: bool = True) -> EngineFlags:
        """The flags by their names and their other spellings."""
        by_spelling = {spelling: flag for flag in flags for spelling in (flag.name, *flag.aliases)}
        return cls(engine, version, by_spelling, is_exact)

    def flag_of(self, spelling: str) -> EngineFlag | None:
        """The flag of a spelling, a switch by its '--no-' too; an abbreviation is none."""
        found = self.by_spelling.get(spelling)
        if found is None and spelling.startswith(NEGATED):
            switch = self.by_spelling.get(f"--{spelling.removeprefix(NEGATED)}")
            return switch if switch is not None and not switch.takes_value else None
        return found

    def faults(self, groups: Sequence[Sequence[str]]) -> list[str]:
        """What is wrong with the words of a command, each group a flag with its values, the first the program.

        >>> flags = EngineFlags.of("sglang", "0.5", [EngineFlag("--tp-size", ("--tensor-parallel-size",))])
        >>> flags.faults([["sglang", "serve"], ["--tp", "2"], ["--tp-size"]])
        ['--tp is no flag of sglang 0.5; nearest: --tp-size', '--tp-size takes a value']
        """
        start = next((place for place, word in enumerate(groups[0]) if word.startswith("--")), len(groups[0]))
        flags = [group for group in (groups[0][start:], *groups[1:]) if group]
        return [fault for group in flags if (fault := self.fault_of(group))]

    def fault_of(self, group: Sequence[str]) -> str | None:
        """What is wrong with a flag and its value."""
        spelling, *values = group
        flag = self.flag_of(spelling)
        if flag is None:
            near = nearest_names(spelling, self.by_spelling)
            offered = f"; nearest: {', '.join(near)}" if near else ""
            return f"{spelling} is no flag of {self.engine} {self.version}{offered}"
        if flag.takes_value is not None and flag.takes_value != bool(values):
            return f"{spelling} takes {'a' if flag.takes_value else 'no'} value"
        wrong = [value for value in values if flag.choices and value not in flag.choices]
        if wrong:
            near = nearest_names(wrong[0], flag.choices) or list(flag.choices)
            return f"{spelling} of {self.engine} {self.version} has no {wrong[0]}; nearest: {', '.join(near)}"
        return None

    def held(self, groups: Sequence[Sequence[str]]) -> None:
        """Raise where a command of ours is not one of this version: nobody shall run it."""
        faults = self.faults(groups)
        if faults:
            raise OurBug(ValueError(f"a command that {self.engine} {self.version} does not take: {'; '.join(faults)}"))
