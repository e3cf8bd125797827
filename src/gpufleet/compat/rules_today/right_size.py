"""The smallest GPU: the seeds' table beside what our memory count says of the same GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gpufleet.api import estimate_encoder, fit
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.compat.rules.gpus import SIZE_CATEGORIES, SizeCategory, size_category
from gpufleet.compat.rules.right_size import RIGHT_SIZES, RightSize, right_size
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, given
from gpufleet.compat.rules_today.questions import RightSizeQuestion
from gpufleet.compat.rules_today.stand_ins import checkpoint_bytes
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import DataMissing, Infeasible
from gpufleet.records import dataclass
from gpufleet.report.numbers import usd_per_hour
from gpufleet.units import GB, GIGA

SOURCE = "GPU Selection Guide for RemoteMedia on AWS, 'Right-Size Your GPU'"
STANDS_FOR = {"Llama 7B (FP16)": "llama-2-7b", "Llama 13B (FP16)": "llama-2-13b"}
SPEECH_STANDS_FOR = {
    "Whisper Tiny": "whisper-tiny", "Whisper Base": "whisper-base", "Whisper Small": "whisper-small",
    "Whisper Medium": "whisper-medium", "Whisper Large-v2": "whisper-large-v2", "Whisper Large-v3": "whisper-large-v3",
}  # fmt: skip
SPEECH_ENGINE, SPEECH_BEAMS, SPEECH_PRECISION = "openai-whisper", 5, "fp16"
SEED_GPUS = {"T4": "T4", "A10G": "A10G", "V100": "V100-SXM2-16GB", "A100": "A100-40GB"}
CLASS_EXAMPLES = {
    "GPT-2 Small": "gpt2", "DistilBERT": None, "GPT-2 Large": "gpt2-large", "BERT-Large": None, "GPT-J": "gpt-j-6b",
    "Llama-7B": "llama-7b", "Llama-65B": None, "GPT-3": "ft-gpt-175b", "GPT-4": None, "PaLM": None,
}  # fmt: skip


def right_size_answer(q: RightSizeQuestion) -> RuleAnswer:
    """The seeds' row of a model, or all rows, with our verdict on the GPUs that they name; then the size classes."""
    chosen = RIGHT_SIZES if q.model is None else (right_size(q.model),)
    rows = [row for entry in chosen for row in model_rows(entry, q.context_tokens)]
    tables = [RuleTable(title="model", rows=rows)]
    if q.model is None:
        tables.append(RuleTable(title="size class", rows=[class_row(category) for category in SIZE_CATEGORIES]))
    return RuleAnswer(
        rule="right-size",
        question="The smallest GPU for a model.",
        source=SOURCE,
        inputs=[given("context", f"{q.context_tokens:,.0f}", "context_tokens" in q.said)],
        tables=tables,
        differences=differences(chosen, with_classes=q.model is None),
        notes=notes(chosen, q.context_tokens),
    )


def has_decoder(chosen: Sequence[RightSize]) -> bool:
    """Whether a decoder of text is among them."""
    return any(entry.model in STANDS_FOR for entry in chosen)


def has_speech(chosen: Sequence[RightSize]) -> bool:
    """Whether a model of speech is among them."""
    return any(entry.model in SPEECH_STANDS_FOR for entry in chosen)


def notes(chosen: Sequence[RightSize], context_tokens: float) -> list[str]:
    """What our verdicts take for granted."""
    lines = []
    if has_decoder(chosen):
        lines.append(f"Ours: 16-bit weights, one user of {context_tokens:,.0f} tokens, vLLM.")
    if has_speech(chosen):
        lines.append(
            f"Ours of speech: {SPEECH_PRECISION} weights, one window of 30 s at a time, {SPEECH_BEAMS} beams, "
            f"{SPEECH_ENGINE}; 'gpufleet encode' says how fast."
        )
    return lines


def differences(chosen: Sequence[RightSize], with_classes: bool) -> list[str]:
    """Where our verdicts leave the table's, on what is shown."""
    lines = []
    if has_speech(chosen):
        lines.append("The seed's gigabytes of Whisper are what its README asks for; ours are of FP16 weights.")
    if has_decoder(chosen):
        lines += [
            "The seed's 14 and 26 GB are the weights alone. A T4 of 16 GB reports 15.0 GiB, and the engine and the KV "
            "cache of one user need their part of it.",
        ]
    lines.append("'Cheapest' is the machine of the lowest on-demand price on AWS that is held here, whatever its GPUs.")
    if with_classes:
        lines.append(
            "The seed puts GPT-2 Large, BERT-Large, GPT-J and GPT-3 into classes that their parameters are outside of; "
            "its Llama-7B has 6.74B."
        )
    return lines


