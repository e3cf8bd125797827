"""The pictures of a page of HTML that docs/answers.md shows: `make page-pictures` draws them again with Chromium."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.browser import chromium, draw
from tools.docs_examples import environment_with
from tools.small_png import with_palette

REPOSITORY = Path(__file__).resolve().parents[1]
QUESTION = ("plan", "serve", "--workload", "examples/llama-3.3-70b-chat.yaml")
DRAWN = (
    ("docs/plan-page.png", 1000, 1320, False),
    ("docs/plan-page-phone.png", 390, 1320, True),
)
"""File, width and height in pixels, and whether in the dark."""


def draw_all() -> None:
    """Ask the question once, on the day of all that documents show, and draw its page each way."""
    with tempfile.TemporaryDirectory() as folder:
        page, drawn = Path(folder, "plan.html"), Path(folder, "plan.png")
        words = [sys.executable, "-m", "gpufleet", *QUESTION, "--out-file", str(page)]
        subprocess.run(words, cwd=REPOSITORY, env=environment_with(Path(folder)), check=True)
        for name, width_px, height_px, is_dark in DRAWN:
            draw(page, drawn, width_px, height_px, is_dark=is_dark)
            (REPOSITORY / name).write_bytes(with_palette(drawn.read_bytes()))
            print(f"{name}: {(REPOSITORY / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    if chromium() is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    draw_all()
