"""What `gpufleet plan` answers about a model that is not a decoder: flags parsed, and put to the api."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.catalog.models import is_shipped_encoder
from gpufleet.cli.options import answer_tokens
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError, named
from gpufleet.inputs.model_config import is_encoder
from gpufleet.inputs.slo import parse_slo
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.inputs.workload import WorkloadFile
from gpufleet.questions.fields import EncoderServeRequest, ServeRequest, words_of

SERVED, ENCODED = words_of(ServeRequest), words_of(EncoderServeRequest)
OF_DECODERS = sorted(
    (row for name, row in SERVED.items() if name == "trace" or name not in ENCODED), key=lambda row: not row.is_in_files
)
OF_ENCODERS = [row for name, row in ENCODED.items() if name not in SERVED]
OF_AUDIO = "They are of speech and encoder-decoder models: Whisper, wav2vec, T5."
LATENCY = "latency"
NO_FLAGS: Mapping[str, bool] = {}


def asks_encoder(model: str) -> bool:
    """Whether a model is not a decoder."""
    return is_encoder(model, is_shipped_encoder)


def refuse_encoder(model: str) -> None:
    """Refuse an encoder where only decoders are planned, and say what plans it."""
    if asks_encoder(model):
        problem = f"{model} is not a decoder: it is neither compared nor planned together with other models"
        by_itself = f"'gpufleet plan serve {model} --rate 100/s --gpus L4', or 'plan batch'"
        raise UsageError(problem, hint=f"Plan it by itself, once for each set of GPUs: {by_itself}.")


def refuse_of_encoders(asked: WorkloadFile) -> None:
    """Refuse what only encoders have, where the model is a decoder."""
    said = [row.as_asked for row in OF_ENCODERS if row.name in asked.words]
    if said:
        raise UsageError(f"{asked.model} is a decoder: {', '.join(said)} do not apply to it", hint=OF_AUDIO)


def refuse_of_decoders(asked: WorkloadFile, flags: Mapping[str, bool] = NO_FLAGS) -> None:
    """Refuse what only decoders have; `flags` are those beside the words of a workload file, and whether they stand."""
    said = [row.as_asked for row in OF_DECODERS if row.name in asked.words]
    said += ["classes"] if asked.classes is not None else []
    said += [flag for flag, stands in flags.items() if stands]
    if said:
        problem = f"{asked.model} is not a decoder: {', '.join(said)} do not apply to it"
        raise UsageError(problem, hint="It reads each input in one pass, with no KV cache; leave them out.")


def without_serving(liked: WorkloadFile) -> WorkloadFile:
    """Preferences but for those that only decoders have: serving engines, and objectives of tokens."""
    slo = liked.text("slo")
    is_latency = slo is not None and all(limit.metric == LATENCY for limit in parse_slo(slo).limits)
    return liked.without("engine") if is_latency else liked.without("engine", "slo")


def one_length(text: str | None) -> float | None:
    """Tokens of every text; counts that differ are refused."""
    if text is None:
        return None
    with named("--in"):
        counts = parse_token_counts(text)
    if isinstance(counts, TokenCounts) and not counts.is_alike:
        expected = "one number: the mean where texts are sorted by length, the longest where batches are padded to it"
        raise UsageError("lengths of texts that differ are not planned for encoders", found=text, expected=expected)
    return counts.mean if isinstance(counts, TokenCounts) else counts


def written_tokens(text: str | None) -> float | None:
    """Tokens that a decoder writes for each input."""
    return None if text is None else answer_tokens(text)
