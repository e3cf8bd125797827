"""Set up and measure a virtual environment; standard library alone, so that a fresh clone can run it.

python tools/environment.py create FOLDER
python tools/environment.py install FOLDER [--editable] WHAT          versions of constraints.txt where they install
python tools/environment.py install-under CONSTRAINTS FOLDER WHAT     these versions and no others
python tools/environment.py measure
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

OLDEST_PYTHON = (3, 10)
NOT_OURS = {"pip", "setuptools", "wheel"}
WHEELS_ONLY = "--only-binary=:all:"
CONSTRAINTS = "constraints.txt"
NO_ANSWER = re.compile(
    "connection broken|failed to establish|name resolution|unreachable|connection refused|dns error"
    "|error sending request|timed out",
    re.IGNORECASE,
)


def create(folder: str) -> None:
    """A fresh virtual environment, by uv when it is there."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}. Try: make PYTHON=python3.12 ...")
    if shutil.which("uv"):
        run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, folder)
        return
    refuse_missing_venv()
    run(sys.executable, "-m", "venv", "--clear", folder)


def refuse_missing_venv() -> None:
    """Debian and Ubuntu ship Python without it."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        sys.exit("Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv")


def install(folder: str, *what: str) -> None:
    """Install packages, as wheels only: in the versions that were tested together, where all of them are to be had."""
    print(f"Installing gpufleet into {folder} ...", file=sys.stderr, flush=True)
    if complaints_of(folder, "--constraint", CONSTRAINTS, *what) is None:
        return
    print(
        f"Not every version of {CONSTRAINTS} installs on this Python: the newest instead.", file=sys.stderr, flush=True
    )
    stop_at(complaints_of(folder, *what))


def install_under(constraints: str, folder: str, *what: str) -> None:
    """Install packages in these versions and no others."""
    stop_at(complaints_of(folder, "--constraint", constraints, *what))


def complaints_of(folder: str, *what: str) -> str | None:
    """What the installer complained of when it failed; where no index answers that is said, and all is over."""
    python = str(Path(folder) / "bin" / "python")
    if shutil.which("uv"):
        command = ["uv", "pip", "install", "--quiet", "--python", python]
    else:
        command = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--retries",
            "2",
        ]
    done = subprocess.run(
        [*command, WHEELS_ONLY, *what], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    if NO_ANSWER.search(done.stderr):
        sys.exit(
            f"No package index answers, so {folder} cannot be set up: connect to the network once, "
            "or name a mirror in PIP_INDEX_URL (UV_INDEX_URL for uv)."
        )
    return done.stderr


def stop_at(complaints: str | None) -> None:
    """End with what the installer complained of."""
    if complaints is not None:
        sys.exit(complaints)


def run(*command: str) -> None:
    """Run a command; its own message is enough when it fails."""
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        sys.exit(code)


def measure() -> None:
    """Packages and bytes of this environment, without pip itself."""
    files = {d.name: files_of(d) for d in importlib.metadata.distributions() if d.name.lower() not in NOT_OURS}
    sizes = {name: size_bytes(paths) for name, paths in files.items()}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:8.1f} MB  {name}")
    print(f"{sum(sizes.values()) / 1e6:8.1f} MB in {len(sizes)} packages ({sysconfig.get_platform()})")
    compiled = sum(size_bytes({path for path in paths if path.suffix == ".pyc"}) for paths in files.values())
    print(f"{compiled / 1e6:8.1f} MB of it byte code that the installer wrote")


def files_of(distribution: importlib.metadata.Distribution) -> set[Path]:
    """What a package installed; byte code is left out when it was not written yet."""
    paths = {Path(str(distribution.locate_file(file))) for file in distribution.files or ()}
    return {path for path in paths if path.is_file()}


def size_bytes(paths: set[Path]) -> int:
    """Bytes of files."""
    return sum(path.stat().st_size for path in paths)


if __name__ == "__main__":
    ACTIONS = {"create": create, "install": install, "install-under": install_under, "measure": measure}
    ACTIONS[sys.argv[1]](*sys.argv[2:])
