"""What a user prefers when a command line does not say: environment, project file, user file, in this order.

    # gpufleet.toml
    clouds = ["aws", "gcp"]
    engine = "sglang"
    slo = "ttft.p95<500ms,tpot.p95<40ms"

Values stay words, so that a flag and a file are read by the same parser.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpufleet.errors import UnknownName, UsageError, nearest_names
from gpufleet.files import named_path, read_text_file, toml_table
from gpufleet.questions.fields import SERVE, words_of
from gpufleet.records import dataclass

PREFIX = "GPUFLEET_"
OTHER_VARIABLES = (
    "GPUFLEET_CACHE",
    "GPUFLEET_CONFIG",
    "GPUFLEET_DATE",
    "GPUFLEET_DEBUG",
    "GPUFLEET_MODELS",
    "GPUFLEET_PRICES",
    "GPUFLEET_TOKEN",
)
ENDPOINT_PREFIX = "GPUFLEET_ENDPOINT_"
PROJECT_FILE, USER_FILE = "gpufleet.toml", "config.toml"
WHAT = "the configuration"


@dataclass(frozen=True)
class Key:
    """Something that can be preferred: what it says, what holds without it, and whether it is a list or a folder."""

    says: str
    default: str
    is_list: bool = False
    is_folder: bool = False


PREFERABLE = sorted(
    ((row.preferred, row) for row in words_of(*SERVE).values() if row.preferred), key=lambda pair: pair[0].place
)
KEYS: Mapping[str, Key] = {
    **{row.name: Key(liked.says, liked.default, row.kind.takes is list) for liked, row in PREFERABLE},
    "catalog": Key("folder of your own tables over the shipped ones", "none", is_folder=True),
}
SINGULAR = {"cloud": "clouds", "region": "regions"}
KEY_OF_VARIABLE = {f"{PREFIX}{key.upper()}": key for key in KEYS}


@dataclass(frozen=True)
class Preference:
    """A preferred value, as words, and where it was set."""

    value: str | tuple[str, ...]
    origin: str

    @property
    def words(self) -> tuple[str, ...]:
        """The value as the words of a list."""
        return (self.value,) if isinstance(self.value, str) else self.value

    @property
    def text(self) -> str:
        """The value on one line."""
        return ", ".join(self.words)


def preferences(environment: Mapping[str, str], project: Path, platform: str = sys.platform) -> dict[str, Preference]:
    """Every preferred value; the environment goes before the project's file, and that before the user's."""
    found: dict[str, Preference] = {}
    for path in reversed(preference_files(environment, project, platform)):
        if os.path.isfile(path):
            found.update(parse_preferences(read_text_file(path, WHAT), path))
    found.update(environment_preferences(environment))
    return found


def preference_files(environment: Mapping[str, str], project: Path, platform: str = sys.platform) -> list[Path]:
    """Files that are looked for, the most specific first; GPUFLEET_CONFIG names the user's file, or none when empty."""
    named = environment.get("GPUFLEET_CONFIG")
    if named is None:
        mine = [folder / "gpufleet" / USER_FILE for folder in config_folder(environment, platform)]
    else:
        mine = [existing_file(named)] if named else []
    return [project / PROJECT_FILE, *mine]


def existing_file(name: str) -> Path:
    """The user's file where it was named: it must be there."""
    path = named_path(name)
    if not os.path.isfile(path):
        raise UsageError("GPUFLEET_CONFIG names no file", found=name)
    return path


def config_folder(environment: Mapping[str, str], platform: str) -> Iterator[Path]:
    """Where the platform keeps the settings of programs, if that is known."""
    home = environment.get("HOME") or environment.get("USERPROFILE")
    if platform.startswith("win"):
        places = [environment.get("APPDATA")]
    elif platform == "darwin":
        places = [home and f"{home}/Library/Application Support"]
    else:
        places = [environment.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")]
    return (Path(place) for place in places if place)


def environment_preferences(environment: Mapping[str, str]) -> dict[str, Preference]:
    """Values of GPUFLEET_CLOUDS and its like; an empty variable is one that is not set."""
    set_here = {variable: environment.get(variable, "").strip() for variable in KEY_OF_VARIABLE}
    return {
        KEY_OF_VARIABLE[variable]: Preference(split_words(KEY_OF_VARIABLE[variable], text), variable)
        for variable, text in set_here.items()
        if text
    }


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Remarks on variables that look like ours and mean nothing."""
    known = [*KEY_OF_VARIABLE, *OTHER_VARIABLES]
    ours = [name for name in sorted(environment) if name.startswith(PREFIX) and not name.startswith(ENDPOINT_PREFIX)]
    strange = [name for name in ours if name not in known]
    return [f"{name} means nothing here{meant(name, known)}." for name in strange]


def meant(name: str, known: list[str]) -> str:
    """The nearest known name, as the end of a sentence."""
    nearest = nearest_names(name, known, count=1)
    return f"; {nearest[0]} does" if nearest else ""


def parse_preferences(text: str, path: Path) -> dict[str, Preference]:
    """What a TOML text prefers; `path` is named in errors and as the origin.

    >>> parse_preferences('cloud = "aws"', Path("gpufleet.toml"))["clouds"].text
    'aws'
    """
    found: dict[str, Preference] = {}
    for written, value in toml_table(text, path, 'lines such as engine = "vllm"').items():
        key = SINGULAR.get(written, written)
        if key not in KEYS:
            raise UnknownName(f"key in {path}:", written, KEYS, hint=f"Keys: {', '.join(KEYS)}.")
        if key in found:
            raise UsageError(f"{path}: {key!r} is set twice", found=written)
        found[key] = Preference(value_of(key, value, path), str(path))
    return found


def value_of(key: str, value: object, path: Path) -> str | tuple[str, ...]:
    """A value of a file as words; a folder is found from where the file lies."""
    items = value if isinstance(value, list) and KEYS[key].is_list else [value]
    plain = [str(item) for item in items if isinstance(item, str | int | float) and not isinstance(item, bool)]
    if len(plain) != len(items) or not all(text.strip() for text in plain) or not plain:
        expected = "words in quotes, or a list of them" if KEYS[key].is_list else "words in quotes"
        raise UsageError(f"{path}: {key!r} cannot be read", found=value, expected=expected)
    if KEYS[key].is_folder:
        return str(path.parent / named_path(plain[0]))
    return tuple(word for text in plain for word in split_words(key, text)) if KEYS[key].is_list else plain[0]


def split_words(key: str, text: str) -> str | tuple[str, ...]:
    """A text as the key wants it: lists are separated by commas."""
    return tuple(word.strip() for word in text.split(",")) if KEYS[key].is_list else text
