"""What the wheel and the source distribution hold: built without a network, by the backend that is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools.pack_models import FOLDER, PACKED

from gpufleet.catalog import models

REPOSITORY = Path(__file__).resolve().parents[2]
LEFT_OUT = {".gitignore"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def in_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def in_sdist(built: Path) -> set[str]:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def tracked() -> list[str]:
    """Files under version control; none where there is no clone."""
    done = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def test_the_wheel_adds_two_names_to_what_can_be_imported(in_wheel: set[str]) -> None:
    tops = {name.partition("/")[0] for name in in_wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gpufleet", "gpu_migration_analyzer.py"}


def test_the_wheel_holds_every_module_and_table(in_wheel: set[str]) -> None:
    package = REPOSITORY / "src"
    shipped = {p for p in (package / "gpufleet").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    packed = set((package / FOLDER).glob("*.json"))
    assert {str(path.relative_to(package)) for path in shipped - packed} <= in_wheel
    assert in_wheel.isdisjoint(str(path.relative_to(package)) for path in packed)


def test_the_wheel_reads_the_models_of_the_clone_from_one_file(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel,) = built.glob("*.whl")
    place = Path(zipfile.ZipFile(wheel).extract(f"{FOLDER}/{PACKED}", built))
    names, configs = models.model_names(), {name: models.load_model_config(name) for name in models.model_names()}
    monkeypatch.setattr(models, "_packed", lambda: models.unpacked(place))
    monkeypatch.setattr(models, "_FOLDER", Path("nowhere"))
    assert models.model_names() == names
    assert {name: models.load_model_config(name) for name in names} == configs


def test_the_source_distribution_holds_what_the_clone_does(in_sdist: set[str]) -> None:
    assert [name for name in tracked() if name not in LEFT_OUT and name not in in_sdist] == []


def test_the_source_distribution_can_be_benched_and_made_a_site(in_sdist: set[str]) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    scripts = set(re.findall(r"(?:benchmarks|tools)/\w+\.py", makefile))
    assert len(scripts) >= 6
    assert {*scripts, "Makefile", "mkdocs.yml", "constraints.txt", "pyproject.toml", ".ci/run"} <= in_sdist
