"""The index of sparse attention on one device: entries scored for new tokens and for prompts, and the best chosen."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Curves
from gpufleet.performance.interpolation import curve_s, log2
from gpufleet.performance.roofline import roofline_s

SCORE_BYTES = 4.0


def entries_roofline_s(
    curves: Curves, sequences: Floats, entries: Floats, flop_per_entry: float, bytes_per_entry: float
) -> FloatArray:
    """Least seconds to score every entry of each sequence for one token: the cached index read once."""
    scored = sequences * np.asarray(entries)
    moved_bytes = scored * (bytes_per_entry + SCORE_BYTES)
    return roofline_s(scored * flop_per_entry, curves.peak_flop_per_s, moved_bytes, curves.bandwidth_bytes_per_s)


def prompt_scores_roofline_s(curves: Curves, queries: Floats, entries: Floats, flop_per_entry: float) -> FloatArray:
    """Least seconds to score `entries` for each query of a prompt: scores written once, entries shared by a tile."""
    pairs = queries * np.asarray(entries)
    return roofline_s(pairs * flop_per_entry, curves.peak_flop_per_s, pairs * SCORE_BYTES, curves.bandwidth_bytes_per_s)


def choice_roofline_s(curves: Curves, queries: Floats, entries: Floats) -> FloatArray:
    """Least seconds to choose among `entries` scores for each query: every score read once."""
    return np.asarray(queries * np.asarray(entries) * SCORE_BYTES / curves.bandwidth_bytes_per_s)


def index_coordinates(queries: Floats, entries: Floats) -> tuple[FloatArray, ...]:
    """Where scoring or choosing stands in its grid: queries, and entries that each of them meets.

    >>> [float(c) for c in index_coordinates(64, 4096)]
    [6.0, 12.0]
    """
    return log2(queries), log2(entries)


def scored_entries_s(
    curves: Curves, sequences: Floats, entries: Floats, flop_per_entry: float, bytes_per_entry: float
) -> FloatArray:
    """Seconds to score the index of each sequence for its new token, in one layer.

    t = exp(grid) (max(flop / peak of 16 bits, bytes / bandwidth) + 4 us)   [s]   Scores are in fp8.
    Source: measured paged scoring kernels of DeepSeek-V4, `data/calibration/kernels.csv`. Valid: 1-1,024 sequences,
    1-262,144 entries.
    """
    roofline = entries_roofline_s(curves, sequences, entries, flop_per_entry, bytes_per_entry)
    return curve_s(curves, roofline, index_coordinates(sequences, entries))


def scored_prompts_s(curves: Curves, queries: Floats, entries: Floats, flop_per_entry: float) -> FloatArray:
    """Seconds to score, in one layer, the mean of `entries` that come before each of the `queries` of prompts.

    t = exp(grid) (max(flop / peak of 16 bits, bytes / bandwidth) + 5 us)   [s]   Scores are in fp8.
    Source: measured scoring kernels of GLM-5, `data/calibration/kernels.csv`. Valid: 64-131,072 queries, 16-202,752
    entries.
    """
    roofline = prompt_scores_roofline_s(curves, queries, entries, flop_per_entry)
    return curve_s(curves, roofline, index_coordinates(queries, entries))


def choice_s(curves: Curves, queries: Floats, entries: Floats) -> FloatArray:
    """Seconds to choose the best of `entries` for each query, in one layer.

    t = exp(grid) (queries x entries x 4 bytes / bandwidth + 5 us)   [s]
    Source: measured top-2,048 kernels of GLM-5, `data/calibration/kernels.csv`: the geometric mean of even scores and
    of the best ones last, which differ by a factor of two. Valid: 1-131,072 queries, 2,049-202,752 entries.
    """
    return curve_s(curves, choice_roofline_s(curves, queries, entries), index_coordinates(queries, entries))
