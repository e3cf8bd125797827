"""A picture of a page as a PNG with a palette: a third of what a browser writes, alike to the eye.

Source: PNG Specification (Third Edition), W3C, sections 9 (filters), 11.2.2 (PLTE).
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

SIGNATURE, LARGEST_PALETTE = b"\x89PNG\r\n\x1a\n", 256
TRUE_COLOUR, PALETTE, CHANNELS = 2, 3, 3


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kinds and contents."""
    at = len(SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk as it is stored."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def paeth(left: int, above: int, corner: int) -> int:
    """The neighbour that is nearest to left + above - corner."""
    to_left, to_above, to_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner


def unfiltered(kind: int, line: bytes, before: bytes) -> bytes:
    """A line of pixels, of which the filter kept the difference to its neighbours."""
    found = bytearray(line)
    for i, value in enumerate(line):
        left, corner = (found[i - CHANNELS], before[i - CHANNELS]) if i >= CHANNELS else (0, 0)
        guesses = (0, left, before[i], (left + before[i]) // 2)
        found[i] = (value + (paeth(left, before[i], corner) if kind == 4 else guesses[kind])) % 256
    return bytes(found)


def pixels(png: bytes) -> tuple[int, list[bytes]]:
    """The width, and each line of a picture of 8 bits for each of three colours."""
    parts = list(chunks(png))
    width, height, depth, colours, *_ = struct.unpack(">IIBBBBB", dict(parts)[b"IHDR"])
    assert (depth, colours) == (8, TRUE_COLOUR), "a picture as Chromium draws it"
    data = zlib.decompress(b"".join(content for kind, content in parts if kind == b"IDAT"))
    size, lines, before = width * CHANNELS, [], bytes(width * CHANNELS)
    for row in range(height):
        start = row * (size + 1)
        before = unfiltered(data[start], data[start + 1 : start + 1 + size], before)
        lines.append(before)
    return width, lines


def nearest(colour: bytes, palette: Sequence[bytes]) -> bytes:
    """The colour of a palette that looks most alike."""
    return min(palette, key=lambda other: sum((a - b) ** 2 for a, b in zip(colour, other, strict=True)))


def with_palette(png: bytes) -> bytes:
    """The same picture in its commonest colours, as many as a palette holds; the others become the nearest of them."""
    width, lines = pixels(png)
    shown = [[line[i : i + CHANNELS] for i in range(0, len(line), CHANNELS)] for line in lines]
    counted = Counter(colour for line in shown for colour in line)
    palette = [colour for colour, _ in counted.most_common(LARGEST_PALETTE)]
    number = {colour: palette.index(nearest(colour, palette)) for colour in counted}
    data = b"".join(b"\0" + bytes(number[colour] for colour in line) for line in shown)
    header = struct.pack(">IIBBBBB", width, len(lines), 8, PALETTE, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(chunk(kind, content) for kind, content in parts)
