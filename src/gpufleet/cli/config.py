"""`gpufleet config`: what a user prefers when a command line does not say, and where each value is set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.cli.options import OutFileOption, OutputOption, verb

if TYPE_CHECKING:
    from gpufleet.results.setup import Settings

app = verb()


@app.command()
def config(output: OutputOption = None, out_file: OutFileOption = None) -> None:
    """Preferences with their origin: flag > environment > ./gpufleet.toml > your file > default."""
    from gpufleet.cli.emit import emit
    from gpufleet.report.setup import settings_page

    settings = settings_now()
    emit(settings, settings_page(settings), output, out_file)


def settings_now() -> Settings:
    """Every key as it holds here and now."""
    from gpufleet.inputs.preferences import KEYS, Preference, preference_files, preferences, unknown_variables
    from gpufleet.results.setup import Setting, Settings, SettingsFile

    found = preferences(os.environ, Path())
    rows = [
        Setting(key=key, value=p.text, origin=p.origin, says=about.says)
        for key, about in KEYS.items()
        for p in [found.get(key) or Preference(about.default, "default")]
    ]
    files = [SettingsFile(path=str(p), is_there=os.path.isfile(p)) for p in preference_files(os.environ, Path())]
    return Settings(settings=rows, files=files, notes=unknown_variables(os.environ))
