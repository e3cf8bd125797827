"""Shipped model configs and their names."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gpufleet.architecture.encoder_parse import encoder_family_of, parse_encoder
from gpufleet.architecture.parse import TEXT_PART_ONLY, parse_architecture
from gpufleet.catalog.kept import kept
from gpufleet.catalog.stored_formats import StoredFormat, split_name
from gpufleet.catalog.table_files import toml_of
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.encoder import EncoderModel
from gpufleet.errors import UnknownName
from gpufleet.provenance import SUPPOSED
from gpufleet.records import dataclass

HUB_SUFFIX = "-hf"  # converted to the hub's format: many leave it out
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.:-]*")
INSTRUCTED = frozenset(("chat", "instruct", "it"))
TUNED = frozenset(("base", "chat", "hf", "instruct", "it", "pt"))
MONTH = re.compile(r"20[12]\d|2[3-9](0[1-9]|1[0-2])")  # a release by its year, or by year and month
NUMBER = re.compile(r"\d+(?:\.\d+)*")
_FOLDER = Path(__file__).parent.parent / "data" / "architectures"
_PACKED = _FOLDER / "configs.json.gz"
_OF_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class ModelName:
    """A shipped model that a name stands for; `is_text_part` when the name is that of a multimodal model.

    `stored` is the number format that the name ends in, where that is not the model's own.
    """

    id: str
    is_text_part: bool = False
    stored: StoredFormat | None = None

    @property
    def name(self) -> str:
        """The model with its number format."""
        return self.id if self.stored is None else f"{self.id}-{self.stored.ending}"


def model_names() -> list[str]:
    """Ids of all shipped models, sorted."""
    return sorted(_packed() or (path.stem for path in _FOLDER.glob("*.json")))


def model_aliases() -> dict[str, ModelName]:
    """Every name that can be typed as it is written, hub ids included, to the model it stands for."""
    return {**dict(_listed_aliases()), **{n: ModelName(n) for n in model_names()}}


def resolve_model_name(name: str) -> ModelName:
    """The shipped model of a name, an alias or a hub id; case, spaces and underscores do not matter.

    A name that no table holds is read without what does not change a shape: its owner, a number format at its end, and
    words for how it was tuned. What is left must be the whole name of a model.

    >>> resolve_model_name("Llama 3.1 8B").id
    'llama-3.1-8b'
    >>> resolve_model_name("unsloth/Qwen3-8B-GGUF:Q4_K_M").name
    'qwen3-8b-q4_k_m'
    """
    found = _names_by_folded().get(folded_name(name)) or _by_rule(folded_name(name))
    if found is None:
        raise UnknownName("model", name, of_its_numbers(name), hint=hint_at_unknown(name))
    return found


def of_its_numbers(name: str) -> list[str]:
    """Names that may have been meant: of an id of the hub those with its numbers, as versions and sizes are no slips.

    >>> of_its_numbers("meta-lama/Llama-3.1-8B-Instuct")[:2]
    ['meta-llama/Llama-3.1-8B', 'Llama-3.1-8B']
    """
    names = list(model_aliases())
    numbers = NUMBER.findall(name.rpartition("/")[2])
    return [known for known in names if NUMBER.findall(known.rpartition("/")[2]) == numbers] if "/" in name else names


def hint_at_unknown(name: str) -> str:
    """What to do about a model that no table holds: an id of the hub is fetched by a command of ours.

    >>> hint_at_unknown("acme/New-7B")[:66]
    "'gpufleet catalog models add acme/New-7B' asks the hub for its sha"
    """
    named = name.strip() if HUB_ID.fullmatch(name.strip()) and ":" not in name else "ORG/NAME"
    listed = "'gpufleet catalog models' lists the shipped names; a config.json file or its folder does as well."
    return f"'gpufleet catalog models add {named}' asks the hub for its shape. {listed}"


def _by_rule(folded: str) -> ModelName | None:
    """The model of a hub id that is in no table: of a number format at its end first, which owners mean differently."""
    owner, _, bare = folded.rpartition("/")
    if "/" in owner:
        return None
    cut = split_name(owner, bare)
    if cut is None:
        return _named_as(owner, bare)
    plain = _named_as(owner, cut[0]) or _named_as(owner, f"{cut[0]}-bf16")
    if plain is None or is_encoder(plain):
        return _names_by_folded().get(bare)
    return replace(plain, stored=cut[1])


def _named_as(owner: str, bare: str) -> ModelName | None:
    names = _names_by_folded()
    found = names.get(f"{owner}/{bare}") or names.get(bare) or _names_untuned().get(untuned(bare))
    return found or _names_untuned().get(untuned(without_month(bare)))


def untuned(folded: str) -> str:
    """A name without words for how a model was tuned.

    >>> untuned("mixtral-8x7b-instruct-v0.1")
    'mixtral-8x7b-v0.1'
    """
    return "-".join(word for word in folded.split("-") if word not in TUNED)


def without_month(folded: str) -> str:
    """A name without the month of its release at the end.

    >>> without_month("qwen3-4b-instruct-2507"), without_month("phi-2")
    ('qwen3-4b-instruct', 'phi-2')
    """
    rest, _, last = folded.rpartition("-")
    return rest if MONTH.fullmatch(last) else folded


@lru_cache(maxsize=1)
def _names_untuned() -> dict[str, ModelName]:
    """Models by their names without words for tuning; a name that two models share is of neither."""
    shared: dict[str, set[ModelName]] = {}
    for name, model in _names_by_folded().items():
        shared.setdefault(untuned(name.rpartition("/")[2]), set()).add(model)
    return {name: next(iter(models)) for name, models in shared.items() if len(models) == 1}


def is_encoder(model: ModelName) -> bool:
    """Whether a shipped model is not a decoder."""
    return encoder_family_of(_shipped_config(model.id)) is not None


@lru_cache(maxsize=256)
def hub_id(name: str) -> str | None:
    """The hub id that a name is, or the first of the shipped model that it stands for; None where none is known.

    A name without owner and without a word for how it was tuned is of the model that answers requests, where there is
    one: the base model has no template of a chat.

    >>> hub_id("llama-3.1-8b"), hub_id("meta-llama/Llama-3.1-8B")
    ('meta-llama/Llama-3.1-8B-Instruct', 'meta-llama/Llama-3.1-8B')
    """
    model = resolve_model_name(name)
    known = [alias for alias, named in _listed_aliases() if named == model and "/" in alias]
    folded = folded_name(name)
    own = next((i for i in known if folded in names_of_hub_id(i)), None)
    if "/" in name:
        return own or (name.strip() if HUB_ID.fullmatch(name.strip()) else None)
    found = own or (known[0] if known else None)
    if found is None or not TUNED.isdisjoint(folded.split("-")):
        return found
    tuned = (i for i in known if _is_instructed(i) and untuned(_bare(i)) == untuned(_bare(found)))
    return next(tuned, found)


def _is_instructed(hub: str) -> bool:
    return not INSTRUCTED.isdisjoint(_bare(hub).split("-"))


def _bare(hub: str) -> str:
    return folded_name(hub.rpartition("/")[2])


@lru_cache(maxsize=256)
def names_of_hub_id(hub: str) -> frozenset[str]:
    """What people call a model of the hub: with and without its owner and the hub's suffix, folded.

    >>> sorted(names_of_hub_id("meta-llama/Llama-2-7b-hf"))
    ['llama-2-7b', 'llama-2-7b-hf', 'meta-llama/llama-2-7b', 'meta-llama/llama-2-7b-hf']
    """
    whole = {folded_name(hub), folded_name(hub.rpartition("/")[2])}
    return frozenset(whole | {name.removesuffix(HUB_SUFFIX) for name in whole})


def load_model_config(name: str) -> dict[str, object]:
    """The config of a shipped model by name or alias, with the number format that the name says."""
    model = resolve_model_name(name)
    config = _shipped_config(model.id)
    return config if model.stored is None else model.stored.of(config)


def _shipped_config(model_id: str) -> dict[str, object]:
    packed = _packed()
    text = packed[model_id] if packed else (_FOLDER / f"{model_id}.json").read_text(encoding="utf-8")
    config: dict[str, object] = json.loads(text)
    return config


@lru_cache(maxsize=1)
def _packed() -> Mapping[str, str]:
    """The text of every config as a wheel holds them, all in one file; none in a clone, which has a file of each."""
    return unpacked(_PACKED) if _PACKED.exists() else {}


def unpacked(path: Path) -> Mapping[str, str]:
    """Texts by the model's name, from what `tools/pack_models.py` writes."""
    texts: dict[str, str] = json.loads(zlib.decompress(path.read_bytes(), _OF_GZIP))
    return texts


