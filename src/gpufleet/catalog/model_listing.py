"""The shipped models as a listing: exact parameter counts, names, and which configs no plan reads yet."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.catalog.models import (
    is_shipped_encoder,
    model_aliases,
    model_names,
    shipped_architecture,
    shipped_encoder,
)
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.encoder import EncoderModel
from gpufleet.errors import GpufleetError
from gpufleet.results.catalog import ModelListing, ModelRow

DECODER = "decoder"


def list_models() -> ModelListing:
    """Shipped architectures by name."""
    architectures, not_planned = read_all()
    aliases = aliases_by_model()
    rows = [model_row(arch, aliases.get(arch.name, [])) for arch in architectures.values()]
    rows += [encoder_row(model, aliases.get(model.name, [])) for model in read_encoders()]
    rows.sort(key=lambda row: row.name)
    return ModelListing(rows=rows, not_planned=dict(not_planned), notes=[], sources=[])


def read_encoders() -> list[EncoderModel]:
    """Shipped models that are not decoders."""
    return [shipped_encoder(name) for name in model_names() if is_shipped_encoder(name)]


def read_all() -> tuple[Mapping[str, Architecture], Mapping[str, str]]:
    """Decoders by name, and why the other shipped configs but encoders are not read."""
    architectures: dict[str, Architecture] = {}
    refused: dict[str, str] = {}
    for name in model_names():
        if is_shipped_encoder(name):
            continue
        try:
            architectures[name] = shipped_architecture(name)
        except GpufleetError as error:
            refused[name] = error.problem
    return architectures, refused


def aliases_by_model() -> dict[str, list[str]]:
    """Every other name of each model."""
    aliases: dict[str, list[str]] = {}
    for alias, model in sorted(model_aliases().items()):
        if alias != model.id:
            aliases.setdefault(model.id, []).append(alias)
    return aliases


def model_row(arch: Architecture, aliases: list[str]) -> ModelRow:
    """One architecture as listed."""
    return ModelRow(
        name=arch.name,
        kind=DECODER,
        family=arch.family,
        num_parameters=num_parameters(arch),
        num_active_parameters=num_active_parameters(arch),
        num_layers=arch.num_layers,
        max_context_tokens=arch.max_context_tokens,
        weight_format=arch.weights.name,
        aliases=aliases,
    )


def encoder_row(model: EncoderModel, aliases: list[str]) -> ModelRow:
    """One model that is not a decoder as listed; all of its parameters are active."""
    num_parameters = num_encoder_parameters(model)
    return ModelRow(
        name=model.name,
        kind=model.kind,
        family=model.family,
        num_parameters=num_parameters,
        num_active_parameters=num_parameters,
        num_layers=model.num_layers,
        max_context_tokens=model.max_tokens,
        weight_format=model.weights.name,
        aliases=aliases,
    )
