"""Speculative decoding as it is asked for, and how many tokens a step yields where it was measured.

A draft proposes K tokens, each of which the model accepts with a chance a if it accepted those before; it adds one of
its own: a step yields (1 - a^(K + 1)) / (1 - a) tokens on average (Leviathan et al. 2023, arXiv:2211.17192, eq. 1).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.errors import UsageError
from gpufleet.provenance import Sourced
from gpufleet.records import dataclass

N_GRAM, MTP, EAGLE3, DRAFT_MODEL = "n-gram", "mtp", "eagle3", "draft model"
METHODS = (N_GRAM, MTP, EAGLE3, DRAFT_MODEL)
SPELLINGS = {
    "n-gram": N_GRAM, "ngram": N_GRAM, "prompt-lookup": N_GRAM, "mtp": MTP, "nextn": MTP, "eagle3": EAGLE3,
    "eagle-3": EAGLE3,
}  # fmt: skip
UNREADABLE = "cannot read what drafts tokens (--speculate)"
EXPECTED = "mtp:3, eagle3:3, ngram:5, or a draft model such as qwen3-0.6b:4; '@coding' after it names a task"
USUAL_DRAFT, LONGEST_DRAFT, MOST_VERIFIED = 3, 64, 512
ASKED = re.compile(
    r"\s*(?P<what>.+?)\s*(?::\s*(?P<tokens>\d{1,4})\s*(?:/\s*(?P<verified>\d{1,4})\s*)?)?(?:@(?P<task>.+))?"
)
FORMATS = re.compile(r"-(nvfp4|mxfp4|fp8|fp4|int4|int8|awq|gptq|bf16)$", re.IGNORECASE)
CODING, EVERY_TASK = "coding", "all tasks"
USUAL_TASKS, RUNS_DIFFER, TREE_POWER = (0.1, 0.9), 0.1, 0.25
"""Shares of tasks between which an unknown one lies, and by how much runs of one task differ in drafts accepted."""


@dataclass(frozen=True)
class Speculation:
    """How tokens are drafted: `num_tokens` K one after another, of a tree of `verified_tokens` where not K + 1.

    `draft_model` names a model where that is the method; `task` is what is written, where somebody says.
    """

    method: str
    num_tokens: int
    verified_tokens: int
    draft_model: str | None = None
    task: str | None = None

    @property
    def label(self) -> str:
        """As it is typed, without the task."""
        name = self.draft_model or self.method
        tree = "" if self.verified_tokens == self.num_tokens + 1 else f"/{self.verified_tokens}"
        return f"{name}:{self.num_tokens}{tree}"


def parse_speculation(text: str) -> Speculation:
    """A method or a draft model, tokens drafted in a step, tokens verified of a tree, and the task.

    >>> parse_speculation("mtp:2").label, parse_speculation("eagle3:5/32@coding").task
    ('mtp:2', 'coding')
    >>> parse_speculation("qwen3-0.6b").num_tokens
    3
    """
    found = ASKED.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(UNREADABLE, found=text, expected=EXPECTED)
    num_tokens = USUAL_DRAFT if found["tokens"] is None else int(found["tokens"])
    if num_tokens > LONGEST_DRAFT:
        raise UsageError("so many tokens are not drafted in a step", found=text, expected=f"up to {LONGEST_DRAFT}")
    verified = num_tokens + 1 if found["verified"] is None else int(found["verified"])
    if not num_tokens < verified <= MOST_VERIFIED:
        raise UsageError(
            "a step verifies the tokens that were drafted, and one more",
            found=text,
            expected=f"{num_tokens + 1} to {MOST_VERIFIED} after the '/'",
        )
    method = SPELLINGS.get(found["what"].casefold(), DRAFT_MODEL)
    task = found["task"].strip().casefold() if found["task"] else None
    return Speculation(method, num_tokens, verified, found["what"] if method == DRAFT_MODEL else None, task)


def accepted_length_of(acceptance: Floats, num_tokens: Floats) -> FloatArray:
    """Tokens that a step yields: (1 - a^(K + 1)) / (1 - a)   [tokens]   a: share of drafted tokens that are accepted.

    >>> accepted_length_of(np.array([0.0, 0.5, 1.0]), 3).tolist()
    [1.0, 1.875, 4.0]
    """
    share, longest = np.asarray(acceptance, dtype=np.float64), np.asarray(num_tokens, dtype=np.float64) + 1
    is_sure = share >= 1
    return np.where(is_sure, longest, (1 - share**longest) / np.where(is_sure, 1.0, 1 - share))


def acceptance_of(accepted_length: float, num_tokens: int) -> float:
    """The share of drafted tokens that are accepted where a step yields so many; the inverse of the above.

    >>> round(acceptance_of(1.875, 3), 6)
    0.5
    """
    shares = np.linspace(0.0, 1.0, 4097)
    return float(np.interp(accepted_length, accepted_length_of(shares, num_tokens), shares))


@dataclass(frozen=True)
class Measured:
    """One measured accepted length: of a model by a method, of K drafted tokens, on a task ('' where none is named)."""

    model: str
    method: str
    num_tokens: int
    task: str
    mode: str
    accepted_length: float
    source: str


@dataclass(frozen=True)
class Series:
    """What one model accepted on one task, by K; `usual` shares of the method's models by K, from one on."""

    model: str
    task: str
    points: tuple[tuple[int, float], ...]
    usual: tuple[float, ...] = ()

    def at(self, num_tokens: int) -> float:
        """Tokens that a step yields of K drafted: shares accepted lie on a line between those of measured K.

        Beyond them they fall as the method's other models' do. It never falls with K: who drafts more may accept as
        before.
        """
        known = sorted(self.points)
        measured, shares = zip(*((k, acceptance_of(length, k)) for k, length in known), strict=True)
        each = np.arange(1.0, num_tokens + 1)
        near = np.clip(each, measured[0], measured[-1])
        falls = self._usual(each) / self._usual(near)
        lengths = accepted_length_of(np.minimum(np.interp(each, measured, shares) * falls, 1.0), each)
        return float(lengths.max(initial=1.0))

    def _usual(self, num_tokens: FloatArray) -> FloatArray:
        if not self.usual:
            return np.ones_like(num_tokens)
        return np.asarray(np.interp(num_tokens, np.arange(1.0, len(self.usual) + 1), self.usual))


