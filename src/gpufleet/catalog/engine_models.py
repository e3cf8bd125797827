"""Which version of an engine brought a family of models: `data/engine_models.csv`, read from the engines' releases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.versions import version_key
from gpufleet.records import dataclass

TABLE = SHIPPED / "engine_models.csv"
COLUMNS = ("engine", "family", "lacked", "first", "source", "date")
FALLBACK = "transformers"
"""The row of what runs models that an engine has no code of its own for."""


@dataclass(frozen=True)
class Brought:
    """The oldest version that was seen to have a family, and the newest of those before it that was seen without.

    `lacked` None: it is in the oldest that was looked at.
    """

    first: str
    lacked: str | None

    def is_lacking(self, version: str) -> bool:
        """Whether a version surely lacks it; a post-release of the last that did may have it.

        >>> [Brought("0.8.4", "0.8.3").is_lacking(each) for each in ("0.1", "0.8.3", "0.8.3.post1", "0.8.4", "nightly")]
        [True, True, False, False, False]
        """
        if self.lacked is None:
            return False
        return version.strip() == self.lacked or version_key(version) < version_key(self.lacked)

    def is_doubtful(self, version: str) -> bool:
        """Whether nobody looked at a version, which is older than the first that has it."""
        return version_key(version) < version_key(self.first) and not self.is_lacking(version)


@cache
def brought_by(engine: str) -> Mapping[str, Brought]:
    """Families of an engine by the version that brought them; nothing is known of those that are no key."""
    return {
        row["family"]: Brought(row["first"], row["lacked"] or None)
        for _, row in rows_of(TABLE, COLUMNS)
        if row["engine"] == engine
    }


@cache
def families_to_come(engine: str, version: str) -> Mapping[str, str]:
    """Families that a version surely lacks, each with the first version that has it.

    >>> families_to_come("vllm", "0.8.3")["qwen3"], "llama" in families_to_come("vllm", "0.1.0")
    ('0.8.4', False)
    """
    return {family: row.first for family, row in brought_by(engine).items() if row.is_lacking(version)}


def family_notes(engine: EngineProfile, arch: Architecture) -> list[str]:
    """What is doubtful about a version that nothing refuses: it may lack a model, or run it without code of its own."""
    version, row = engine.version, brought_by(engine.name).get(arch.family)
    if version is None or row is None:
        return []
    if arch.family in engine.architectures.later:
        own = f"{engine.title} {version} has no code of its own for {arch.family} models, which {row.first} brought"
        through = f"{own}: it may run them through transformers, slower than these figures"
        return [through] if engine.architectures.falls_back and arch.is_usual else []
    return [doubt_of(row, engine.title, version, arch.family)] if row.is_doubtful(version) else []


def doubt_of(row: Brought, title: str, version: str, family: str) -> str:
    """That nobody looked whether a version has a family.

    >>> doubt_of(Brought("0.3.3", "0.3.1"), "vLLM", "0.3.2", "gemma")
    'vLLM 0.3.1 lacks gemma models and 0.3.3 has them: nobody looked whether 0.3.2 does'
    """
    lacked, oldest = f"{row.lacked} lacks {family} models and {row.first} has them", f"{row.first} has {family} models"
    known = lacked if row.lacked else f"{oldest} and is the oldest version that is known"
    return f"{title} {known}: nobody looked whether {version} does"
