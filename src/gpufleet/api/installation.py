"""What this installation has: Python, packages, tables and their age, settings, terminal, GPU."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from gpufleet.catalog.calibration import DATA as CALIBRATION_FOLDER
from gpufleet.catalog.engine_eras import load_eras
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.snapshots import DOWNLOAD_FOLDER, snapshot_folders, snapshot_root
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer
from gpufleet.errors import GpufleetError
from gpufleet.files import entries_of
from gpufleet.inputs.preferences import PROJECT_FILE, preference_files, preferences, unknown_variables
from gpufleet.results.setup import FINE, MISSING, REMARK, Check, Diagnosis

DISTRIBUTION = "gpu-fleet-optimizer"
OLDEST_PYTHON = (3, 10)
OLD_PRICES_DAYS = 90
PATIENCE_S = 5
VERSION_LENGTH = 12
NARROW = 80
DAY_LENGTH = len("20261121")
NO_GPU = "none seen; no answer needs one"
OLD_PRICES = "Prices are never live: 'gpufleet catalog update' fetches newer ones, or give your own with --catalog DIR."


def diagnose(environment: Mapping[str, str], project: Path, today: date, width: int, is_terminal: bool) -> Diagnosis:
    """Everything that an answer rests on, and what is missing.

    `width` is the columns of a page, `is_terminal` whether a person reads it at once.
    """
    checks = [
        python_check(),
        *package_checks(),
        *catalog_checks(environment, project, today),
        calibration_check(),
        settings_check(environment, project),
        terminal_check(environment, width, is_terminal),
        gpu_check(),
    ]
    return Diagnosis(checks=checks)


def python_check() -> Check:
    """The interpreter that runs this."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Check(name="Python", status=FINE, found=found)
    return Check(name="Python", status=MISSING, found=found, hint="Install Python 3.10 or newer.")


def package_checks() -> list[Check]:
    """gpufleet itself, and the packages that it needs."""
    needed = [name for name, is_needed in required_packages() if is_needed]
    installed = {name: installed_version(name) for name in needed}
    there = ", ".join(f"{name} {found}" for name, found in installed.items() if found)
    absent = [name for name, found in installed.items() if found is None]
    checks = [Check(name="gpufleet", status=FINE, found=installed_version(DISTRIBUTION) or "runs from its source")]
    if absent:
        hint = f"python -m pip install {' '.join(absent)}"
        return [*checks, Check(name="packages", status=MISSING, found=f"not {', '.join(absent)}", hint=hint)]
    return [*checks, Check(name="packages", status=FINE, found=there or "their list is unknown")]


def required_packages() -> Iterator[tuple[str, bool]]:
    """Packages that the distribution names, and whether this interpreter needs them."""
    for requirement in (requires(DISTRIBUTION) or []) if installed_version(DISTRIBUTION) else []:
        name, _, condition = requirement.partition(";")
        is_needed = "extra ==" not in condition and is_of_this_python(condition)
        yield re.split(r"[\s<>=!~\[(]", name.strip(), maxsplit=1)[0], is_needed


def is_of_this_python(condition: str) -> bool:
    """Whether a requirement's condition on the version of Python holds; one that says nothing of it does.

    >>> is_of_this_python("python_version < '3.10'"), is_of_this_python("python_version >= '3.10'")
    (False, True)
    """
    bound = re.search(r"python_version (<|>=) [\"'](\d+)\.(\d+)", condition)
    return bound is None or (sys.version_info[:2] < (int(bound[2]), int(bound[3]))) is (bound[1] == "<")


