"""Other clocks, under which the tests that may know what day it is are run."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tools import clocks
from tools.clocks import CLOCKS, MISSING, Clock, built_library, main, shifted

NOW = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)


def test_a_clock_shows_a_day_later_or_a_moment_of_its_place() -> None:
    assert str(Clock("later", later_days=1).moment(NOW)) == "2026-11-23 12:00:00+00:00"
    assert str(Clock("there", "Pacific/Apia", at="2027-01-05T00:30").moment(NOW)) == "2027-01-05 00:30:00+13:00"


def test_the_clocks_reach_a_leap_day_a_skipped_hour_and_a_day_ahead_of_utc() -> None:
    moments = {clock.name: clock.moment(NOW) for clock in CLOCKS}
    assert moments["29 February"].strftime("%m-%d") == "02-29"
    in_a_minute = datetime.fromtimestamp(moments["just before summer time begins"].timestamp() + 60, timezone.utc)
    here = in_a_minute.astimezone(moments["just before summer time begins"].tzinfo)
    assert here.hour - moments["just before summer time begins"].hour == 2
    ahead = moments["a day ahead of UTC"]
    assert ahead.date() > ahead.astimezone(timezone.utc).date()


def test_processes_that_the_tests_start_see_the_clock_too(tmp_path: Path) -> None:
    library = built_library(tmp_path)
    if library is None or not clocks.is_obeyed(library):
        pytest.skip(MISSING)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    asked = "import time, datetime; print(datetime.datetime.now().isoformat()[:13], time.localtime().tm_yday)"
    environment = shifted(Clock("leap", at="2028-02-29T12:00"), library)
    command = [sys.executable, "-c", code, asked]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2028-02-29T12 60\n"


def test_where_no_clock_can_be_shifted_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clocks.shutil, "which", lambda name: None)
    assert main([]) == 0
    assert capsys.readouterr().out == f"{MISSING}\n"
