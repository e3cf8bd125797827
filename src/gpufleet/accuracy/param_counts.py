"""Scores parameter counts: exact numbers, from the row's own config or the model's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, one_line, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.architecture.encoder_parse import encoder_family_of, parse_encoder
from gpufleet.architecture.families import FAMILY_OF_CLASS
from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import is_shipped_encoder
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError
from gpufleet.files import is_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.provenance import Grade

PARAMS = Quantity("params", "params_exact", "parameters")
ACTIVE_PARAMS = Quantity("active_params", "active_params", "parameters")
CLASS_CALL = re.compile(r"(\w+)\((?:(\w+)Config\()?\*\*config_json")


def score_param_counts(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """Parameters, and those that serve one token, of one model."""
    compare = Comparison(RowLabels(file, row, group=row.text("kind") or "model"))
    wanted = stated(row, (PARAMS, ACTIVE_PARAMS))
    if not wanted:
        return RowScores(left_out="states no parameter count")
    try:
        counts = encoder_counts(row, models) or decoder_counts(row, models)
    except UsageError as refusal:
        return RowScores([compare.scored(quantity, one_line(refusal)) for quantity in wanted])
    return RowScores([compare.scored(quantity, exactly(counts[quantity])) for quantity in wanted])


def decoder_counts(row: MeasurementRow, models: ModelFinder) -> Mapping[Quantity, int]:
    """Parameters, and those that serve one token."""
    architecture = architecture_of(row, models)
    return {PARAMS: num_parameters(architecture), ACTIVE_PARAMS: num_active_parameters(architecture)}


def encoder_counts(row: MeasurementRow, models: ModelFinder) -> Mapping[Quantity, int] | None:
    """The same of a model that is not a decoder, all of whose parameters are active; None where it is one."""
    name, own_config = row.text("model_id", "model"), row.text("config_json")
    if own_config and not any(is_file(file) for file in models.own_configs(row.text("model"))):
        config = declared_config(own_config, row.text("how"))
        if encoder_family_of(config) is None:
            return None
        encoder = parse_encoder(config, row.text("model"))
    elif is_shipped_encoder(name):
        encoder = models.encoder_of(name)
    else:
        return None
    return dict.fromkeys((PARAMS, ACTIVE_PARAMS), num_encoder_parameters(encoder))


def exactly(count: int) -> Prediction:
    """A count has no range."""
    return Prediction(count, count, count, Grade.MEASURED.label)


def architecture_of(row: MeasurementRow, models: ModelFinder) -> Architecture:
    """A config of the user's, else the row's own config, else the model of that name."""
    name = row.text("model")
    own_config = row.text("config_json")
    if not own_config or any(is_file(file) for file in models.own_configs(name)):
        return models.of(row)
    try:
        return parse_architecture(declared_config(own_config, row.text("how")), name)
    except UsageError as refusal:
        return shipped_or(refusal, row, models)


def shipped_or(refusal: UsageError, row: MeasurementRow, models: ModelFinder) -> Architecture:
    """The shipped model of that name; where there is none, what was wrong with the row's own config."""
    try:
        return models.of(row)
    except UsageError:
        raise refusal from None


def declared_config(config_json: str, how: str) -> Mapping[str, object]:
    """A row's config, with the family that the class in `how` stands for where the config does not say.

    >>> declared_config('{"n_layers": 32}', "MptForCausalLM(MptConfig(**config_json)) on meta device")
    {'model_type': 'mpt', 'n_layers': 32}
    """
    config = parse_json(config_json, "config_json")
    if not isinstance(config, dict):
        raise UsageError("config_json is not one JSON object", found=config_json)
    return {**declared_family(how), **config}


def declared_family(how: str) -> Mapping[str, object]:
    """The model class where it is a known one, else the model_type that its config class spells."""
    call = CLASS_CALL.search(how)
    if call is None:
        return {}
    model_class, config_class = call.groups()
    if config_class is None:
        return {"_class_name": model_class}
    if model_class in FAMILY_OF_CLASS:
        return {"architectures": [model_class]}
    return {"model_type": re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", config_class).lower()}
