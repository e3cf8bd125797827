"""Fitted step constants of engine eras: `data/calibration/engines.toml`, written by `tools/calibrate engines`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from gpufleet.catalog.engine_models import FALLBACK, brought_by, families_to_come
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.kept import kept
from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.beside import AdapterRules, HostMemoryRules
from gpufleet.domain.engine import (
    EarlierFigure,
    EarlierFusion,
    EngineGeneration,
    EngineProfile,
    FormatSupport,
    Implemented,
    MemoryEra,
)
from gpufleet.domain.versions import NAMED_BUILD, version_key
from gpufleet.errors import DataMissing, UsageError
from gpufleet.provenance import Sourced
from gpufleet.records import dataclass

ERAS = SHIPPED / "calibration" / "engines.toml"
RELEASE = r"[vb]?\d{1,5}(\.\d{1,5})*((a|b|rc|[.-]?(alpha|beta|post|dev)\.?)\d*)*(\+[\w.]+)?"
BUILD = r"([\w.+-]+-)?(nightly|main|dev)(-[\w.+-]+)?"
VERSION = re.compile(f"{RELEASE}|{BUILD}", re.ASCII)
STATED_FIRST = re.compile(r"(v?[0-9]+(?:\.[0-9]\w*)+)(?=[\s(,;])", re.ASCII)
LAST_OF_A_SERIES = ".99"
RANGE_UNIT = "ln"
Changed = TypeVar("Changed", EarlierFigure, EarlierFusion)


@dataclass(frozen=True)
class EngineEra:
    """Versions of one engine that share step constants; `until` is the first version that no longer belongs.

    `measured`: the oldest and the newest version that the constants were fitted to, where rows state one.
    """

    engine: str
    name: str
    until: str | None
    grade: str
    constants: Mapping[str, Sourced]
    measured: tuple[str, str] | None = None

    def holds(self, version: str) -> bool:
        """Whether a version belongs to this era or an older one."""
        return self.until is None or version_key(version) < version_key(self.until)


@lru_cache(maxsize=1)
def load_eras() -> Mapping[str, tuple[EngineEra, ...]]:
    """Eras of every engine, oldest first."""
    return kept("eras", [ERAS], None, read_eras)


def read_eras() -> Mapping[str, tuple[EngineEra, ...]]:
    """The same from their file."""
    eras: dict[str, list[EngineEra]] = {}
    for row in toml_of(ERAS)["era"]:
        eras.setdefault(row["engine"], []).append(_era(row))
    return {name: tuple(sorted(rows, key=_age)) for name, rows in eras.items()}


def _age(era: EngineEra) -> tuple[int, ...]:
    return NAMED_BUILD if era.until is None else version_key(era.until)


def _era(row: Mapping[str, Any]) -> EngineEra:
    constants = {
        name: Sourced(c["value"], c["unit"], row["source"], c.get("low"), c.get("high"))
        for name, c in row["constants"].items()
    }
    measured = (row["measured"][0], row["measured"][1]) if "measured" in row else None
    return EngineEra(row["engine"], row["name"], row.get("until"), row["grade"], constants, measured)


def era_of(engine: str, version: str | None = None) -> EngineEra:
    """The era that a version belongs to; the newest where no version is given."""
    eras = load_eras().get(find_engine(engine).name)
    if not eras:
        raise DataMissing(f"no step constants are known for {engine}", hint=f"Known: {', '.join(load_eras())}.")
    return next(era for era in eras if era.until is None or (version is not None and era.holds(version)))


def era_at(engine: str, version: str | None = None) -> EngineEra:
    """The era of a version, its constants on the way to those of the next one where it is newer than what was measured.

    c = c_era + w (c_next - c_era), w: releases since the newest that the era was fitted to, over those until the oldest
    that the next one was fitted to. Ranges (ln) are the wider of both. What is older than all that an era was fitted to
    takes its constants: an era begins where an engine was rewritten.
    """
    era = era_of(engine, version)
    newer = [other for other in load_eras()[era.engine] if other.measured and _age(other) > _age(era)]
    if version is None or era.measured is None or not newer:
        return era
    releases, following = find_engine(engine).releases, newer[0]
    weight = share_of_releases(releases, version, era.measured[1], following.measured[0] if following.measured else "")
    constants = {name: between(c, following.constants[name], weight) for name, c in era.constants.items()}
    return replace(era, constants=constants) if weight > 0 else era


def share_of_releases(releases: Sequence[str], version: str, start: str, end: str) -> float:
    """How far a version lies between two others, by the releases of its engine; 0 before both, 1 after both.

    >>> share_of_releases(["0.1", "0.2", "0.2.1", "1.0"], "0.2.1", "0.1", "1.0")
    0.6666666666666666
    """
    order = sorted(map(version_key, releases))
    at, first, last = (bisect_right(order, version_key(each)) for each in (version, start, end))
    return min(max((at - first) / max(last - first, 1), 0.0), 1.0)


def between(start: Sourced, end: Sourced, weight: float) -> Sourced:
    """A constant part of the way to another; of two ends of a range, in ln, the one that is further out."""
    if start.unit == RANGE_UNIT:
        return max(start, end, key=lambda figure: abs(figure.value))
    return replace(start, value=start.value + weight * (end.value - start.value))


def release_in(profile: EngineProfile, label: str) -> str:
    """The engine's own release in words about a build; the words where they hold none; of a series, 0.8.x, its last.

    It stands after the engine's name, else first. Words that ask for another engine than a release has by default mean
    the release next to it that has: vLLM 0.9 with VLLM_USE_V1=0 runs as 0.7.3 does.

    >>> vllm = find_engine("vllm")
    >>> [release_in(vllm, words) for words in ("0.9.1 (V0)", "V0", "0.7.2 V1", "0.11.0 (V1)")]
    ['0.7.3', '0.7.3', '0.8.0', '0.11.0']
    >>> [release_in(vllm, words) for words in ("0.7.3 (V0)", "llm-d-dev 0.0.4 (vLLM 0.8.x build)", "v0.9")]
    ['0.7.3', '0.8.99', 'v0.9']
    """
    words = label.strip()
    generation, rest = generation_in(profile, words)
    if generation is not None:
        return (
            release_of(generation, release_in(replace(profile, generations=()), rest) if rest else None)
            or profile.newest_version
            or words
        )
    if VERSION.fullmatch(words):
        return words
    names = "|".join(re.escape(name) for name in (profile.name, profile.title, *profile.aliases))
    after_name = re.search(rf"(?<![\w-])(?:{names})[ -]v?([0-9]+(?:\.[0-9x]\w*)+)", words, re.IGNORECASE | re.ASCII)
    found = after_name or STATED_FIRST.match(words)
    return words if found is None else found.group(1).replace(".x", LAST_OF_A_SERIES)


def generation_in(profile: EngineProfile, words: str) -> tuple[EngineGeneration | None, str]:
    """The engine of a program that words name, and the words without it."""
    found = next((g for g in profile.generations if re.search(rf"\b{g.name}\b", words)), None)
    return found, words if found is None else re.sub(rf"\W*\b{found.name}\b\W*", " ", words).strip()


def refuse_no_generation(profile: EngineProfile, version: str) -> None:
    """Refuse an engine of a program that a release has not, or no longer: vLLM 0.11 has V1 alone."""
    found, rest = generation_in(profile, version.strip())
    if found is None or not rest:
        return
    at = version_key(release_in(replace(profile, generations=()), rest))
    last = version_key(found.last) if found.last else at
    if at[: len(last)] > last or (found.first is not None and at < version_key(found.first)):
        bound = f"one up to {found.last}" if found.last else f"one from {found.first} on"
        example = f"such as '{found.last or found.oldest} ({found.name})'"
        raise UsageError(f"{profile.title} {rest} has no {found.name}", found=version, expected=f"{bound}, {example}")


def release_of(generation: EngineGeneration, version: str | None) -> str | None:
    """The release by which an engine of a program is meant: the version itself where it is that one's default."""
    at = NAMED_BUILD if version is None else version_key(version)
    if generation.newest is not None and at > version_key(generation.newest):
        return generation.newest
    if version is not None and generation.oldest is not None and at < version_key(generation.oldest):
        return generation.oldest
    return version