def same_model(one: str, other: str) -> bool:
    """Whether two names are of one model, in whatever format its weights are.

    >>> same_model("kimi-k2.5-nvfp4", "kimi-k2.5"), same_model("kimi-k2.5", "kimi-k2.6")
    (True, False)
    """
    return FORMATS.sub("", one.casefold()) == FORMATS.sub("", other.casefold())


def measured_length(rows: Sequence[Measured], asked: Speculation, model: str) -> Sourced:
    """Tokens that a step yields of K drafted, with a range: of this model where it was measured, else of the method.

    What was measured on code counts on another task as much less as one model accepted there; of an unknown task the
    range is that of most.
    What n-gram drafts is copied, so other methods' tasks say nothing of it. A tree accepts as if each of its b branches
    had b^(1/4) chances: Llama-3.1-8B accepts 5.39 of 7 in a tree of 32 (sgl-project/sglang pull/4247), 3.5 in a row.
    """
    if asked.task is not None and asked.task not in {row.task for row in rows}:
        known = ", ".join(sorted({row.task for row in rows} - {"", EVERY_TASK}))
        raise UsageError("nothing is known of this task", found=asked.task, expected=known)
    series = series_of(rows, asked.method)
    own = [each for each in series if same_model(each.model, model)]
    of_task = [each for each in own or series if each.task == asked.task]
    ratios, k = task_ratios(rows), asked.num_tokens
    is_copied = asked.method == N_GRAM
    told_task = asked.task if of_task or not is_copied else None
    if of_task:
        ends = [each.at(k) for each in of_task]
        lows, highs = ([1 + (x - 1) * (1 + sign * RUNS_DIFFER) for x in ends] for sign in (-1, 1))
    else:
        scaled = [on_task(each, k, ratios, told_task) for each in own or series]
        lows, ends, highs = (list(column) for column in zip(*scaled, strict=True))
    most, chances = k + 1.0, max((asked.verified_tokens - 1) / max(k, 1), 1.0) ** TREE_POWER
    lows, ends, highs = ([with_chances(x, k, chances) for x in each] for each in (lows, ends, highs))
    others = sorted({each.model for each in series})
    elsewhere = others[0] if len(others) == 1 else f"{len(others)} other models"
    what = f"{asked.method} on {model if own else elsewhere}"
    task = told_task or "any task"
    points = sum(len(each.points) for each in own or series)
    return Sourced(
        value=min(float(np.median(ends)), most),
        unit="tokens",
        source=f"{what}; {task}",
        low=max(min(lows), 1.0),
        high=min(max(highs), most),
        points=points if own else 0,
    )


