"""The smallest GPU: the seeds' table beside what our memory count says of the same GPUs."""

from __future__ import annotations

from gpufleet.api import fit
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import OfferFilter, matching_offers, resolve_gpu
from gpufleet.compat.rules.gpus import SIZE_CATEGORIES, SizeCategory, size_category
from gpufleet.compat.rules.right_size import RIGHT_SIZES, RightSize, right_size
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, given
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.report.numbers import usd_per_hour
from gpufleet.results.fit import FitResult
from gpufleet.units import GB, GIGA

SOURCE = "GPU Selection Guide for RemoteMedia on AWS, 'Right-Size Your GPU'"
SPEECH = "speech models are not planned yet"
STANDS_FOR = {"Llama 7B (FP16)": "llama-2-7b", "Llama 13B (FP16)": "llama-2-13b"}
SEED_GPUS = {"T4": "T4", "A10G": "A10G", "V100": "V100-SXM2-16GB", "L4": "L4", "A100": "A100-40GB"}
SHOWN = ("T4", "A10G", "V100", "A100")
MOST_GPUS = 4
CLASS_EXAMPLES = {
    "GPT-2 Small": "gpt2", "DistilBERT": None, "GPT-2 Large": "gpt2-large", "BERT-Large": None, "GPT-J": "gpt-j-6b",
    "Llama-7B": "llama-7b", "Llama-65B": None, "GPT-3": "ft-gpt-175b", "GPT-4": None, "PaLM": None,
}  # fmt: skip


def right_size_answer(model: str | None = None, context_tokens: float = 2048) -> RuleAnswer:
    """The seeds' row of a model, or all rows, with our verdict on the GPUs that they name; then the size classes."""
    chosen = RIGHT_SIZES if model is None else (right_size(model),)
    rows = [row for entry in chosen for row in model_rows(entry, context_tokens)]
    tables = [RuleTable(title="model", rows=rows)]
    if model is None:
        tables.append(RuleTable(title="size class", rows=[class_row(category) for category in SIZE_CATEGORIES]))
    return RuleAnswer(
        rule="right-size",
        question="The smallest GPU for a model.",
        source=SOURCE,
        inputs=[given("context", f"{context_tokens:,.0f}", context_tokens != 2048)],
        tables=tables,
        differences=[
            "The seed's 14 and 26 GB are the weights alone. A T4 of 16 GB reports 15.0 GiB, and the engine and the KV "
            "cache of one user need their part of it.",
            "'Cheapest' is by the lowest on-demand price on AWS that is held here, for as many GPUs as it takes.",
            "The seed puts GPT-2 Large, BERT-Large, GPT-J and GPT-3 into classes that their parameters are outside of; "
            "its Llama-7B has 6.74B.",
        ],
        notes=[f"Whisper: {SPEECH}.", f"Ours: 16-bit weights, one user of {context_tokens:,.0f} tokens, vLLM."],
    )


def model_rows(entry: RightSize, context_tokens: float) -> list[RuleRow]:
    """Memory and GPU of one row; what the seed calls overkill stands under it."""
    shipped = STANDS_FOR.get(entry.model)
    row = RuleRow(
        name=entry.model,
        seed=f"{entry.least_vram_gb:g} GB, {entry.optimal_gpu}",
        ours_text=SPEECH if shipped is None else needed(shipped, context_tokens),
    )
    overkill = RuleRow(name="  overkill", seed=", ".join(entry.overkill))
    best = [] if shipped is None else [RuleRow(name="  cheapest", ours_text=cheapest(shipped, context_tokens))]
    return [row, *([overkill] if entry.overkill else []), *best]


def needed(model: str, context_tokens: float) -> str:
    """All that one GPU holds for one user, and which of the seed's GPUs hold it."""
    verdicts = {name: fits(model, SEED_GPUS[name], 1, context_tokens) for name in SHOWN}
    total = next(iter(verdicts.values())).total_bytes
    size = "unknown" if total is None else f"{total.value / GB:.1f} GB"
    held, not_held = ([name for name, found in verdicts.items() if found.fits is fits] for fits in (True, False))
    said = [f"on one {' or '.join(held)}" if held else "", f"not on one {' or '.join(not_held)}" if not_held else ""]
    return "; ".join([size, *filter(None, said)])


def fits(model: str, gpu: str, number: int, context_tokens: float) -> FitResult:
    """Whether one user fits."""
    return fit(model, f"{gpu}:{number}", context_tokens, batch=1)


def cheapest(model: str, context_tokens: float) -> str:
    """The cheapest of the seed's GPUs, and L4, that holds it."""
    tables = load_catalog()
    offers: dict[str, Offer] = {}
    for name, gpu in SEED_GPUS.items():
        number = next((n for n in range(1, MOST_GPUS + 1) if fits(model, gpu, n, context_tokens).fits), None)
        offer = None if number is None else cheapest_offer(tables, gpu, number)
        if offer is not None:
            offers[f"{number}x {name}"] = offer
    if not offers:
        return "none with a known price"
    best = min(offers, key=lambda label: offers[label].price_per_instance_usd_per_hour)
    return f"{best} on {offers[best].instance}, {usd_per_hour(offers[best].price_per_instance_usd_per_hour)}"


def cheapest_offer(tables: Catalog, gpu: str, number: int) -> Offer | None:
    """The cheapest machine on AWS, on demand, with at least so many."""
    wanted = OfferFilter(
        clouds=["aws"],
        accelerators={resolve_gpu(tables, gpu).accelerator.name},
        price_kinds={PriceKind.ON_DEMAND},
    )
    offers = [o for o in matching_offers(tables, wanted) if tables.instance_of(o).gpu_count >= number]
    return min(offers, key=lambda offer: offer.price_per_instance_usd_per_hour, default=None)


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
    parameters = num_parameters(shipped_architecture(shipped))
    return f"{example} {2 * parameters / GB:,.1f} GB in FP16 ({size_category(parameters / GIGA).name})"
