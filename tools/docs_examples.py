"""Commands shown in README.md, docs/ and examples/: run them, compare output with what is shown, or rewrite it.

    python tools/docs_examples.py           list examples whose output is out of date
    python tools/docs_examples.py --write   put the real output in their place

An example is a ```console block with a line `$ gpufleet ...`, the output below it. A page may pipe a long answer
through `sed`, `grep` or `head`, which a shell runs. `# exit 3` after the command names an exit code other than 0. A
line `...` in the output stands for any lines. A command without output below it is run and only its exit code is
checked. Prices have the age that they had on the day of SHOWN_ON; nothing is normalised but how long an answer took:
`in 0.84 s`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from gpufleet.cli import main as answer
from gpufleet.report.numbers import show_money_in

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "examples")
PAGES = (REPOSITORY / "README.md", *(page for name in FOLDERS for page in sorted((REPOSITORY / name).rglob("*.md"))))
WORKED = tuple(page for page in PAGES if page.parent.name == "examples" and page.name[:2].isdigit())
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
EXIT_CODE = re.compile(r"\s+# exit (\d+)$")
REDIRECTED = re.compile(r"\s+2>(?P<to>/dev/null|&1)\s*$")
ASSIGNED = re.compile(r"^(?:[A-Z_]+=\S* )*")
ALONE = re.compile(r"""(?P<command>(?:'[^']*'|"[^"]*"|[^'"|&;<>])*)(?:\|(?P<pipe>.*))?""", re.DOTALL)
TIME_TAKEN = re.compile(r"\bin \d+(?:\.\d+)? s\b")
SHOWN_ON = "2026-11-22"
ELISION = "..."


@dataclass(frozen=True)
class Example:
    """One shown command: where its output stands in the page, and what is shown there."""

    page: Path
    line: int
    command: str
    exit_code: int
    start: int
    end: int
    shown: str

    @property
    def label(self) -> str:
        """Where to find it."""
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def examples_of(page: Path) -> list[Example]:
    """The gpufleet commands that a page shows, in its order."""
    text = page.read_text(encoding="utf-8")
    return [example for block in BLOCK.finditer(text) for example in examples_in(page, text, block)]


def examples_in(page: Path, text: str, block: re.Match[str]) -> Iterator[Example]:
    """The gpufleet commands of one console block."""
    prompts = list(PROMPT.finditer(text, block.start(1), block.end(1)))
    ends = [prompt.start() for prompt in prompts[1:]] + [block.end(1)]
    for prompt, end in zip(prompts, ends, strict=True):
        code = EXIT_CODE.search(prompt[1])
        command = EXIT_CODE.sub("", prompt[1]).replace("\\\n", " ")
        if ASSIGNED.sub("", command).split()[:1] == ["gpufleet"]:
            line = text.count("\n", 0, prompt.start()) + 1
            shown = text[prompt.end() : end]
            yield Example(page, line, command, int(code[1]) if code else 0, prompt.end(), end, shown)


def run_example(example: Example) -> tuple[int, str]:
    """Exit code and output of the command, run as by a reader with a pipe who stands at the top of a repository of his.

    Commands are answered in this process, which reads the tables once; a shell runs what is piped, and what is no
    plain chain of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        top = linked_in(Path(folder) / "top")
        environment = environment_with(installed_in(Path(folder)))
        chain = [one_of_a_chain(words) for words in example.command.split(" && ")]
        if None in chain:
            code, out, err = run_in_shell(example.command, environment, top)
            return code, out + err
        code, printed = 0, ""
        for command, pipe, hides_errors in filter(None, chain):
            code, out, err = answered_here(command, environment, top)
            if pipe:
                code, out, _ = run_in_shell(pipe, environment, top, out)
            printed += out if hides_errors else out + err
            if code:
                break
    return code, printed


def one_of_a_chain(words: str) -> tuple[str, str, bool] | None:
    """A command of ours, what it is piped through, and whether its errors are hidden; None: more than that."""
    redirected = REDIRECTED.search(words)
    alone = ALONE.fullmatch(REDIRECTED.sub("", words))
    if alone is None or "gpufleet" not in alone["command"].split():
        return None
    return alone["command"], alone["pipe"] or "", redirected is not None and redirected["to"] == "/dev/null"


def run_in_shell(line: str, environment: dict[str, str], folder: Path, given: str = "") -> tuple[int, str, str]:
    """Exit code and both streams of a line of shell that reads what is given."""
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def answered_here(command: str, environment: dict[str, str], folder: Path) -> tuple[int, str, str]:
    """Exit code and both streams of one command, with the variables that are assigned before it."""
    words = shlex.split(command)
    name = words.index("gpufleet")
    assigned = dict(word.split("=", 1) for word in words[:name])
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with (
        standing_in(folder),
        patch.dict(os.environ, {**environment, **assigned}, clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = answer(words[name + 1 :])
    show_money_in(None)
    return code, said(out), said(err)


@contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    """What is named by its path is looked for in the folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def said(stream: io.TextIOWrapper) -> str:
    """Everything that was written."""
    stream.seek(0)
    return stream.read()


