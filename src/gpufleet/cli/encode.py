"""`gpufleet encode`: how fast a model that is not a decoder is on given GPUs."""

from __future__ import annotations

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of
from gpufleet.cli.options import ExplainOption, ModelArgument, OutFileOption, OutputFormat, OutputOption, verb
from gpufleet.questions.encode import EncodeRequest

app = verb()


@app.command()
@asking(EncodeRequest)
def encode(
    asked: Typed,
    model: ModelArgument,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Latency and throughput of an encoder (BERT, T5, ViT, CLIP, Whisper) of text, images or audio."""
    from gpufleet.api.encoders import estimate_encoder
    from gpufleet.report.encoder import encoder_page, encoder_rows_page

    chosen = output or format_of(out_file)
    result = estimate_encoder(asked.request(EncodeRequest, model))
    page = encoder_rows_page(result) if chosen is OutputFormat.CSV else encoder_page(result, explain=explain)
    emit(result, page, output, out_file)
    return result.exit_code
