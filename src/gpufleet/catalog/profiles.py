"""Profiles: a TOML file each in a folder of the shipped tables, and a user's overlay of the same files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gpufleet.catalog.table_files import SHIPPED, toml_files, toml_of
from gpufleet.errors import UsageError
from gpufleet.files import named_path
from gpufleet.provenance import Sourced

Profile = TypeVar("Profile")


def profiles_in(
    folder: str, overlay: str | None, kind: str, profile_from: Callable[[str, Mapping[str, Any]], Profile]
) -> dict[str, Profile]:
    """Profiles of `kind` by name: the shipped ones, and those of the overlay's folder of the same name over them."""
    folders = [SHIPPED / folder, *([named_path(overlay) / folder] if overlay else [])]
    files = [file for each in folders for file in toml_files(each)]
    return {file.name.removesuffix(".toml"): _read(file, kind, profile_from) for file in files}


def _read(file: Path, kind: str, profile_from: Callable[[str, Mapping[str, Any]], Profile]) -> Profile:
    try:
        return profile_from(file.name.removesuffix(".toml"), toml_of(file))
    except KeyError as error:
        hint = f"See the shipped {kind} files for what each table holds."
        raise UsageError(f"the {kind} profile {file} lacks {error.args[0]!r}", hint=hint) from error
    except (AttributeError, TypeError, ValueError) as error:
        hint = f"Every figure needs value, unit and source; see the shipped {kind} files."
        raise UsageError(f"cannot read the {kind} profile {file.name}", found=str(error), hint=hint) from error


def sourced(figure: Mapping[str, Any]) -> Sourced:
    """A figure with its unit and source, and its range and number of points where they are stated."""
    low, high, points = (figure.get(bound) for bound in ("low", "high", "points"))
    return Sourced(float(figure["value"]), figure["unit"], figure["source"], low, high, points)
