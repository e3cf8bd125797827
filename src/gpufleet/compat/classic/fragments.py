"""Files of a configuration folder as fragments, and fragments laid over each other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gpufleet.compat.classic import schema
from gpufleet.compat.classic.json_text import JsonText, Place, Value
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.files import entries_of, read_text_file
from gpufleet.records import dataclass

FILES = {
    "gpu_instances.json": ("gpu_instances",),
    "model_config.json": ("model_sizes", "precision_formats", "overhead_multipliers"),
    "workloads.json": ("workloads", "workload_sets"),
}
SECTIONS = tuple(section for sections in FILES.values() for section in sections)
ROW_FIELDS = {"gpu_instances": schema.INSTANCE, "model_sizes": schema.SIZE, "workloads": schema.WORKLOAD}
MOST_FILES = 100


@dataclass(frozen=True)
class Fragment:
    """The sections of one file, and what is to be said about how it was read."""

    sections: Mapping[str, Value]
    notes: tuple[str, ...] = ()


INSTALLED_FOLDER = Path(__file__).parent / "shipped"
INSTALLED_AS = {"config_viewer": "gpufleet.compat.classic.viewer"}


def shipped_folder() -> Path:
    """The shipped configuration: inside an installed package, or `gpu-migration-analyzer/config` of a clone."""
    clone = Path(__file__).parents[4] / "gpu-migration-analyzer" / "config"
    return INSTALLED_FOLDER if os.path.isdir(INSTALLED_FOLDER) else clone


def command(script: str) -> str:
    """How a script of the tool is started: from its folder in a clone, as a module where it is installed."""
    if os.path.isdir(INSTALLED_FOLDER):
        return f"python3 -m {INSTALLED_AS.get(script, script)}"
    return f"python3 {script}.py"


def fragments_of(folder: Path) -> list[Fragment]:
    """The shipped files, and over them those of `folder`."""
    shipped = [read_fragment(shipped_folder() / name) for name in FILES]
    if is_shipped(folder):
        return shipped
    if os.path.isfile(folder):
        raise UsageError("the configuration folder is a file", found=str(folder), expected="the folder that it lies in")
    if not os.path.isdir(folder):
        raise DataMissing(
            "the configuration folder does not exist",
            found=str(folder),
            hint=f"'{command('config_viewer')} --copy DIR' makes one with the shipped files.",
        )
    return shipped + [read_fragment(path) for path in files_of(folder)]


def is_shipped(folder: Path) -> bool:
    """Whether it is the shipped folder itself."""
    return os.path.realpath(folder) == os.path.realpath(shipped_folder())


def files_of(folder: Path) -> list[Path]:
    """The JSON files of a folder, the three known names first."""
    found = [path for path in entries_of(folder) if path.suffix == ".json" and not path.name.startswith(".")]
    if not found or len(found) > MOST_FILES:
        expected = f"one or more of {', '.join(FILES)}, or other *.json files with parts of them"
        raise DataMissing("the configuration folder holds no JSON file", found=str(folder), expected=expected)
    order = list(FILES)
    return sorted(found, key=lambda path: order.index(path.name) if path.name in order else len(order))


def read_fragment(path: Path) -> Fragment:
    """One file of the configuration."""
    if not os.path.exists(path):
        raise DataMissing(f"the configuration file {str(path)!r} is missing", hint="Install anew, or restore the file.")
    return fragment_of(read_text_file(path, "a configuration file"), path.name)


def fragment_of(text: str, file: str) -> Fragment:
    """The text of one file: sections, or rows of a section without its heading."""
    reader = JsonText(text, file)
    content = reader.read()
    if not content.is_object:
        raise schema.fault(content, "a configuration file", f"an object with {', '.join(FILES.get(file, SECTIONS))}")
    sections: dict[str, Value] = {}
    bare: list[str] = []
    for key, value in schema.entries(content, file).items():
        section = key if key in SECTIONS else section_of_row(value)
        part = value if key in SECTIONS else Value({key: value}, value.place, section)
        bare += [] if key in SECTIONS else [value.key]
        sections[section] = laid_over(part, sections[section]) if section in sections else part
    return Fragment(sections, tuple(notes_on(file, reader.comment_lines, bare)))


def section_of_row(value: Value) -> str:
    """The section that a row without heading belongs to, told by its fields."""
    given = set(value.content) if value.is_object else set()
    fitting = [section for section, fields in ROW_FIELDS.items() if given and given <= set(fields)]
    if len(fitting) == 1:
        return fitting[0]
    unknown = UnknownName("section", value.key, SECTIONS, hint=f"Sections: {', '.join(SECTIONS)}.")
    raise UsageError(f"{value.place}: {unknown.problem}", hint=unknown.hint)


def notes_on(file: str, comment_lines: list[int], bare: list[str]) -> list[str]:
    """What was tolerated."""
    notes = []
    if comment_lines:
        lines = ", ".join(map(str, comment_lines[:5])) + (", ..." if len(comment_lines) > 5 else "")
        notes.append(f"{file}: // comments accepted (line {lines}); JSON itself has none, other programs refuse them.")
    if bare:
        notes.append(f"{file}: {', '.join(bare[:5])}: read as rows although their heading is missing.")
    return notes


def overlaid(fragments: Iterable[Fragment]) -> dict[str, Value]:
    """All sections, later fragments over earlier ones."""
    whole = {section: Value({}, Place("configuration", 1, 1), section) for section in SECTIONS}
    for fragment in fragments:
        for section, value in fragment.sections.items():
            whole[section] = laid_over(value, whole[section])
    return whole


def laid_over(over: Value, base: Value) -> Value:
    """`over` where it says something, else `base`; objects part by part, under the names of `base`."""
    if not (over.is_object and base.is_object):
        return replace(over, key=base.key or over.key)
    parts = dict(base.content)
    for key, value in over.content.items():
        parts[key] = laid_over(value, parts[key]) if key in parts else value
    return Value(parts, over.place if over.content else base.place, base.key or over.key)