@lru_cache(maxsize=512)
def shipped_architecture(name: str) -> Architecture:
    """The architecture of a shipped model by name or alias.

    >>> shipped_architecture("meta-llama/Llama-3.3-70B-Instruct").num_layers
    80
    """
    model = resolve_model_name(name)
    architecture = parse_architecture(load_model_config(name), model.name)
    read_as = [] if folded_name(name) == folded_name(model.id) else reading_of(name, model, architecture.weights.name)
    text_only = [TEXT_PART_ONLY] if model.is_text_part else []
    return replace(architecture, notes=(*architecture.notes, *text_only, *read_as))


def reading_of(name: str, model: ModelName, stored: str) -> list[str]:
    """What a name was taken for; the whole answer supposes it where it is the id of a model that no table holds.

    >>> reading_of("acme/Llama-3.1-8B-Instruct", ModelName("llama-3.1-8b"), "bf16")[0]
    'By its name alone acme/Llama-3.1-8B-Instruct is planned as llama-3.1-8b'
    """
    kept = "" if model.stored is None else f" stored in {stored}"
    if "/" in name and not is_listed(name):
        planned = f"{SUPPOSED}{name} is planned as {model.id}{kept}"
        return [planned, f"Warning: {name} is not known here; its config.json would say whether it has that shape"]
    if model.stored is not None:
        return [f"{name} read as {model.id}{kept}, as its name says; its config.json would say it exactly"]
    return [f"{name} read as {model.id}, which has its shape"]


def is_listed(name: str) -> bool:
    """Whether a table holds a name, as it is or before a number format at its end."""
    owner, _, bare = folded_name(name).rpartition("/")
    cut = split_name(owner, bare)
    names = _names_by_folded()
    return folded_name(name) in names or (cut is not None and f"{owner}/{cut[0]}" in names)


@lru_cache(maxsize=256)
def shipped_encoder(name: str) -> EncoderModel:
    """A shipped model that is not a decoder, by name or alias.

    >>> shipped_encoder("google-bert/bert-large-uncased").num_layers
    24
    """
    model = resolve_model_name(name)
    encoder = parse_encoder(load_model_config(model.id), model.id)
    read_as = [] if folded_name(name) == folded_name(model.id) else reading_of(name, model, "")
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