def installed_version(name: str) -> str | None:
    """The release of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def catalog_checks(environment: Mapping[str, str], project: Path, today: date) -> list[Check]:
    """The tables, your own over them, and the age of prices."""
    try:
        catalog = load_catalog(own_tables(environment, project))
    except GpufleetError as error:
        return [Check(name="catalog", status=MISSING, found="cannot be read", hint=str(error))]
    prices = f"{len(catalog.offers):,} prices"
    found = f"{len(catalog.accelerators)} GPUs, {len(catalog.instances):,} instance types, {prices}"
    return [Check(name="catalog", status=FINE, found=found), price_check(catalog, today), snapshot_check()]


def own_tables(environment: Mapping[str, str], project: Path) -> str | None:
    """The folder of tables that is preferred; what is wrong with the settings is a check of its own."""
    try:
        preferred = preferences(environment, project).get("catalog")
    except GpufleetError:
        return None
    return preferred.text if preferred else None


def snapshot_check() -> Check:
    """The newest refresh of every feed, and refreshes that began and did not end."""
    root = snapshot_root()
    taken = [f"{folder.parent.name} {folder.name[:DAY_LENGTH]}" for folder in snapshot_folders(root)]
    found = f"{', '.join(taken) or 'none'} in {root}"
    unfinished = sorted(feed.name for feed in entries_of(root) if os.path.isdir(feed / DOWNLOAD_FOLDER))
    if not unfinished:
        return Check(name="snapshots", status=FINE, found=found)
    hint = f"Not finished: {', '.join(unfinished)}. 'gpufleet catalog update' continues where it stopped."
    return Check(name="snapshots", status=REMARK, found=found, hint=hint)


def price_check(catalog: Catalog, today: date) -> Check:
    """The oldest and the newest day of each cloud and price kind, and whether any is old."""
    days: dict[tuple[str, str], list[Offer]] = {}
    for offer in sorted(catalog.offers, key=lambda offer: (offer.cloud, offer.price_kind.value, offer.as_of)):
        days.setdefault((offer.cloud, offer.price_kind.value.replace("_", " ")), []).append(offer)
    found = "; ".join(f"{cloud} {kind} {days_in_words(offers, today)}" for (cloud, kind), offers in days.items())
    oldest = max(((today - offer.as_of).days for offer in catalog.offers), default=0)
    if oldest <= OLD_PRICES_DAYS:
        return Check(name="prices", status=FINE, found=found)
    return Check(name="prices", status=REMARK, found=found, hint=f"The oldest are {oldest} days old. {OLD_PRICES}")


def days_in_words(offers: Sequence[Offer], today: date) -> str:
    """The days of prices, oldest first, and the age of the oldest."""
    days = list(dict.fromkeys(offer.day for offer in (offers[0], offers[-1])))
    age = "" if offers[0].first_seen else f" ({(today - offers[0].as_of).days} days)"
    return " and ".join(days) + age


def calibration_check() -> Check:
    """Which measured curves and engine constants predictions rest on."""
    eras = load_eras()
    engines = sorted({engine for engine, rows in eras.items() if rows})
    return Check(
        name="calibration", status=FINE, found=f"version {calibration_version()}, engines {', '.join(engines)}"
    )


def calibration_version() -> str:
    """A digest of every calibration table: the same version predicts the same."""
    digest = hashlib.sha256()
    for path in entries_of(CALIBRATION_FOLDER):
        if os.path.isfile(path):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:VERSION_LENGTH]


def settings_check(environment: Mapping[str, str], project: Path) -> Check:
    """Files and variables that set preferences, and the overlay of tables."""
    try:
        found = preferences(environment, project)
        files = [str(path) for path in preference_files(environment, project) if os.path.isfile(path)]
    except GpufleetError as error:
        return Check(name="settings", status=MISSING, found="cannot be read", hint=str(error))
    overlay = f"tables of your own in {found['catalog'].text}" if "catalog" in found else "no tables of your own"
    said = ", ".join(files) or f"no {PROJECT_FILE} here, no file of yours"
    strange = unknown_variables(environment)
    return Check(
        name="settings", status=REMARK if strange else FINE, found=f"{said}; {overlay}", hint=" ".join(strange)
    )


def terminal_check(environment: Mapping[str, str], width: int, is_terminal: bool) -> Check:
    """How wide pages are; nothing is said by colour alone, as no page has any."""
    where = "a terminal" if is_terminal else "a pipe or file"
    colour = "NO_COLOR is set" if environment.get("NO_COLOR") else "pages have none"
    found = f"{width} columns, to {where}; colour: {colour}"
    if width >= NARROW:
        return Check(name="terminal", status=FINE, found=found)
    hint = f"Tables are made for {NARROW} columns or more; columns that do not fit are named below them."
    return Check(name="terminal", status=REMARK, found=found, hint=hint)


def gpu_check() -> Check:
    """GPUs of this machine, where the driver's own tool names them."""
    tool = shutil.which("nvidia-smi")
    names = gpu_names(tool) if tool else []
    return Check(name="GPU", status=FINE, found=", ".join(names) if names else NO_GPU)


def gpu_names(tool: str) -> list[str]:
    """What the driver calls its GPUs; a driver that does not answer has none."""
    question = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(question, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    names = [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
    return [f"{names.count(name)}x {name}" for name in dict.fromkeys(names)]