def checked_version(engine: str, version: str | None) -> str | None:
    """A version that an engine could have: numbers, with a suffix or without, or the name of a build.

    >>> [checked_version("vllm", version) for version in ("0.11.2", "0.12.0rc6.post2", "0.7.3 (V0)")]
    ['0.11.2', '0.12.0rc6.post2', '0.7.3']
    """
    if version is None:
        return None
    profile = find_engine(engine)
    refuse_no_generation(profile, version)
    release = release_in(profile, version)
    if VERSION.fullmatch(release) and may_exist(profile, release):
        return release
    newest = profile.newest_version
    such = f"such as {newest}, the newest that is known" if newest else "such as 0.11.2"
    names = "; ".join(era.name for era in load_eras().get(profile.name, ()))
    raise UsageError(f"not a version of {profile.title}", found=version, expected=f"one {such}; eras: {names}")


def may_exist(profile: EngineProfile, version: str) -> bool:
    """Whether an engine may have such a release: not before its first, not two major releases after the newest known.

    >>> [may_exist(find_engine("vllm"), version) for version in ("0", "0.6.4", "1.0", "99", "nightly")]
    [False, True, True, False, True]
    """
    numbers = version_key(version)
    if numbers == NAMED_BUILD or profile.newest_version is None:
        return any(numbers)
    return any(numbers[:2]) and numbers[0] <= version_key(profile.newest_version)[0] + 1


