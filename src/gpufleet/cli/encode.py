"""`gpufleet encode`: how fast a model that is not a decoder is on given GPUs."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of
from gpufleet.cli.options import (
    ExplainOption,
    ModelArgument,
    OutFileOption,
    OutputFormat,
    OutputOption,
    answer_tokens,
    verb,
)

app = verb()

GpusOption = Annotated[str, typer.Option("--gpus", metavar="NAME:N", help="GPU and how many copies, such as T4:2.")]
InOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--in", metavar="TOKENS", help="Tokens of a text: 128, 512."),
]
AudioOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--audio", metavar="TIME", help="Length of a recording: 10s, 30min, 1h."),
]
OutOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--out", metavar="TOKENS", help="Tokens that a decoder writes for each input (T5, Whisper)."),
]
BatchOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--batch", metavar="N", help="Inputs in a batch; default: as few as reach 97 % of the best throughput."
    ),
]
BeamsOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--beams", metavar="N", help="Hypotheses that a decoder keeps; default: as many as the engine keeps, 1 or 5."
    ),
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--precision", metavar="NAME", help="fp32, tf32, fp16, bf16, int8; default: the checkpoint's own."),
]
EngineOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--engine",
        metavar="NAME",
        help="text-embeddings-inference, infinity, vllm, faster-whisper, transformers, ...; default: the usual one.",
    ),
]


@app.command()
def encode(
    model: ModelArgument,
    gpus: GpusOption,
    input_tokens: InOption = None,
    audio: AudioOption = None,
    output_tokens: OutOption = None,
    batch: BatchOption = None,
    beams: BeamsOption = None,
    precision: PrecisionOption = None,
    engine: EngineOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Latency and throughput of an encoder (BERT, T5, ViT, CLIP, Whisper) of text, images or audio."""
    from gpufleet.api.encoders import estimate_encoder
    from gpufleet.cli.encoder_answers import audio_seconds
    from gpufleet.report.encoder import encoder_page, encoder_rows_page
    from gpufleet.units import parse_count, parse_tokens

    chosen = output or format_of(out_file)
    result = estimate_encoder(
        model,
        gpus,
        input_tokens=None if input_tokens is None else parse_tokens(input_tokens),
        output_tokens=None if output_tokens is None else answer_tokens(output_tokens),
        audio_s=audio_seconds(audio),
        batch=None if batch is None else parse_count(batch),
        beams=beams,
        precision=precision,
        engine=engine,
    )
    page = encoder_rows_page(result) if chosen is OutputFormat.CSV else encoder_page(result, explain=explain)
    emit(result, page, output, out_file)
    return result.exit_code
