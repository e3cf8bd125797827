"""The command line under mistakes, closed pipes and full disks: one message, the right exit code, no traceback."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TOY_VERB = '''
import time
import typer
from typing import Annotated
from gpufleet.cli.emit import emit
from gpufleet.cli.options import OutFileOption, OutputOption, verb, verb_group
from gpufleet.errors import Infeasible
from gpufleet.report.page import Column, Page, Table

app = verb_group("Toys.")

@app.command()
def rows(rate: str = "1", count: int = 2, output: OutputOption = None, out_file: OutFileOption = None) -> None:
    """Print rows."""
    found = [{"n": i} for i in range(count)]
    emit(found, Page(tables=(Table((Column("n", "N"),), found),)), output, out_file)

@app.command()
def infeasible() -> None:
    raise Infeasible("no GPU is large enough", hint="Try int4.")

@app.command()
def broken() -> None:
    raise ZeroDivisionError("division by zero")

@app.command()
def wait() -> None:
    print("waiting", flush=True)
    time.sleep(60)
'''
START = """
import signal, sys
import gpufleet.table as verbs
signal.signal(signal.SIGINT, signal.default_int_handler)
verbs.VERBS = (*verbs.VERBS, verbs.Verb("toy", "toy_verb", "A toy."))
from gpufleet.cli import main
sys.exit(main())
"""


@pytest.fixture
def toy_command(tmp_path: Path) -> list[str]:
    """A command line whose verb `toy` does what tests need."""
    (tmp_path / "toy_verb.py").write_text(TOY_VERB, encoding="utf-8")
    (tmp_path / "start.py").write_text(START, encoding="utf-8")
    return [sys.executable, str(tmp_path / "start.py")]


@pytest.fixture
def toy(toy_command: list[str], tmp_path: Path) -> Run:
    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*toy_command, *words],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def assert_one_message(done: subprocess.CompletedProcess[str], code: int, *told: str) -> None:
    """Exit code, nothing on stdout, one line on stderr that says all of `told`."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("gpufleet: error: ")
    assert done.stderr.count("\n") == 1
    for part in told:
        assert part in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--versoin",), "Did you mean --version?"),
        (("nonsense",), "unknown verb 'nonsense'"),
        (("tyo",), "Did you mean toy?"),
        (("help", "tyo"), "Did you mean toy?"),
        (("\x1b[31m",), "unknown verb"),
        (("x" * 100_000,), "unknown verb"),
        (("",), "unknown verb"),
        (("toy", "--rows"), "'gpufleet toy' needs a verb; found '--rows'; expected rows, infeasible, broken or wait."),
        (("toy", "rosw"), "Did you mean rows?"),
        (("toy", "rows", "--ratee", "5"), "Did you mean --rate?"),
        (("toy", "rows", "--count", "two"), "cannot read --count; found 'two'; expected a whole number."),
        (("toy", "rows", "--count=nan"), "cannot read --count; found 'nan'; expected a whole number."),
        (("toy", "rows", "--count", "9" * 5000), "expected a whole number."),
        (("toy", "rows", "-oyaml"), "found 'yaml'; expected one of 'table', 'json', 'csv', 'md', 'html', 'svg'."),
        (
            ("toy", "rows", "--output=yaml"),
            "found 'yaml'; expected one of 'table', 'json', 'csv', 'md', 'html', 'svg'.",
        ),
        (("catalog", "gpus", "--limit", "0"), "cannot read --limit; found '0'; expected at least 1."),
        (("plan", "serve", "m", "--rows", "9999"), "cannot read --rows; found '9999'; expected"),
        (
            ("estimate", "llama-3.1-8b", "--gpus", "L4:1", "--in", "9", "--out", "9", "--rate", "1/s", "--tp", "1.5"),
            "--tp: cannot read a whole number; found '1.5'; expected one such as 2 or 10k.",
        ),
        (("catalog", "instances", "--min-gpus", "x"), "cannot read --min-gpus; found 'x'; expected a number."),
        (("toy", "rows", "--count"), "--count has no value"),
        (("toy", "rows", "-o", "jsn"), "'table', 'json', 'csv', 'md'"),
        (("toy", "rows", "surplus"), "a word too many; found 'surplus'"),
        (("fit",), "MODEL is missing; expected a name, or --owned MACHINES --all-models"),
        (("fit", "llama-3.1-8b"), "--gpus is missing; expected a GPU and how many, such as 'L40S:4'"),
        (
            ("fit", "llama-3.1-8b", "--gpus", "8"),
            "the GPU's name is missing; found '8'; expected a name before it, and a number from 1: H100:8",
        ),
        (
            ("estimate", "llama-3.1-8b", "--gpus", "L4", "--in", "9", "--out", "9"),
            "exactly one of --concurrency N, --rate",
        ),
        (("plan", "serve", "--rps", "50"), "unknown option '--rps'. Say it as --rate, such as 50/s."),
        (("fit", "llama-3.1-8b", "--users", "100"), "unknown option '--users'. Say it as --batch N."),
        (("estimate", "llama-3.1-8b", "--users", "100"), "unknown option '--users'. Say it as --concurrency N."),
        (("plan", "serve", "--model", "m"), "Say it as MODEL, a word without a flag before it."),
        (("plan", "llama-3.1-8b"), "unknown plan verb 'llama-3.1-8b'. 'gpufleet plan' has serve"),
        (("catalog", "prices", "--cloud", "amazon"), "Amazon's cloud is called aws here."),
    ],
)
def test_a_mistyped_command_line_gets_one_message(toy: Run, words: tuple[str, ...], told: str) -> None:
    assert_one_message(toy(*words), 2, told)