@dataclass(frozen=True)
class Holding:
    """What a model takes on some GPUs, and whether they hold it."""

    fits: bool
    total_bytes: float | None


def model_rows(entry: RightSize, context_tokens: float) -> list[RuleRow]:
    """Memory and GPU of one row; what the seed calls overkill and what is cheapest stand under it."""
    row = RuleRow(
        name=entry.model,
        seed=f"{entry.least_vram_gb:g} GB, {entry.optimal_gpu}",
        ours_text=needed(entry, context_tokens),
    )
    overkill = RuleRow(name="  overkill", seed=", ".join(entry.overkill))
    best = RuleRow(name="  cheapest", ours_text=cheapest(entry, context_tokens))
    return [row, *([overkill] if entry.overkill else []), best]


def needed(entry: RightSize, context_tokens: float) -> str:
    """All that one GPU holds for one user, and which of the seed's GPUs hold it."""
    verdicts = {name: holding(entry, gpu, 1, context_tokens) for name, gpu in SEED_GPUS.items()}
    total = next(iter(verdicts.values())).total_bytes
    size = "unknown" if total is None else f"{total / GB:.1f} GB"
    held, not_held = ([name for name, found in verdicts.items() if found.fits is fits] for fits in (True, False))
    said = [f"on one {' or '.join(held)}" if held else "", f"not on one {' or '.join(not_held)}" if not_held else ""]
    return "; ".join([size, *filter(None, said)])


def holding(entry: RightSize, gpu: str, number: int, context_tokens: float) -> Holding:
    """Whether one user of a decoder, or one window of a speech model on each GPU, fits."""
    speech = SPEECH_STANDS_FOR.get(entry.model)
    if speech is None:
        found = fit(STANDS_FOR[entry.model], f"{gpu}:{number}", context_tokens, batch=1)
        return Holding(found.fits, None if found.total_bytes is None else found.total_bytes.value)
    heard = estimate_encoder(
        speech, (gpu, number), batch=1, beams=SPEECH_BEAMS, precision=SPEECH_PRECISION, engine=SPEECH_ENGINE
    )
    return Holding(heard.is_held, heard.memory_bytes.value)


def cheapest(entry: RightSize, context_tokens: float) -> str:
    """The cheapest machine on AWS, on demand, whose GPUs hold it; their fewest."""
    tables = load_catalog()
    wanted = OfferFilter(clouds=["aws"], price_kinds={PriceKind.ON_DEMAND})
    held = cache(lambda gpu, number: is_held(entry, gpu, number, context_tokens))
    for offer in sorted(matching_offers(tables, wanted), key=lambda offer: offer.price_per_instance_usd_per_hour):
        machine = tables.instance_of(offer)
        number = next((n for n in range(1, int(machine.gpu_count) + 1) if held(machine.accelerator, n)), None)
        if number is not None:
            price = usd_per_hour(offer.price_per_instance_usd_per_hour)
            return f"{number}x {machine.accelerator} on {machine.name}, {price}"
    return "none with a known price"


def is_held(entry: RightSize, gpu: str, number: int, context_tokens: float) -> bool:
    """Whether these GPUs hold it and our model can say so: not every device of a cloud has curves."""
    try:
        return holding(entry, gpu, number, context_tokens).fits
    except (DataMissing, Infeasible):
        return False


def class_row(category: SizeCategory) -> RuleRow:
    """A size class and the weights of its examples that ship here."""
    upper = f"{category.below_billions:g}B" if category.below_billions < float("inf") else "more"
    return RuleRow(
        name=f"{category.name}, {category.least_billions:g}-{upper}" if upper != "more" else f"{category.name}, 70B+",
        seed=f"{category.memory_fp16}, {category.memory_fp32}",
        ours_text="; ".join(filter(None, map(example_text, category.examples.split(", ")))) or "no example ships here",
    )


def example_text(example: str) -> str:
    """An example's weights, and its class where that is another."""
    shipped = CLASS_EXAMPLES[example]
    if shipped is None:
        return ""
    arch = shipped_architecture(shipped)
    category = size_category(num_parameters(arch) / GIGA)
    return f"{example} {checkpoint_bytes(arch, 'fp16') / GB:,.1f} GB in FP16 ({category.name})"
