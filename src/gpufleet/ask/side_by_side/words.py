"""Words of models side by side: those of a plan of one model, for all of them."""

from __future__ import annotations

import os

from gpufleet.errors import UnknownName, UsageError
from gpufleet.files import is_file
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.words import words_of

FEWEST, MOST = 2, 8
OF_ONE = ("today", "disagg", "rows")
WORDS = tuple(name for name, row in words_of(ServeRequest).items() if row.is_typed and name not in OF_ONE)
"""What is typed once for all models; what runs today, pools and rows of a ranking are of a plan of one."""

CONFIG = "config.json"
SUCH_AS = "'gpufleet compare llama-3.1-8b qwen2.5-7b --rate 5/s --in 1000 --out 200'"


def names_model(text: str) -> bool:
    """Whether a word is a model: a name that is known, an id of the hub, a config.json or the folder of one.

    >>> [names_model(text) for text in ("llama-3.1-8b", "someone/new-7b", "a/config.json", "H100:4", "plan.json")]
    [True, True, True, False, False]
    """
    from gpufleet.catalog.models import resolve_model_name

    if os.path.basename(text) == CONFIG or is_file(os.path.join(text, CONFIG)):
        return True
    try:
        return bool(resolve_model_name(text))
    except UnknownName:
        return "/" in text and not text.lower().endswith(".json")


def refuse_number(number: int) -> None:
    """Refuse one model, and more than a page has room for."""
    if not FEWEST <= number <= MOST:
        expected = f"from {FEWEST} to {MOST}, such as {SUCH_AS}"
        raise UsageError("the number of models side by side is out of range", found=number, expected=expected)