def version_notes(engine: str, version: str | None) -> list[str]:
    """Warnings where words about a build were read as a release, and where it is newer than any that was measured.

    >>> version_notes("vllm", "0.7.3 (V0)")
    ["vLLM '0.7.3 (V0)' is read as release 0.7.3: it takes the constants of era V0, before 0.8"]
    >>> version_notes("vllm", "0.9.1 (V0)")[0][-26:]
    'asked for by VLLM_USE_V1=0'
    """
    if version is None:
        return []
    profile = find_engine(engine)
    release = release_in(profile, version)
    era = era_of(engine, release).name
    read = f"{profile.title} {version.strip()!r} is read as release {release}: it takes the constants of era {era}"
    generation, rest = generation_in(profile, version.strip())
    if generation is not None and rest and rest != release:
        read += f"; {generation.name} is asked for by {generation.asked_by}"
    newer = newer_than_known(profile, release)
    return [*([read] if release != version.strip() else []), *([newer] if newer else [])]


def newer_than_known(profile: EngineProfile, version: str) -> str | None:
    """A warning where a version is newer than any that was measured; it is taken to behave like the newest.

    >>> newer_than_known(find_engine("sglang"), "0.5.9.post1") is None
    True
    """
    if profile.newest_version is None or version_key(version) == NAMED_BUILD:
        return None
    newest = version_key(profile.newest_version)
    if version_key(version)[: len(newest)] <= newest:
        return None
    return (
        f"{profile.title} {version.strip()} is newer than {profile.newest_version}, the newest that is known: taken to "
        "behave like it"
    )


def older_than_measured(engine: str, version: str | None) -> str | None:
    """A warning where a version is older than all that the constants of its era were fitted to.

    >>> older_than_measured("sglang", "0.4.1")[:69]
    'SGLang 0.4.1 is older than 0.5.1.post1, the oldest that its constants'
    >>> older_than_measured("vllm", "0.6.3"), older_than_measured("vllm", None)
    (None, None)
    """
    if version is None:
        return None
    profile = find_engine(engine)
    release = release_in(profile, version)
    measured = era_of(engine, release).measured
    if measured is None or version_key(release) >= version_key(measured[0]):
        return None
    return (
        f"{profile.title} {release} is older than {measured[0]}, the oldest that its constants were fitted to: it may "
        "be slower than its range says"
    )


def load_engine(engine: str, version: str | None = None) -> EngineProfile:
    """An engine with memory rules and the step constants of the version's era."""
    return with_era(engine_of_version(engine, version), era_at(engine, checked_version(engine, version)))


def engine_of_version(engine: str, version: str | None = None) -> EngineProfile:
    """An engine with what a version runs and its memory rules; no version is what is installed today."""
    checked = checked_version(engine, version)
    found = replace(remembering(running_on(find_engine(engine), checked), checked), version=checked)
    profile = replace(
        found, adapters=adapters_of(found.adapters, checked), host_memory=kept_by(found.host_memory, checked)
    )
    is_said = version is not None and checked == version.strip()
    return replace(profile, architectures=known_to(profile)) if is_said else profile


def known_to(profile: EngineProfile) -> Implemented:
    """What a version implements: not the families that later ones brought.

    >>> known_to(engine_of_version("vllm", "0.6.4")).later["qwen3"]
    '0.8.4'
    """
    later = families_to_come(profile.name, profile.version or "")
    falls_back = FALLBACK in brought_by(profile.name) and FALLBACK not in later
    return replace(profile.architectures, later=later, falls_back=falls_back)


def adapters_of(rules: AdapterRules | None, version: str | None) -> AdapterRules | None:
    """The rules of adapters as a version has them; None where it serves none."""
    if rules is None or not has_since(rules.since, version):
        return None
    told, experts = has_since(rules.parts_since, version), has_since(rules.experts_since, version)
    return replace(rules, is_told_parts=told, takes_experts=experts)


def kept_by(rules: HostMemoryRules | None, version: str | None) -> HostMemoryRules | None:
    """What a version keeps in host memory."""
    if rules is None:
        return None
    weights, kv = (since if has_since(since, version) else None for since in (rules.weights_since, rules.kv_since))
    return replace(rules, weights_since=weights, kv_since=kv)


def has_since(since: str | None, version: str | None) -> bool:
    """Whether a version has what came with `since`; no version is the newest, no `since` is never."""
    return since is not None and (version is None or version_key(version) >= version_key(since))


