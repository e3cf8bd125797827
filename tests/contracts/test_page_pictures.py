"""Pictures of pages that documents show: small, of the width that they claim, of the pixels that the browser drew."""

from __future__ import annotations

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st
from tools.page_pictures import DRAWN, REPOSITORY
from tools.small_png import CHANNELS, SIGNATURE, TRUE_COLOUR, chunk, chunks, paeth, pixels, with_palette

MOST_BYTES = 150_000
NUM_FILTERS = 5


def filtered(kind: int, line: bytes, before: bytes) -> bytes:
    """A line as the difference to what its filter guesses (PNG Specification, third edition, 9.2)."""
    shown = bytearray()
    for i, value in enumerate(line):
        left, corner = (line[i - CHANNELS], before[i - CHANNELS]) if i >= CHANNELS else (0, 0)
        guess = (0, left, before[i], (left + before[i]) // 2, paeth(left, before[i], corner))[kind]
        shown.append((value - guess) % 256)
    return bytes([kind, *shown])


def png_of(lines: list[bytes], kinds: list[int]) -> bytes:
    header = struct.pack(">IIBBBBB", len(lines[0]) // CHANNELS, len(lines), 8, TRUE_COLOUR, 0, 0, 0)
    befores = [bytes(len(lines[0])), *lines]
    data = b"".join(filtered(k, line, before) for k, line, before in zip(kinds, lines, befores, strict=False))
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


LINES = st.integers(1, 7).flatmap(
    lambda width: st.lists(st.binary(min_size=width * CHANNELS, max_size=width * CHANNELS), min_size=1, max_size=6)
)


@given(LINES, st.lists(st.integers(0, NUM_FILTERS - 1), min_size=6, max_size=6))
def test_a_picture_of_few_colours_keeps_every_pixel(lines: list[bytes], kinds: list[int]) -> None:
    png = png_of(lines, kinds)
    assert pixels(png) == (len(lines[0]) // CHANNELS, lines)
    parts = dict(chunks(with_palette(png)))
    palette, rows = parts[b"PLTE"], zlib.decompress(parts[b"IDAT"])
    size = len(lines[0]) // CHANNELS + 1
    shown = [
        b"".join(palette[CHANNELS * n : CHANNELS * n + CHANNELS] for n in rows[at + 1 : at + size])
        for at in range(0, len(rows), size)
    ]
    assert shown == lines


def test_the_documents_show_small_pictures_of_the_stated_width() -> None:
    page = (REPOSITORY / "docs" / "answers.md").read_text(encoding="utf-8")
    for name, width_px, height_px, _ in DRAWN:
        png = (REPOSITORY / name).read_bytes()
        assert struct.unpack(">II", dict(chunks(png))[b"IHDR"][:8]) == (width_px, height_px)
        assert len(png) < MOST_BYTES
        assert f"({name.removeprefix('docs/')})" in page