def with_chances(accepted_length: float, num_tokens: int, chances: float) -> float:
    """What a step yields where each token is accepted as if it had so many chances: 1 - (1 - a)^chances of them.

    >>> round(with_chances(1.875, 3, 2.0), 2)
    2.73
    """
    if chances <= 1 or not num_tokens:
        return accepted_length
    share = 1 - (1 - acceptance_of(accepted_length, num_tokens)) ** chances
    return float(accepted_length_of(share, float(num_tokens)))


def series_of(rows: Sequence[Measured], method: str) -> list[Series]:
    """What was measured of a method, model by model, task by task and mode by mode."""
    found: dict[tuple[str, str, str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row.method == method:
            found[row.model, row.task, row.mode, row.source].append((row.num_tokens, row.accepted_length))
    usual = usual_shares(found.values())
    return [Series(model, task, tuple(points), usual) for (model, task, _, _), points in found.items()]


def usual_shares(series: Iterable[Sequence[tuple[int, float]]]) -> tuple[float, ...]:
    """Shares accepted by K, from one to the most that was measured, of series that know one and that: their mean."""
    shares = [{k: acceptance_of(length, k) for k, length in points} for points in series]
    longest = max((max(each) for each in shares if 1 in each), default=0)
    whole = [each for each in shares if set(range(1, longest + 1)) <= set(each)]
    return tuple(float(np.mean([each[k] for each in whole])) for k in range(1, longest + 1))


def task_ratios(rows: Sequence[Measured]) -> Mapping[str, float]:
    """Drafted tokens that are accepted on each task over those on code, of models that were asked both   [1]."""
    found: dict[str, list[float]] = defaultdict(list)
    on_code = {(r.model, r.method, r.num_tokens, r.source): r for r in rows if r.task == CODING and not r.mode}
    for row in rows:
        code = on_code.get((row.model, row.method, row.num_tokens, row.source))
        if code is not None and not row.mode:
            found[row.task].append((row.accepted_length - 1) / (code.accepted_length - 1))
    return {task: float(np.mean(ratios)) for task, ratios in found.items()}


def on_task(
    series: Series, num_tokens: int, ratios: Mapping[str, float], task: str | None
) -> tuple[float, float, float]:
    """Low end, middle and high end of what a step yields on a task, or on any, by what it yields on another."""
    each = np.array([ratio for name, ratio in ratios.items() if name != EVERY_TASK])
    low, high = np.quantile(each, USUAL_TASKS)
    middle = ratios[EVERY_TASK]
    if task is not None and task in ratios:
        low, middle, high = (ratios[task] * (1 + sign * RUNS_DIFFER) for sign in (-1, 0, 1))
    of_series = 1.0 if series.task == CODING else ratios[EVERY_TASK]
    accepted = (series.at(num_tokens) - 1) / of_series
    return 1 + low * accepted, 1 + middle * accepted, 1 + high * accepted
