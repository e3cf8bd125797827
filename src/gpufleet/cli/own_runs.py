"""What a verb is told of runs of one's own beside their files: where they were taken, and what their columns are."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed
from gpufleet.cli.options import refuse_workload_file, words
from gpufleet.errors import UsageError
from gpufleet.questions.estimate import CopyQuestion
from gpufleet.questions.words import FileUse, words_of

COLUMN_OF = {
    "gpus": "gpu_id",
    "tp": "tp",
    "pp": "pp",
    "ep": "ep",
    "attention_dp": "attention_dp",
    "precision": "precision",
    "kv_precision": "kv_precision",
    "engine": "engine",
    "engine_version": "engine_version",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "gpu_memory_utilization": "gpu_memory_fraction",
}
"""Words that say of a run what its file does not, and the column of a measured row that each is."""

ColumnsOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--columns", metavar="IS=NAME,...", help="Columns of your own CSV by what they are: ttft_ms=first_token."
    ),
]
ModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model of results that do not say it: a name, a config.json, or the folder of one.",
        callback=refuse_workload_file,
    ),
    FileUse.MAYBE_READ,
]


def said_of(asked: Typed) -> dict[str, str]:
    """What was typed of runs, as the columns of a measured row."""
    from gpufleet.inputs.gpu_request import parse_gpus

    model = asked.words.text("model")
    typed = Typed(asked.words.without("model"), asked.preferred, asked.unsaid).request(CopyQuestion, model or "")
    fields = {name: words_of(CopyQuestion)[name].field for name in COLUMN_OF}
    values = {n: getattr(typed, f) for n, f in fields.items() if f in typed.said | typed.preferred}
    gpus = values.pop("gpus", None)
    found = {COLUMN_OF[name]: str(value) for name, value in values.items() if value is not None}
    if gpus is not None:
        request = parse_gpus(gpus)
        found |= {"gpu_id": request.name, "num_gpus": str(request.number)}
    return found | ({"model_id": model} if model else {})


def named_columns(texts: list[str]) -> dict[str, str]:
    """Columns of one's own by what they are: 'ttft_ms=first token'."""
    parts = [[part.strip() for part in text.partition("=")] for text in words(texts)]
    unreadable = next(("".join(part) for part in parts if not all(part)), None)
    if unreadable is not None:
        raise UsageError("--columns cannot be read", found=unreadable, expected="IS=NAME, such as ttft_ms=first_token")
    return {ours: theirs for ours, _, theirs in parts}
