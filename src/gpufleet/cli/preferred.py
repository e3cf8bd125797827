"""Preferences laid under a command line: a flag replaces them, and an error says which of them it is about."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.errors import GpufleetError

if TYPE_CHECKING:
    import typer

    from gpufleet.inputs.preferences import Preference

CATALOG_VARIABLE = "GPUFLEET_CATALOG"
WITHOUT_PREFERENCES = ("gpufleet doctor",)
NOT_MEANT = {"gpufleet encode": ("engine",)}
Defaults = dict[str, str | list[str]]


def defaults_of(command: str) -> AbstractContextManager[Defaults]:
    """Preferences under a command; the doctor reads them itself, so that it can tell what is wrong with them."""
    return nullcontext({}) if command in WITHOUT_PREFERENCES else preferred(NOT_MEANT.get(command, ()))


@contextmanager
def preferred(not_meant: Sequence[str] = ()) -> Iterator[Defaults]:
    """Values for options that are not typed, by the names of parameters; the catalog's folder goes the usual way.

    `not_meant` are keys that say something else for this command: an encoder runs on no serving engine.
    """
    from gpufleet.inputs.preferences import preferences

    found = preferences(os.environ, Path())
    catalog = found.get("catalog")
    before = os.environ.get(CATALOG_VARIABLE)
    try:
        if catalog is not None:
            os.environ[CATALOG_VARIABLE] = catalog.text
        yield {key: as_typed(p) for key, p in found.items() if key not in ("catalog", *not_meant)}
    except GpufleetError as error:
        raise with_origin(error, found) from error
    finally:
        restore(before)


def as_typed(preference: Preference) -> str | list[str]:
    """The value as the option's parser takes it."""
    return preference.value if isinstance(preference.value, str) else list(preference.value)


def restore(catalog: str | None) -> None:
    """Leave the environment as it was found."""
    if catalog is None:
        os.environ.pop(CATALOG_VARIABLE, None)
    else:
        os.environ[CATALOG_VARIABLE] = catalog


def with_origin(error: GpufleetError, found: Mapping[str, Preference]) -> GpufleetError:
    """The error, told where its value was set when no flag set it."""
    said = f"{error.problem} {error.found!r}"
    blamed = [
        f"{key!r} is set in {preference.origin}."
        for key, preference in found.items()
        if any(repr(word) in said for word in (preference.text, *preference.words))
    ]
    unsaid = (told for told in blamed if told not in (error.hint or ""))
    error.hint = " ".join(filter(None, [error.hint, *unsaid])) or None
    return error


def names_preferred(context: typer.Context) -> frozenset[str]:
    """Parameters whose value is a preference: nobody typed it."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "DEFAULT_MAP")
