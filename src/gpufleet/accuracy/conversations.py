"""Which prompts of a trace go on with a conversation: speakers take turns, and each sends all that was said before."""

from __future__ import annotations

from collections import deque

import numpy as np

from gpufleet.domain.arrays import IntArray

NO_TURN = -1


def turns_before(prompts: IntArray, answers: IntArray) -> IntArray:
    """For each prompt the one before it in its conversation, NO_TURN where it begins one.

    As few speakers as explain every prompt: those who begin speak once each, then again in this order. One whose turn
    comes and whose history, prompt and answer, is longer than the prompt that comes has said all that they had to say.

    >>> turns_before(np.array([50, 40, 30, 90, 45, 120]), np.array([30, 20, 10, 20, 5, 9])).tolist()
    [-1, -1, -1, 0, 2, 3]
    """
    for speakers in range(1, len(prompts) // 2 + 1):
        before = turns_of(speakers, prompts, answers)
        if before is not None:
            return before
    return np.full(len(prompts), NO_TURN)


def turns_of(speakers: int, prompts: IntArray, answers: IntArray) -> IntArray | None:
    """The same for a number of speakers; None where a prompt goes on with nothing that one of them said."""
    before = np.full(len(prompts), NO_TURN)
    last = deque(range(speakers))
    for turn in range(speakers, len(prompts)):
        while last and prompts[turn] < prompts[last[0]] + answers[last[0]]:
            last.popleft()
        if not last:
            return None
        before[turn] = last.popleft()
        last.append(turn)
    return before