def linked_in(folder: Path) -> Path:
    """The folder, with all that stands at the top of the repository: what an example writes there is gone with it."""
    folder.mkdir()
    for entry in REPOSITORY.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


def installed_in(folder: Path) -> Path:
    """The folder, with the command `gpufleet` of this interpreter in it."""
    command = folder / "gpufleet"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpufleet "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return folder


def environment_with(folder: Path) -> dict[str, str]:
    """The environment of a reader who has set nothing, on the day of the pages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUFLEET_")}
    path = os.pathsep.join([str(folder), kept.get("PATH", os.defpath)])
    own = {"GPUFLEET_CONFIG": "", "GPUFLEET_CACHE": "", "GPUFLEET_DATE": SHOWN_ON}
    return {**kept, "PATH": path, "NO_COLOR": "1", **own}


def agrees(shown: str, printed: str) -> bool:
    """Whether the shown output is what was printed; `...` lines stand for any lines."""
    if not shown.strip():
        return True
    parts = [re.escape(timeless(part)) for part in re.split(rf"^{re.escape(ELISION)}\n", shown, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*?".join(parts).rstrip("\\\n") + r"\s*", timeless(printed)) is not None


def timeless(text: str) -> str:
    """The text without what differs from run to run, and without spaces at line ends."""
    return "\n".join(line.rstrip() for line in TIME_TAKEN.sub("_", text).split("\n"))


def problem_of(example: Example) -> str | None:
    """What is wrong with an example, or None."""
    code, printed = run_example(example)
    if code != example.exit_code:
        return f"{example.label}: exit code {code}, the page says {example.exit_code}: {printed[-500:]}"
    if not agrees(example.shown, printed):
        return f"{example.label}: the output shown is not what is printed:\n{printed}"
    return None


def rewritten(page: Path) -> str:
    """The page with the real output of every command that ends as the page says; elided output stays elided."""
    text = page.read_text(encoding="utf-8")
    for example in reversed(examples_of(page)):
        code, printed = run_example(example)
        if code == example.exit_code and not agrees(example.shown, printed):
            text = text[: example.start] + refreshed(example.shown, printed) + text[example.end :]
    return text


def refreshed(shown: str, printed: str) -> str:
    """What was printed, of which the passages between `...` lines that are shown: from the same first line on.

    A passage keeps its number of paragraphs; one whose first line is not printed stays as it is.
    """
    if ELISION not in shown.splitlines():
        return printed
    passages = re.split(rf"^({re.escape(ELISION)}\n)", shown, flags=re.MULTILINE)
    return "".join(part if part in ("", f"{ELISION}\n") else passage_of(part, printed) for part in passages)


def passage_of(part: str, printed: str) -> str:
    """As many paragraphs of what was printed as `part` has, from its first line on."""
    shown, lines = part.strip("\n"), printed.splitlines()
    first = shown.split("\n", 1)[0]
    if first not in lines:
        return part
    found = "\n".join(lines[lines.index(first) :]).split("\n\n")
    return part.replace(shown, "\n\n".join(found[: len(shown.split("\n\n"))]).strip("\n"))


def main(write: bool) -> int:
    """Rewrite when asked, then name what is still wrong."""
    if write:
        for page in PAGES:
            page.write_text(rewritten(page), encoding="utf-8")
    problems = [problem for page in PAGES for example in examples_of(page) if (problem := problem_of(example))]
    print("\n".join(problems) or "Every example shows what is printed.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
