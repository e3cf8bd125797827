"""Set up and measure a virtual environment; standard library alone, so that a fresh clone can run it.

python tools/environment.py create FOLDER
python tools/environment.py install FOLDER [--editable] WHAT
python tools/environment.py measure
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

OLDEST_PYTHON = (3, 10)
NOT_OURS = {"pip", "setuptools", "wheel"}
WHEELS_ONLY = "--only-binary=:all:"


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
    """Install packages into the environment, as wheels only."""
    print(f"Installing gpufleet into {folder} ...", file=sys.stderr, flush=True)
    python = str(Path(folder) / "bin" / "python")
    if shutil.which("uv"):
        run("uv", "pip", "install", "--quiet", "--python", python, WHEELS_ONLY, *what)
    else:
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", WHEELS_ONLY, *what)


def run(*command: str) -> None:
    """Run a command; its own message is enough when it fails."""
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        sys.exit(code)


def measure() -> None:
    """Packages and bytes of this environment, without pip itself."""
    sizes = {d.name: size_bytes(d) for d in importlib.metadata.distributions() if d.name.lower() not in NOT_OURS}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:8.1f} MB  {name}")
    print(f"{sum(sizes.values()) / 1e6:8.1f} MB in {len(sizes)} packages ({sysconfig.get_platform()})")


def size_bytes(distribution: importlib.metadata.Distribution) -> int:
    """Bytes of the files that a package installed; byte code is left out when it was not written yet."""
    paths = {Path(str(distribution.locate_file(file))) for file in distribution.files or ()}
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    ACTIONS = {"create": create, "install": install, "measure": measure}
    ACTIONS[sys.argv[1]](*sys.argv[2:])
