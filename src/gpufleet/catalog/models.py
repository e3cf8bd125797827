"""Shipped model configs and their names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gpufleet.architecture.encoder_parse import encoder_family_of, parse_encoder
from gpufleet.architecture.parse import TEXT_PART_ONLY, parse_architecture
from gpufleet.catalog.kept import kept
from gpufleet.catalog.load import toml_of
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.encoder import EncoderModel
from gpufleet.errors import UnknownName
from gpufleet.records import dataclass

HUB_SUFFIX = "-hf"  # converted to the hub's format: many leave it out
_FOLDER = Path(__file__).parent.parent / "data" / "architectures"


@dataclass(frozen=True)
class ModelName:
    """A shipped model that a name stands for; `is_text_part` when the name is that of a multimodal model."""

    id: str
    is_text_part: bool = False


def model_names() -> list[str]:
    """Ids of all shipped models, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def model_aliases() -> dict[str, ModelName]:
    """Every name that can be typed as it is written, hub ids included, to the model it stands for."""
    return {**dict(_listed_aliases()), **{n: ModelName(n) for n in model_names()}}


def resolve_model_name(name: str) -> ModelName:
    """The shipped model of a name or alias; case, spaces and underscores do not matter.

    >>> resolve_model_name("Llama 3.1 8B").id
    'llama-3.1-8b'
    """
    found = _names_by_folded().get(folded_name(name))
    if found is None:
        hint = "'gpufleet catalog models' lists the shipped names; a config.json file or its folder does as well."
        raise UnknownName("model", name, model_aliases(), hint=hint)
    return found


@lru_cache(maxsize=256)
def hub_id(name: str) -> str | None:
    """The hub id that a name is, or the first of the shipped model that it stands for; None where none is known.

    >>> hub_id("llama-3.1-8b"), hub_id("Llama-3.1-8B-Instruct")
    ('meta-llama/Llama-3.1-8B', 'meta-llama/Llama-3.1-8B-Instruct')
    """
    model = resolve_model_name(name)
    known = [alias for alias, named in _listed_aliases() if named.id == model.id and "/" in alias]
    folded = folded_name(name)
    own = (i for i in known if folded in names_of_hub_id(i))
    return next(own, known[0] if known else None)


@lru_cache(maxsize=256)
def names_of_hub_id(hub: str) -> frozenset[str]:
    """What people call a model of the hub: with and without its owner and the hub's suffix, folded.

    >>> sorted(names_of_hub_id("meta-llama/Llama-2-7b-hf"))
    ['llama-2-7b', 'llama-2-7b-hf', 'meta-llama/llama-2-7b', 'meta-llama/llama-2-7b-hf']
    """
    whole = {folded_name(hub), folded_name(hub.rpartition("/")[2])}
    return frozenset(whole | {name.removesuffix(HUB_SUFFIX) for name in whole})


def load_model_config(name: str) -> dict[str, object]:
    """The config of a shipped model by name or alias."""
    text = (_FOLDER / f"{resolve_model_name(name).id}.json").read_text(encoding="utf-8")
    config: dict[str, object] = json.loads(text)
    return config


@lru_cache(maxsize=256)
def shipped_architecture(name: str) -> Architecture:
    """The architecture of a shipped model by name or alias.

    >>> shipped_architecture("meta-llama/Llama-3.3-70B-Instruct").num_layers
    80
    """
    model = resolve_model_name(name)
    architecture = parse_architecture(load_model_config(model.id), model.id)
    read_as = [] if folded_name(name) == folded_name(model.id) else [f"{name} read as {model.id}, which has its shape"]
    text_only = [TEXT_PART_ONLY] if model.is_text_part else []
    return replace(architecture, notes=(*architecture.notes, *text_only, *read_as))


@lru_cache(maxsize=256)
def shipped_encoder(name: str) -> EncoderModel:
    """A shipped model that is not a decoder, by name or alias.

    >>> shipped_encoder("google-bert/bert-large-uncased").num_layers
    24
    """
    model = resolve_model_name(name)
    encoder = parse_encoder(load_model_config(model.id), model.id)
    read_as = [] if folded_name(name) == folded_name(model.id) else [f"{name} read as {model.id}, which has its shape"]
    return replace(encoder, notes=(*encoder.notes, *read_as))


def is_shipped_encoder(name: str) -> bool:
    """Whether a name is that of a shipped model that is not a decoder."""
    try:
        return encoder_family_of(load_model_config(name)) is not None
    except UnknownName:
        return False


def folded_name(name: str) -> str:
    """A name as it is compared.

    >>> folded_name(" Meta_Llama 3-8B ")
    'meta-llama-3-8b'
    """
    return re.sub(r"[\s_]+", "-", name.strip().casefold())


@lru_cache(maxsize=1)
def _names_by_folded() -> dict[str, ModelName]:
    names = {folded_name(alias): model for alias, model in _listed_aliases()}
    bare = {name.removesuffix(HUB_SUFFIX): model for name, model in names.items()}
    return {**bare, **names, **{folded_name(name): ModelName(name) for name in model_names()}}


@lru_cache(maxsize=1)
def _listed_aliases() -> tuple[tuple[str, ModelName], ...]:
    """Aliases of the table; the last part of a hub id is one too."""
    return kept("aliases", [_FOLDER / "aliases.toml"], None, _read_aliases)


def _read_aliases() -> tuple[tuple[str, ModelName], ...]:
    tables = toml_of(_FOLDER / "aliases.toml")
    return tuple(
        (name, ModelName(model, is_text_part=table == "text_model_only"))
        for table, models in tables.items()
        for model, aliases in models.items()
        for alias in aliases
        for name in dict.fromkeys((alias, alias.rpartition("/")[2]))
    )
