"""One model as a page of 80 columns: what is special, parts, layers, and costs by context."""

from __future__ import annotations

from gpufleet import units
from gpufleet.report.catalog_pages import billions, number
from gpufleet.report.numbers import count, percent, significant
from gpufleet.report.page import Column, Page, Table
from gpufleet.results.model_explained import ModelExplained


def explained_page(model: ModelExplained) -> Page:
    """The headline counts; the tables say where they come from."""
    size = f"{model.checkpoint_bytes / units.GIB:,.1f} GiB in {model.weight_format}"
    active = f", {billions(model.num_active_parameters)} active" if _has_idle(model) else ""
    headline = f"{model.name} ({model.family}): {billions(model.num_parameters)} parameters{active}, {size}"
    return Page(headline, [_parts(model), _layers(model), _contexts(model)], _notes(model), model.special)


def _has_idle(model: ModelExplained) -> bool:
    return model.num_active_parameters < model.num_parameters


def _parts(model: ModelExplained) -> Table:
    columns = [
        Column("part", "part"),
        number("num_parameters", "parameters", lambda value: f"{value:,}"),
        number("share_ratio", "share", percent),
        number("checkpoint_bytes", "GiB", _gib),
        Column("precision", "kept in", priority=1),
    ]
    return Table(columns, [part.model_dump() for part in model.parts], "Parts")


def _layers(model: ModelExplained) -> Table:
    columns = [
        number("count", "layers", count),
        number("kv_bytes_per_token", "KV B/token", _plain),
        number("state_bytes", "state MiB", lambda value: significant(value / units.MIB)),
        Column("mixer", "token mixer", wraps=True),
        Column("feed_forward", "then", priority=1, below=True),
    ]
    return Table(columns, [kind.model_dump() for kind in model.layers], "Layers, each (KV in bf16)")


def _contexts(model: ModelExplained) -> Table:
    columns = [
        number("context_tokens", "context", count),
        number("kv_bytes", "a sequence holds GiB", _gib),
        number("prefill_flop", "to read it TFLOP", lambda value: significant(value / units.TERA)),
        number("decode_flop", "one more token GFLOP", lambda value: significant(value / units.GIGA)),
    ]
    return Table(columns, [context.model_dump() for context in model.contexts], "One sequence (KV in bf16)")


def _notes(model: ModelExplained) -> list[str]:
    vision = model.vision
    images = (
        [
            f"An image of 1,024 x 1,024 pixels becomes {vision.image_tokens:,.0f} tokens and takes "
            f"{significant(vision.image_flop / units.TERA)} TFLOP in the vision tower."
        ]
        if vision
        else []
    )
    return [f"Trained for {model.max_context_tokens:,} tokens.", *images, *(f"{note}." for note in model.notes)]


def _plain(value: float) -> str:
    return f"{value:,.0f}"


def _gib(value: float) -> str:
    return significant(value / units.GIB)
