"""What headless Chromium makes of a page of HTML: pictures of it, its sheets of paper, and what cannot be read."""

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
const HIDDEN = '.unseen, .cards thead, style, title, details:not([open]) > :not(summary)';
function words(page) {
  const found = [], walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, of = node.parentElement, range = page.createRange();
    if (!node.data.trim() || of.closest(HIDDEN)) continue;
    const turned = of.getScreenCTM && of.getScreenCTM();
    if (turned && Math.abs(turned.a * turned.b) > 0.01) continue;
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 1) found.push({ box, of, text: node.data.trim() });
  }
  return found.sort((one, other) => one.box.top - other.box.top);
}
function covered(page) {
  const found = [], all = words(page);
  for (let i = 0; i < all.length; i++) for (let j = i + 1; j < all.length; j++) {
    const one = all[i].box, other = all[j].box;
    if (other.top > one.bottom - 2) break;
    if (one.left < other.right - 2 && other.left < one.right - 2 && other.bottom > one.top + 2)
      found.push(all[i].text.slice(0, 40) + ' is under ' + all[j].text.slice(0, 40));
  }
  return found;
}
function struck(page) {
  const found = [];
  for (const svg of page.querySelectorAll('svg')) {
    const labels = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]).filter(l => l[1].width);
    for (const line of svg.querySelectorAll('.steps, .range, .limit, .way, .due')) {
      const toScreen = line.getScreenCTM();
      if (!line.getTotalLength || !labels.length) continue;
      for (let at = 0; at <= line.getTotalLength(); at += 3) {
        const point = line.getPointAtLength(at).matrixTransform(toScreen);
        for (const [label, box] of labels)
          if (point.x > box.left + 1 && point.x < box.right - 1 && point.y > box.top + 3 && point.y < box.bottom - 3)
            found.push(label.textContent + ' is struck by ' + line.getAttribute('class'));
      }
    }
  }
  return [...new Set(found)];
}
function titles(page) {
  const seen = e => e.getBoundingClientRect().width && !e.matches('.unseen');
  const said = [...page.querySelectorAll('h1, h2, figure .head')].filter(seen).map(e => e.textContent);
  const drawn = [...page.querySelectorAll('figure .head')].filter(seen).map(e => e.textContent);
  const alike = (one, other) => one === other || drawn.includes(other) && one.split(':')[0] === other.split(':')[0];
  const found = said.filter((one, at) => said.some((other, where) => where !== at && alike(one, other)));
  const values = [...page.querySelectorAll('.fact dd:not(.note)')].map(e => e.textContent).filter(v => v.length > 3);
  const again = values.filter(value => (said[0] || '').includes(value));
  return [...found.map(one => 'twice: ' + one), ...again.map(value => 'in the title too: ' + value)];
}
function apart(page) {
  const found = [];
  for (const table of page.querySelectorAll('table.cards')) {
    const lefts = {};
    for (const row of table.querySelectorAll('tbody tr')) [...row.children].forEach((cell, at) => {
      const left = Math.round(cell.getBoundingClientRect().left);
      if (Math.abs((lefts[at] ??= left) - left) > 1) found.push('cell ' + at + ' of ' + name(row));
    });
  }
  return found;
}
function marks(page) {
  const found = [];
  for (const figure of page.querySelectorAll('figure')) {
    const rows = new Set([...page.querySelectorAll('tbody td:first-child')].filter(
      td => td.getBoundingClientRect().width && !td.closest(HIDDEN)).map(td => td.textContent.replace('> ', '')));
    for (const label of figure.querySelectorAll('.label, .mark')) {
      const mark = label.textContent.split(':')[0];
      if (/^([A-Z]{1,2}|[0-9]{1,2})$/.test(mark) && !rows.has(mark)) found.push(mark + ' stands in no table');
    }
  }
  return found;
}
window.onload = () => {
  const found = {};
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument;
    const folded = [leaves(frame), covered(page), struck(page), titles(page), apart(page), marks(page)].flat();
    page.querySelectorAll('details').forEach(d => { d.open = true; });
    const all = [...new Set([...folded, ...leaves(frame), ...covered(page)])];
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


def what_is_wrong(pages: Mapping[str, str], widths_px: Iterable[int]) -> dict[str, list[str]]:
    """What cannot be read, by page and width, folds closed and open; nothing of a page where all can be.

    Elements beyond the right edge, but in a table that scrolls; text over text; names in pictures that a line strikes;
    titles that stand twice, and cards that say what the title does; cells of rows that stand apart from those above;
    marks of a picture that no table in sight holds.
    """
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
