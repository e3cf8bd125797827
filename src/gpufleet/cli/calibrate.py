"""`gpufleet calibrate`: your own runs as factors on what is predicted of your engine on your GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.options import Written, verb
from gpufleet.cli.own_runs import COLUMN_OF, ColumnsOption, ModelOption, named_columns, said_of
from gpufleet.questions.estimate import CopyQuestion
from gpufleet.questions.words import FileUse

app = verb()

FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Results of a benchmark of one engine on one GPU, as 'gpufleet accuracy' reads them, or a folder of them.",
    ),
    FileUse.READ,
]
SaveOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--save", metavar="OUT.toml", help="Keep the factors in a file, for --calibration of questions."),
    FileUse.WRITTEN,
]


@app.command(cls=GroupedCommand)
@asking(CopyQuestion, model=ModelOption, only=tuple(COLUMN_OF))
def calibrate(
    asked: Typed,
    *,
    file: FilesArgument,
    columns: ColumnsOption = None,
    save: SaveOption = None,
    written: Written,
) -> int:
    """What your own runs say of your engine on your GPU, held to how far such stacks differ from what is predicted.

    What is learnt of one model moves another only by what models of a stack share. Ranges narrow as far as runs allow.
    """
    from gpufleet.accuracy.own_stack.find import calibrate_stack
    from gpufleet.accuracy.own_stack.page import stack_page
    from gpufleet.cli.emit import emit, refuse_targets, write_whole
    from gpufleet.report.output_stream import remark

    refuse_targets([save, None if written.out_file == "-" else written.out_file], file)
    found = calibrate_stack(file, said=said_of(asked), columns=named_columns(columns or []))
    if save is not None:
        write_whole(Path(save), found.toml)
        found = found.model_copy(update={"saved": save})
        remark(f"wrote {save}")
    emit(found, stack_page(found), written.output, written.out_file)
    return 0
