"""Every request of a replay as a row of CSV, in pieces: ten million rows are never one text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpufleet.domain.replay import FATES
from gpufleet.report.formats import csv_cell

if TYPE_CHECKING:
    from gpufleet.domain.replay import Replay

ROWS_OF_A_PIECE = 20_000
HEADER = (
    "arrival_s", "class", "input_tokens", "output_tokens", "ttft_s", "tpot_s", "latency_s", "fate", "replica",
    "cached_tokens", "preemptions",
)  # fmt: skip


def request_rows(replay: Replay, rows_of_a_piece: int = ROWS_OF_A_PIECE) -> Iterator[str]:
    """RFC 4180 in the order of arrival, full precision; a time that a request does not have is an empty cell.

    So is the replica of a request that none answered.
    """
    yield lines_of([HEADER])
    times = (replay.ttft_s, replay.tpot_s, replay.latency_s)
    for begin in range(0, len(replay.requests), rows_of_a_piece):
        piece = slice(begin, begin + rows_of_a_piece)
        yield lines_of(list(zip(*columns_of(replay, [column[piece] for column in times], piece), strict=True)))


def columns_of(replay: Replay, times: Sequence[object], piece: slice) -> list[list[object]]:
    """The columns of some rows as plain values."""
    r, names = replay.requests, [csv_cell(name) for name in replay.requests.class_names]
    ttft, tpot, latency = (known(column.tolist()) for column in times)  # type: ignore[attr-defined]
    return [
        r.arrival_s[piece].tolist(),
        [names[index] for index in r.request_class[piece].tolist()],
        r.input_tokens[piece].tolist(),
        r.output_tokens[piece].tolist(),
        ttft,
        tpot,
        latency,
        [FATES[fate] for fate in replay.fate[piece].tolist()],
        ["" if number < 0 else number for number in replay.replica[piece].tolist()],
        replay.cached_tokens[piece].tolist(),
        replay.preemptions[piece].tolist(),
    ]


def known(seconds: Sequence[float]) -> list[object]:
    """Times, with nothing where there is none."""
    return ["" if math.isnan(value) else value for value in seconds]


def lines_of(rows: Sequence[Sequence[object]]) -> str:
    """Rows as they stand in a file."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\r\n").writerows(rows)
    return stream.getvalue()
