"""Words of all questions that a workload file may hold."""

from __future__ import annotations

from functools import cache
from typing import Any

from gpufleet.questions.fields import BATCH, SERVE, words_of
from gpufleet.questions.training import TRAINED
from gpufleet.questions.words import Word


@cache
def words_of_files() -> dict[str, Word[Any]]:
    """Words that a workload file may hold, by name."""
    return {name: row for name, row in words_of(*SERVE, *BATCH, *TRAINED).items() if row.is_in_files}
