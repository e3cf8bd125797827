"""Hostile tries of the whole command: whatever is asked, an answer or one message.

    make fuzz TRIES=20000 SEED=1             many tries; says what share ended in which exit code
    python -m tests.hostile.fuzz --seed 1 --only 4711 --keep DIR    one of them again, its files in DIR

Every try begins with a valid question that is answered at once and changes a file, a word, an option or a variable.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import random
import re
import resource
import shlex
import signal
import socket
import sys
import tempfile
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.hostile.mutations import (
    FORMATS,
    HOSTILE,
    VARIABLES,
    every_option,
    with_option,
    with_other_file,
    with_other_word,
)
from tests.hostile.valid_questions import HERE, Question, valid_questions
from tools.docs_examples import standing_in

from gpufleet.cli import main
from gpufleet.cli.usage import NO_MEMORY

CODES = (0, 2, 3, 4, 5)
LONGEST_LINE, MOST_MEMORY_BYTES, MOST_CPU_S = 4_000, 1.5 * 2**30, 60.0
ALONE = {"GPUFLEET_CONFIG": "", "GPUFLEET_PRICES": os.devnull, "GPUFLEET_DATE": "2026-11-22"}
NO_NUMBER = re.compile(r"(?<![\w-])(?<!\"\+)(?:inf|nan)(?![\w-])", re.IGNORECASE)
"""But for the last bucket of a histogram of Prometheus: le="+Inf"."""
TOO_MANY_DIGITS = re.compile(r"\d{25}|\d(?:,\d{3}){8}")
BIDIRECTIONAL = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Outcome:
    """What one command said."""

    code: int
    out: str
    err: str


class Tries:
    """Tries by their number: each depends on the seed and on its number alone."""

    def __init__(self, seed: int, folder: Path):
        self.seed, self.folder, self.number = seed, folder, 0
        (folder / "plans").mkdir(parents=True, exist_ok=True)
        with quiet(), environment({}):
            self.questions = valid_questions(folder / "plans")
        self.options = every_option()

    def question(self, number: int) -> Question:
        """The hostile question of a number."""
        dice = random.Random(f"{self.seed}/{number}")
        question = dice.choice(self.questions[dice.choice([*self.questions, *["words"] * len(self.questions)])])
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            question = self.changed(question, dice)
        if question.words and dice.random() < 0.5:
            question = replace(question, words=(*question.words, "-o", dice.choice(FORMATS)))
        return self.offline(question)

    def changed(self, question: Question, dice: random.Random) -> Question:
        """One thing changed; where there are files, mostly one of them."""
        roll = dice.random()
        options = next((o for verb, o in self.options.items() if question.words[: len(verb)] == verb), None)
        if question.files and 0.05 < roll < 0.7:
            return replace(question, files=with_other_file(question.files, dice))
        if roll < 0.05:
            name, value = dice.choice(VARIABLES), dice.choice(HOSTILE).replace("\x00", "")
            return replace(question, environment={**question.environment, name: value})
        if options and dice.random() < 0.8:
            return replace(question, words=with_option(question.words, options, dice))
        return replace(question, words=with_other_word(question.words, dice))

    @staticmethod
    def offline(question: Question) -> Question:
        """Prices are never fetched: a cloud that nobody knows is asked for too."""
        if question.words[:2] == ("catalog", "update"):
            return replace(question, words=(*question.words, "--clouds", "nowhere"))
        return question

    def outcome(self, question: Question, folder: Path | None = None) -> Outcome:
        """What the command says, in a folder of its own with the question's files in it."""
        self.number += 1
        place = self.folder / f"try{self.number}" if folder is None else folder
        place.mkdir(parents=True)
        for name, text in question.files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(as_bytes(text))
        with standing_in(place), environment(question.environment, place):
            return run(list(question.words))


def as_bytes(text: str) -> bytes:
    """UTF-8; a lone surrogate below U+DD00 is the byte that it stands for, any other is written as if it were one."""
    return text.encode("utf-8", "surrogateescape" if not re.search("[\ud800-\udc7f]", text) else "surrogatepass")


