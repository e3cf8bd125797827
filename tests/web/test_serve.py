"""The command itself: what it refuses, who may ask it, and what its workers know of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.errors import UsageError
from gpufleet.web import serve
from gpufleet.web.replies import policy_with, styles_in
from gpufleet.web.workers import environment_of_workers

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_without_the_extra_it_says_how_to_install_it(ask_gpufleet: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "NEEDED", ("fastapi_of_nobody",))
    done = ask_gpufleet("serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'gpu-fleet-optimizer[web]'" in done.stderr


@pytest.mark.parametrize("words", [("--host", "300.1"), ("--host", "no host"), ("--token-file", "none")], ids=" ".join)
def test_what_cannot_be_served_is_one_message(ask_gpufleet: Run, words: tuple[str, ...]) -> None:
    done = ask_gpufleet("serve", "--port", "0", *words)
    assert done.returncode == 2
    assert done.stderr.count("gpufleet: error:") == 1


def test_a_token_is_made_where_it_is_wanted_and_has_128_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUFLEET_TOKEN", raising=False)
    assert serve.token_of(None, is_wanted=False) == (None, False)
    made, is_made = serve.token_of(None, is_wanted=True)
    assert is_made
    assert len(made or "") == 22


def test_a_token_comes_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("a" * 32 + "\n")
    monkeypatch.setenv("GPUFLEET_TOKEN", "b" * 32)
    assert serve.token_of(str(tmp_path / "token"), is_wanted=True) == ("a" * 32, False)
    assert serve.token_of(None, is_wanted=False) == ("b" * 32, False)


@pytest.mark.parametrize("text", ["", "short", "a" * 21, "a b" * 12, "\xe9" * 32])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        serve.token_of(str(tmp_path / "token"), is_wanted=True)


def test_workers_know_nothing_of_this_machine_unless_they_should(tmp_path: Path) -> None:
    own = {
        "GPUFLEET_TOKEN": "secret",
        "GPUFLEET_CLOUDS": "gcp",
        "GPUFLEET_PRICES": "/prices",
        "GPUFLEET_DATE": "2026-11-28",
    }
    (tmp_path / "gpufleet.toml").write_text('engine = "sglang"\ncatalog = "own"\n')
    alone = environment_of_workers({**own, "GPUFLEET_CONFIG": ""}, tmp_path, with_preferences=False)
    nothing = dict.fromkeys(("GPUFLEET_PRICES", "GPUFLEET_MODELS"), os.devnull)
    assert alone == {**nothing, "GPUFLEET_CONFIG": "", "GPUFLEET_DATE": "2026-11-28"}
    known = environment_of_workers({**own, "GPUFLEET_CONFIG": ""}, tmp_path, with_preferences=True)
    assert known["GPUFLEET_CLOUDS"] == "gcp"
    assert (known["GPUFLEET_ENGINE"], known["GPUFLEET_PRICES"]) == ("sglang", "/prices")
    assert os.path.isabs(known["GPUFLEET_CATALOG"])
    assert "GPUFLEET_TOKEN" not in known


def test_a_page_may_use_its_own_styles_alone() -> None:
    assert "style-src" not in policy_with([])
    assert policy_with(styles_in("<style>p{}</style>")).endswith(
        "style-src 'sha256-gG2yISYereRMiG2lMXrbiUgi0Ubw9p7QCeWcroOvy9Y='"
    )