def running_on(profile: EngineProfile, version: str | None) -> EngineProfile:
    """A profile with the GPU generations and formats that a version runs; no version is what is installed today.

    >>> [d.generation for d in running_on(find_engine("vllm"), None).dropped]
    ['Volta']
    >>> running_on(find_engine("vllm"), "0.19.1").dropped
    ()
    """
    dropped = tuple(d for d in profile.dropped if version is None or version_key(version) >= version_key(d.until))
    gone = {d.generation for d in dropped}
    formats, kv_formats = (without_generations(rows, gone) for rows in (profile.formats, profile.kv_formats))
    return replace(
        profile,
        dropped=dropped,
        formats=tuple(row for row in formats if is_of_version(row, version)),
        kv_formats=tuple(row for row in kv_formats if is_of_version(row, version)),
        of_other_versions=tuple(row for row in formats if not is_of_version(row, version)),
        kv_of_other_versions=tuple(row for row in kv_formats if not is_of_version(row, version)),
    )


def is_of_version(row: FormatSupport, version: str | None) -> bool:
    """Whether a version runs a format; no version is what is installed today."""
    if version is None:
        return row.until is None
    at = version_key(version)
    return (row.since is None or at >= version_key(row.since)) and (row.until is None or at < version_key(row.until))


def without_generations(rows: Sequence[FormatSupport], gone: Collection[str]) -> tuple[FormatSupport, ...]:
    """Formats on the generations that are left."""
    return tuple(replace(row, generations=tuple(g for g in row.generations if g not in gone)) for row in rows)


def remembering(profile: EngineProfile, version: str | None) -> EngineProfile:
    """A profile with the memory rules and figures of a version; the newest ones where no version is given.

    >>> remembering(find_engine("vllm"), "0.5.4").max_batch
    256
    """
    if version is None:
        return profile
    era = memory_era_of(profile, version)
    with_rules = profile if era is None else with_memory_era(profile, era)
    return replace(
        with_rules,
        constants={**with_rules.constants, **earlier_figures(profile, version)},
        fused_quantisation={**profile.fused_quantisation, **earlier_fusions(profile, version)},
    )


def earlier_figures(profile: EngineProfile, version: str) -> dict[str, Sourced]:
    """Figures that newer versions than this one changed, as it had them.

    >>> earlier_figures(find_engine("vllm"), "0.11.0")["shared_beside_tokens"].value
    0.0
    """
    return {figure.name: figure.value for figure in changed_since(profile.earlier, version)}


def earlier_fusions(profile: EngineProfile, version: str) -> dict[str, tuple[str, ...]]:
    """What a version fuses otherwise than the newest, format by format.

    >>> earlier_fusions(find_engine("vllm"), "0.12.0")["fp8_block"]
    ()
    """
    return {fusion.format: fusion.written_by for fusion in changed_since(profile.earlier_fusions, version)}


def changed_since(rows: Sequence[Changed], version: str) -> list[Changed]:
    """What newer versions than this one changed; the change next to it last."""
    changed = [row for row in rows if version_key(version) < version_key(row.until)]
    return sorted(changed, key=lambda row: version_key(row.until), reverse=True)


def next_change(profile: EngineProfile, version: str | None) -> str | None:
    """The first newer version whose memory rules or figures differ; None where this one's are today's.

    >>> [next_change(find_engine("vllm"), version) for version in ("0.10.2", "0.11.0", None)]
    ['0.11', '0.11.1', None]
    """
    figures, fusions = profile.earlier, profile.earlier_fusions
    bounds = [*(era.until for era in profile.memory_eras), *(f.until for f in figures), *(f.until for f in fusions)]
    newer = [bound for bound in bounds if version is not None and version_key(version) < version_key(bound)]
    return min(newer, key=version_key, default=None)


def memory_era_of(profile: EngineProfile, version: str) -> MemoryEra | None:
    """The memory era that a version belongs to; None where its rules are today's."""
    eras = (era for era in profile.memory_eras if version_key(version) < version_key(era.until))
    return min(eras, key=lambda found: version_key(found.until), default=None)


def with_memory_era(profile: EngineProfile, era: MemoryEra) -> EngineProfile:
    """A profile with the figures of an older memory era put in."""
    figures = dict(era.figures)
    return replace(
        profile,
        memory_fraction=figures.pop("memory_fraction", profile.memory_fraction),
        graph_bytes=figures.pop("graph_bytes", profile.graph_bytes),
        reserve_bytes=figures.pop("reserve_bytes", profile.reserve_bytes),
        constants={**profile.constants, **figures},
        max_batch=profile.max_batch if era.max_batch is None else era.max_batch,
    )


def with_era(profile: EngineProfile, era: EngineEra) -> EngineProfile:
    """A profile with an era's constants put in; the worse of the two grades counts."""
    grade = max(profile.grade, era.grade, key=("measured", "transferred", "roofline", "seed rule").index)
    return replace(profile, version_era=era.name, grade=grade, constants={**profile.constants, **era.constants})
