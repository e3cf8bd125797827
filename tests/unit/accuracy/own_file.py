"""A file of measurements as a user writes one, scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_file
from gpufleet.inputs.measurements import read_measurements
from gpufleet.results.accuracy import FileAccuracy


def scored(folder: Path, good: Mapping[str, str], *changes: Mapping[str, str]) -> FileAccuracy:
    """The scores of a file with a good row under each of these changes."""
    lines = [",".join({**good, **change}.values()) for change in changes]
    (folder / "own.csv").write_text("\n".join([",".join(good), *lines]) + "\n", encoding="utf-8")
    return score_file(read_measurements(folder / "own.csv"), ModelFinder())
