"""Every file and every variable that a user sets, poisoned: one message and an exit code that is not our bug's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.cli import main

LONGEST_MESSAGE = 1000
FIT = ("fit", "llama-3.1-8b", "--gpus", "L4")
SERVE = ("plan", "serve", "llama-3.1-8b", "--rate", "1/s", "--in", "100", "--out", "50")
NAMES = {
    "a name too long": "x" * 300,
    "a path too long": "x/" * 3000 + "x",
    "the home of nobody": "~nobody-of-that-name/x",
    "below a file": "plain/x",
    "a link to itself": "loop",
    "a link to nothing": "dangling",
    "a device": "/dev/zero",
    "a pipe": "pipe",
    "a folder": "folder",
}
NOTHING_READ = [name for name in NAMES if name != "a folder"]
TOML = {
    "a number of 5,000 digits": b"x = " + b"9" * 5000,
    "a number of 5,000 hexadecimal digits": b"x = 0x" + b"9" * 5000,
    "lists without end": b"x = " + b"[" * 100_000,
    "tables without end": b".".join([b"x"] * 5_000) + b" = 1",
    "NUL bytes": b"\0" * 50,
    "no UTF-8": b'x = "\xff"',
}
Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Exit code and message of a command line in a folder of odd files."""
    (tmp_path / "plain").write_text("", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere/at/all")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **environment: str) -> tuple[int, str]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(words)
        message = capsys.readouterr().err
        assert message.count("\n") <= 1
        assert len(message) <= LONGEST_MESSAGE
        assert "our bug" not in message
        return code, message

    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_path_that_leads_nowhere_is_one_message_wherever_a_file_is_named(said: Said, name: str) -> None:
    path = NAMES[name]
    for words in (
        ("fit", f"./{path}" if path[0] not in "/~" else path, "--gpus", "L4"),
        ("explain", path),
        ("plan", "serve", "--workload", path),
        ("plan", "serve", "llama-3.1-8b", "--rate", "1/s", "--trace", path),
        ("accuracy", path),
        (*SERVE, "--seed-config", path),
    ):
        assert said(*words)[0] in (2, 5), words


@pytest.mark.parametrize("name", NOTHING_READ)
def test_a_folder_that_is_none_is_one_message_wherever_a_folder_is_named(said: Said, name: str) -> None:
    path = NAMES[name]
    assert said("catalog", "gpus", "--catalog", path)[0] == 2
    assert said("catalog", "gpus", GPUFLEET_CATALOG=path)[0] == 2
    assert said("config", GPUFLEET_CONFIG=path)[0] == 2
    assert said("accuracy", "plain", "--models", path)[0] == 2


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"])
@pytest.mark.parametrize("name", NAMES)
def test_a_home_that_is_none_holds_no_settings(
    said: Said, name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable == "HOME":
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for words in (("config",), FIT):
        assert said(*words, **{variable: NAMES[name]}) == (0, "")


@pytest.mark.parametrize("content", TOML)
def test_settings_that_are_no_toml_are_one_message(said: Said, content: str) -> None:
    Path("gpufleet.toml").write_bytes(TOML[content])
    assert said(*FIT)[0] == 2
    Path("gpufleet.toml").rename("mine.toml")
    assert said("config", GPUFLEET_CONFIG="mine.toml")[0] == 2


@pytest.mark.parametrize("path", ["x/" * 3000, "~nobody-of-that-name/x", "a\0b"], ids=["long", "nobody's", "NUL"])
def test_a_folder_of_tables_in_the_settings_is_looked_for_like_any_other(said: Said, path: str) -> None:
    Path("gpufleet.toml").write_text(f"catalog = {json.dumps(path)}", encoding="utf-8")
    assert said(*FIT)[0] == 2


@pytest.mark.parametrize("table", ["sources.toml", "gpu_aliases.toml", "owned.toml", "accelerators/x.toml"])
@pytest.mark.parametrize("content", TOML)
def test_tables_of_ones_own_that_are_no_toml_are_one_message(said: Said, table: str, content: str) -> None:
    place = Path("folder", table)
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(TOML[content])
    code, message = said("catalog", "gpus", "--catalog", "folder")
    assert code == 2
    assert place.name in message


@pytest.mark.parametrize("table", ["sources.toml", "quotas.csv", "offers/x.csv", "accelerators/x.toml"])
@pytest.mark.parametrize("target", ["loop", "dangling", "pipe", "folder"])
def test_a_table_that_cannot_be_opened_is_not_taken_for_an_empty_one(said: Said, table: str, target: str) -> None:
    place = Path("own", table)
    place.parent.mkdir(parents=True)
    place.symlink_to(Path(target).absolute())
    if target != "folder" or table != "offers/x.csv":
        assert said("catalog", "gpus", "--catalog", "own")[0] == 2


@pytest.mark.parametrize("name", ["a name too long", "a path too long", "below a file", "a folder"])
def test_an_answer_that_cannot_be_written_there_is_one_message(said: Said, name: str) -> None:
    for target in (NAMES[name], f"{NAMES[name]}\0"):
        assert said("catalog", "gpus", "-o", "json", "--out-file", target)[0] == 2
        assert said("accuracy", "plain", "--rows", target)[0] == 2
        assert said(*SERVE, "--picture", f"{target}/none/x.svg")[0] == 2


def test_a_folder_that_was_removed_under_the_command_is_one_message(said: Said) -> None:
    gone = Path("gone")
    gone.mkdir()
    os.chdir(gone)
    Path("../gone").rmdir()
    for words in (
        ("catalog", "gpus", "--out-file", "x.json"),
        ("accuracy", "x.csv", "--rows", "y.csv"),
        ("explain", "x"),
    ):
        assert said(*words)[0] == 2
    assert said(*FIT) == (0, "")


@pytest.mark.parametrize("asked", ["", "x", "complete_", "bash_complete", "complete_tcsh", "\x1b", "9" * 5000])
def test_a_question_that_no_shell_asks_is_one_message(said: Said, asked: str) -> None:
    assert said(_GPUFLEET_COMPLETE=asked)[0] == 2


@pytest.mark.parametrize("number", ["", "x", "-1", "9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}"])
def test_a_word_without_a_number_is_one_message(said: Said, number: str) -> None:
    assert said(_GPUFLEET_COMPLETE="complete_bash", COMP_WORDS="gpufleet fit", COMP_CWORD=number)[0] == 2


@pytest.mark.parametrize("price", ["5e-324", "1e-308/0"])
def test_a_price_of_tokens_that_rounds_to_nothing_is_one_message(said: Said, price: str) -> None:
    assert said(*SERVE, "--token-price", price)[0] == 2


@pytest.mark.parametrize("tokens", ["1e-308", "5e-324", "0.001"])
@pytest.mark.parametrize("option", ["--in", "--out"])
def test_less_than_a_token_is_no_length(said: Said, option: str, tokens: str) -> None:
    for words in (SERVE, ("estimate", "llama-3.1-8b", "--gpus", "L4", "--rate", "1/s", "--in", "100", "--out", "50")):
        asked = [*words]
        asked[asked.index(option) + 1] = tokens
        code, message = said(*asked)
        assert (code, "from 1 to" in message) == (2, True)