def run(words: list[str]) -> Outcome:
    """One command in this process: its exit code and both of its streams."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limited_time():
        code = main(words)
    return Outcome(code, *(said(stream) for stream in (out, err)))


def said(stream: io.TextIOWrapper) -> str:
    """Everything that was written."""
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


def faults(question: Question, got: Outcome) -> list[str]:
    """What is wrong with an outcome."""
    found = [f"exit code {got.code}"] if got.code not in CODES else []
    found += message_faults(got) + control_faults(got)
    given = " ".join([*question.words, *question.files.values(), *question.environment.values()])
    if NO_NUMBER.search(got.out) and not NO_NUMBER.search(given):
        found.append(f"no number: {around(NO_NUMBER, got.out)}")
    if TOO_MANY_DIGITS.search(got.out) and not TOO_MANY_DIGITS.search(given):
        found.append(f"too many digits: {around(TOO_MANY_DIGITS, got.out)}")
    if got.code == 2 and got.out and question.words[:1] != ("demo",):  # which says its question before it asks
        found.append("an answer beside exit code 2")
    return found + form_faults(question, got)


def message_faults(got: Outcome) -> list[str]:
    """One message where there is no answer, none where there is one, and no traceback ever."""
    lines = got.err.splitlines()
    messages = [line for line in lines if line.startswith("gpufleet: error: ")]
    found = ["a traceback"] if "Traceback" in got.err or "our bug" in got.err else []
    found += ["more memory than anything needs"] if NO_MEMORY in got.err else []
    found += ["a warning of Python"] if re.search(r"\.py:\d+: \w*Warning", got.err) else []
    found += ["a line that is too long"] if any(len(line) > LONGEST_LINE for line in lines) else []
    if got.code == 2 or (got.code != 0 and not got.out and not got.err.startswith("wrote ")):
        found += [] if len(messages) == 1 else [f"{len(messages)} messages"]
    elif len(messages) > (got.code != 0):
        found.append(f"{len(messages)} messages beside an answer")
    return found


def control_faults(got: Outcome) -> list[str]:
    """Characters that move a cursor, ring a bell or turn the direction of what follows."""
    strange = {c for c in got.out + got.err if unicodedata.category(c) == "Cc" and c not in "\n\r\t"}
    strange |= BIDIRECTIONAL & set(got.out + got.err)
    return [f"control characters {sorted(map(ascii, strange))}"] if strange else []


def form_faults(question: Question, got: Outcome) -> list[str]:
    """An answer as JSON is strict JSON, one as CSV has rows of one length."""
    if not got.out or "--out-file" in " ".join(question.words) or "-h" in question.words or "--help" in question.words:
        return []
    try:
        if question.words[-2:] == ("-o", "json"):
            json.loads(got.out, parse_constant=refuse_constant)
        if question.words[-2:] == ("-o", "csv"):
            list(csv.reader(io.StringIO(got.out), strict=True))
    except (ValueError, csv.Error) as error:
        return [f"not {question.words[-1]}: {error}"]
    return []


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def around(form: re.Pattern[str], text: str) -> str:
    """What was found, and what stands around it."""
    found = form.search(text)
    return "" if found is None else ascii(text[max(found.start() - 60, 0) : found.end() + 20])[:200]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def environment(variables: Mapping[str, str], folder: Path | None = None) -> Iterator[None]:
    """The variables of a question alone: nobody's preferences, nobody's prices; HERE in them is its folder."""
    before = dict(os.environ)
    kept = {name: value for name, value in before.items() if not name.startswith(("GPUFLEET_", "XDG_", "COLUMNS"))}
    own = {name: value.replace(HERE, str(folder)) for name, value in variables.items()}
    try:
        os.environ.clear()
        os.environ.update({**kept, **ALONE, **own})
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    """A question that takes a minute of the processor hangs."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {MOST_CPU_S:g} s of the processor")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """So much more than what is held now, and a question fails."""
    now = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if sys.platform == "linux" else 0
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if now:
        resource.setrlimit(resource.RLIMIT_AS, (int(now + MOST_MEMORY_BYTES), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@dataclass
class Report:
    """What came of many tries."""

    codes: Counter[int]
    failures: dict[int, tuple[Question, Outcome, list[str]]]

    @property
    def shares(self) -> dict[int, float]:
        """The share of tries that ended in each exit code."""
        return {code: count / self.codes.total() for code, count in sorted(self.codes.items())}

    def told(self, seed: int) -> str:
        """The failures, each with the line that repeats it."""
        return "\n".join(
            f"{'; '.join(wrong)}\n  {command(question)}\n  {ascii(got.err.strip())[:400]}\n"
            f"  again: python -m tests.hostile.fuzz --seed {seed} --only {number} --keep DIR"
            for number, (question, got, wrong) in self.failures.items()
        )


def command(question: Question) -> str:
    """The question as a shell takes it."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in question.environment.items()]
    words = [shlex.quote(word if len(word) < 200 else f"{word[:80]}...({len(word):,})") for word in question.words]
    return ascii(" ".join([*variables, "gpufleet", *words]))[1:-1]


def tried(tries: Tries, numbers: Sequence[int], on_try: Callable[[int], None] = lambda _: None) -> Report:
    """Ask the questions of these numbers."""
    report = Report(Counter(), {})
    with limited_memory():
        for number in numbers:
            question = tries.question(number)
            got = tries.outcome(question)
            report.codes[got.code] += 1
            wrong = faults(question, got)
            if wrong:
                report.failures[number] = (question, got, wrong)
            on_try(number)
    return report


def offline(*_: object) -> None:
    raise OSError("no network here")


def kept(tries: Tries, number: int, folder: Path) -> str:
    """Ask one question again, its files in a folder that stays."""
    question = tries.question(number)
    got = tries.outcome(question, folder)
    shown = [
        f"cd {folder}; {command(question).replace(HERE, str(folder))}",
        f"exit code {got.code}",
        ascii(got.err),
        got.out[:2000],
    ]
    return "\n".join([*shown, *faults(question, got)])


def told_command() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one try again")
    parser.add_argument("--keep", type=Path, help="where the files of that try go")
    asked = parser.parse_args()
    warnings.simplefilter("error")
    socket.socket.connect = offline  # type: ignore[method-assign,assignment]
    with tempfile.TemporaryDirectory() as folder:
        tries = Tries(asked.seed, Path(folder))
        if asked.only is not None:
            print(kept(tries, asked.only, asked.keep or Path(folder) / "only"))
            return 0
        numbers = range(asked.first, asked.first + asked.tries)
        report = tried(tries, numbers, lambda n: print(f"{n:,}", file=sys.stderr) if not n % 1000 else None)
        print(report.told(asked.seed))
        shares = ", ".join(f"{code}: {share:.1%}" for code, share in report.shares.items())
        print(f"{asked.tries:,} tries of seed {asked.seed}, {len(report.failures)} failed. Exit codes: {shares}.")
        return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(told_command())