def test_a_question_without_an_answer_exits_3_with_its_hint(toy: Run) -> None:
    assert_one_message(toy("toy", "infeasible"), 3, "no GPU is large enough. Try int4.")


def test_our_bug_exits_1_and_shows_a_traceback_only_when_asked(toy: Run) -> None:
    assert_one_message(toy("toy", "broken"), 1, "this is our bug: ZeroDivisionError", "GPUFLEET_DEBUG=1")
    assert "Traceback" in toy("toy", "broken", GPUFLEET_DEBUG="1").stderr


def test_a_reader_that_leaves_early_is_no_error(toy_command: list[str], tmp_path: Path) -> None:
    producer = subprocess.Popen(
        [*toy_command, "toy", "rows", "--count", "200000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert producer.stdout is not None
    assert producer.stderr is not None
    producer.stdout.read(1)
    producer.stdout.close()
    with producer.stderr as complaints:
        assert complaints.read() == b""
    assert producer.wait(timeout=60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said(toy_command: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*toy_command, "toy", "rows"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "gpufleet: error: cannot write to standard output: No space left on device.\n"


CLASSIC = Path(__file__).resolve().parents[2] / "gpu-migration-analyzer"
LARGEST_FILE_BYTES = 4096


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        ("-m", "gpufleet", "catalog", "prices", "-o", "json"),
        ("-m", "gpufleet", "plan", "serve", "--help"),
        (str(CLASSIC / "gpu_migration_analyzer.py"), "--json", "--no-true-today"),
        (str(CLASSIC / "config_viewer.py"), "--plain"),
    ],
)
def test_an_answer_that_is_cut_short_never_ends_well(words: tuple[str, ...], unbuffered: str, tmp_path: Path) -> None:
    """A file may grow to its limit and no further, as on a disk that fills: the last write takes a part.

    Byte code would be cut short as well, and stay so for whoever reads it next.
    """
    with (tmp_path / "answer").open("w") as answer:
        done = subprocess.run(
            [sys.executable, *words],
            stdout=answer,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE_BYTES, LARGEST_FILE_BYTES)),
            text=True,
            check=False,
        )
    assert (tmp_path / "answer").stat().st_size == LARGEST_FILE_BYTES
    assert done.returncode == 2
    assert done.stderr.endswith("error: cannot write to standard output: File too large.\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("script", ["gpu_migration_analyzer.py", "config_viewer.py"])
def test_the_classic_tool_without_standard_output_is_no_crash(script: str) -> None:
    assert shell(f"{sys.executable} {CLASSIC / script} >&-; echo rc=$? >&2") == "rc=0\n"


def test_no_standard_output_at_all_is_no_crash(toy_command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *toy_command, "toy", "rows"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_control_c_stops_quietly_with_130(toy_command: list[str], tmp_path: Path) -> None:
    """The toy takes interrupts whoever starts it: a shell's background, and many a runner, have them ignored."""
    command, pipe = [*toy_command, "toy", "wait"], subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, complaints) == (130, "")


@pytest.mark.parametrize("target", ["missing/folder/a.csv", ".", "x" * 300])
def test_a_file_that_cannot_be_written_is_one_message(toy: Run, target: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    assert_one_message(toy("toy", "rows", "--out-file", target), 2, "cannot write", target[:50])
    assert [p for p in sorted(tmp_path.iterdir()) if p.name != "__pycache__"] == before


def test_a_file_is_written_whole_in_the_format_of_its_suffix(toy: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("an older answer", encoding="utf-8")
    done = toy("toy", "rows", "--out-file", "rows.csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "wrote rows.csv\n")
    assert (tmp_path / "rows.csv").read_bytes() == b"n\r\n0\r\n1\r\n"
    assert not list(tmp_path.glob(".rows.csv*"))


def test_a_link_is_followed_and_a_device_is_not_replaced(toy: Run, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("", encoding="utf-8")
    (tmp_path / "link.json").symlink_to("real.json")
    assert toy("toy", "rows", "--out-file", "link.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text(encoding="utf-8").startswith("[")
    assert toy("toy", "rows", "--out-file", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()


def test_a_terminal_that_knows_only_ascii_gets_question_marks(toy: Run) -> None:
    done = toy("toy", "ros\u2026w", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("columns", [40, 61, 132])
def test_a_table_is_never_wider_than_the_terminal(columns: int) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpufleet", "catalog", "gpus", "--gpu", "H100,L40S"], stdout=theirs, env=environment
    )
    os.close(theirs)
    shown = read_all(ours)
    assert process.wait(timeout=60) == 0
    assert "L40S" in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= columns


def read_all(terminal: int) -> str:
    """Everything a terminal was sent; Linux says with an error that the other side has gone."""
    chunks = []
    with contextlib.suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as stream:
        while chunk := stream.read(65536):
            chunks.append(chunk)
    return b"".join(chunks).decode()


def test_a_message_cannot_colour_the_terminal(toy: Run) -> None:
    assert "\x1b" not in toy("toy", "rows", "--out-file", "\x1b[31m/x").stderr


def test_a_remark_cannot_colour_the_terminal_either(toy: Run) -> None:
    assert toy("toy", "rows", "--out-file", "\x1b[31m\u202e.csv").stderr == "wrote ?[31m?.csv\n"


def test_piped_output_has_no_escape_codes(toy: Run) -> None:
    assert "\x1b" not in toy("toy", "rows", FORCE_COLOR="1", COLUMNS="300").stdout


@pytest.mark.parametrize(
    ("columns", "widest"),
    [
        ("", 80),
        ("0", 80),
        ("wide", 80),
        ("-5", 80),
        ("9" * 5000, 80),
        ("10", 40),
        ("61", 61),
        ("132", 132),
        ("9999", 200),
    ],
)
def test_piped_output_is_as_wide_as_columns_says_else_80(toy: Run, columns: str, widest: int) -> None:
    done = toy("catalog", "gpus", "--gpu", "H100,L40S", COLUMNS=columns)
    width = max(map(len, done.stdout.splitlines()))
    assert 0.6 * widest < width <= widest


def test_the_first_page_fits_a_terminal_of_80_columns(toy: Run) -> None:
    assert max(map(len, toy().stdout.splitlines())) <= 80


@pytest.mark.parametrize("words", ["--help", "fit --help", "plan serve -h", "catalog --help", "help estimate"])
def test_help_for_a_reader_who_has_left_or_a_full_disk(words: str) -> None:
    command = f"{sys.executable} -m gpufleet {words}"
    assert shell(f"({command}; echo rc=$? >&2) | true") == "rc=0\n"
    if Path("/dev/full").exists():
        full = "gpufleet: error: cannot write to standard output: No space left on device.\nrc=2\n"
        assert shell(f"{command} >/dev/full; echo rc=$? >&2") == full


@pytest.mark.parametrize("stderr", ["| true", ">/dev/null 2>/dev/full", ">/dev/null 2>&-"])
def test_an_error_that_nobody_hears_keeps_its_exit_code(stderr: str, tmp_path: Path) -> None:
    into = "2>&1 | true" if stderr == "| true" else stderr
    code = f"{tmp_path}/code"
    shell(f"({sys.executable} -m gpufleet fit x --gpus y; echo $? >{code}) {into}")
    assert Path(code).read_text(encoding="utf-8") == "2\n"


def shell(line: str) -> str:
    """What a shell line says on standard error; a reader gets time to leave before anybody writes."""
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    return done.stderr


@pytest.mark.parametrize("name", ["rows.yaml", "rows.xlsx", "rows.JSN", "folder/rows.htm"])
def test_a_suffix_that_names_no_format_is_refused_unless_the_format_is_said(
    toy: Run, name: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    assert_one_message(toy("toy", "rows", "--out-file", name), 2, ".csv, .md, .json, .html, .svg or .txt")
    assert not (tmp_path / name).exists()
    assert toy("toy", "rows", "--out-file", name, "-o", "json").returncode == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith("[")


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.TXT"])
def test_a_text_file_gets_the_table(toy: Run, name: str, tmp_path: Path) -> None:
    assert toy("toy", "rows", "--out-file", name).returncode == 0
    assert (tmp_path / name).read_text(encoding="utf-8").split() == ["N", "-", "0", "1"]
