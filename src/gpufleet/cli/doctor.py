"""`gpufleet doctor`: what this installation has, and what is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpufleet.cli.options import OutFileOption, OutputOption, verb
from gpufleet.errors import DataMissing

app = verb()


@app.command()
def doctor(output: OutputOption = None, out_file: OutFileOption = None) -> int:
    """Python, packages, tables and their age, settings, terminal, GPU; exit code 5 when something is missing."""
    from gpufleet.api.installation import diagnose
    from gpufleet.catalog.current_date import current_date
    from gpufleet.cli.emit import emit, page_width
    from gpufleet.report.setup import diagnosis_page

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    diagnosis = diagnose(os.environ, Path(), current_date(), page_width(), is_terminal)
    emit(diagnosis, diagnosis_page(diagnosis), output, out_file)
    return 0 if diagnosis.is_healthy else DataMissing.exit_code
