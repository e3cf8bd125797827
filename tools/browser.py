"""What headless Chromium makes of a page of HTML: pictures of it, its sheets of paper, and what leaves the screen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from html import escape, unescape
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
)
DARK = "--blink-settings=preferredColorScheme=0"
PATIENCE_S = 120
FOUND = re.compile(r'<pre id="found">(.*?)</pre>', re.DOTALL)
MEASURE = """
function name(e) { return e.tagName.toLowerCase() + (e.getAttribute('class') ? '.' + e.getAttribute('class') : '')
  + ' ' + (e.textContent || '').trim().slice(0, 40); }
function leaves(frame) {
  const page = frame.contentDocument, width = frame.clientWidth, found = [];
  if (page.documentElement.scrollWidth > width) found.push('the page is ' + page.documentElement.scrollWidth + ' wide');
  for (const e of page.body.querySelectorAll('*')) {
    const box = e.getBoundingClientRect(), svg = e.closest('svg');
    if (!box.width || e.closest('.wide, .unseen, thead')) continue;
    const edge = svg && svg !== e ? svg.getBoundingClientRect() : { left: 0, right: width };
    if (e.closest('circle, title')) continue;
    if (box.right > edge.right + 1 || box.left < edge.left - 1) found.push(name(e) + ' to ' + Math.round(box.right));
    else if (!svg && e.clientWidth && e.scrollWidth > e.clientWidth + 1) found.push(name(e) + ' is cut');
  }
  return found;
}
window.onload = () => {
  const found = {};
  for (const frame of document.querySelectorAll('iframe')) {
    const folded = leaves(frame);
    frame.contentDocument.querySelectorAll('details').forEach(d => { d.open = true; });
    const all = [...new Set([...folded, ...leaves(frame)])];
    if (all.length) found[frame.name] = all;
  }
  const shown = document.createElement('pre');
  shown.id = 'found';
  shown.textContent = JSON.stringify(found);
  document.body.replaceChildren(shown);
};
"""


def chromium() -> str | None:
    """The browser, where one is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def asked(page: Path, *flags: str) -> str:
    """What the browser prints of a page."""
    browser = chromium()
    assert browser is not None, f"none of {', '.join(NAMES)} is installed"
    with tempfile.TemporaryDirectory() as profile:
        words = [browser, *FLAGS, f"--user-data-dir={profile}", *flags, page.resolve().as_uri()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout


def draw(page: Path, picture: Path, width_px: int, height_px: int, *, is_dark: bool = False) -> None:
    """A picture of the upper part of a page."""
    theme = [DARK] if is_dark else []
    asked(page, *theme, f"--window-size={width_px},{height_px}", f"--screenshot={picture.resolve()}")


def num_sheets(page: Path) -> int:
    """Sheets of paper that a page takes, of the size that it names."""
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder, "page.pdf")
        asked(page, "--no-pdf-header-footer", f"--print-to-pdf={printed}")
        return len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes()))


def what_leaves(pages: Mapping[str, str], widths_px: Iterable[int]) -> dict[str, list[str]]:
    """Elements beyond the right edge, by page and width, folds closed and open; a table that scrolls may."""
    frames = "".join(
        f'<iframe name="{escape(name)} at {width}" style="width:{width}px;height:900px;border:0" '
        f'srcdoc="{escape(page)}"></iframe>'
        for width in widths_px
        for name, page in pages.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        measuring = Path(folder, "measuring.html")
        content = f'<!doctype html><meta charset="utf-8"><body>{frames}<script>{MEASURE}</script></body>'
        measuring.write_text(content, encoding="utf-8")
        told = FOUND.search(asked(measuring, "--dump-dom"))
    assert told is not None, "the browser did not measure the pages"
    found: dict[str, list[str]] = json.loads(unescape(told[1]))
    return found
