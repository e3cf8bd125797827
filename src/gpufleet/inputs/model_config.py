"""Users' model configs: a file, a folder as Hugging Face lays it out, or a model that was added from a hub."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path

from gpufleet.architecture.encoder_parse import encoder_family_of, parse_encoder
from gpufleet.architecture.kept_checkpoint import FILE, ROOT_VARIABLE, KeptCheckpoint, kept_checkpoint
from gpufleet.architecture.parse import parse_architecture
from gpufleet.architecture.stored_tensors import with_stored_bytes
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.encoder import EncoderModel
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.files import folder_of, is_file, is_folder, is_there, named_path, read_text_file
from gpufleet.inputs.gguf import SUFFIX, read_gguf_model
from gpufleet.inputs.json_text import parse_json
from gpufleet.records import dataclass
from gpufleet.units import MB

LARGEST_FILE_BYTES = 5 * MB
MAX_CONFIG_BYTES = 5 * MB
CONFIG_NAME = "config.json"
QUANTIZATION_NAME = "hf_quant_config.json"
OF_TOOLS = {"quantize_config.json": "gptq", "quantization_config.json": "", "quant_config.json": "awq"}
"""What tools write beside a config.json that says nothing of it, and whose file it is where it does not say itself."""
OF_MLX = ("bits", "group_size")
HUBS = "the config.json of the model's page on the Hugging Face hub"


@dataclass(frozen=True)
class AddedModel:
    """A revision of a model that lies in the user's folder."""

    checkpoint: KeptCheckpoint
    folder: Path

    @property
    def spoken(self) -> str:
        """What it is called in answers: as it lies on the hub, of which revision and which day."""
        kept = self.checkpoint
        return f"{kept.id} at {kept.commit[:8]}, added on {kept.day}"


def models_root() -> Path:
    """Where added models lie: GPUFLEET_MODELS, or gpufleet/models in the user's data folder."""
    return _root(os.environ.get(ROOT_VARIABLE), os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=4)
def _root(named: str | None, data: str | None, home: str | None) -> Path:
    """The same by the variables that decide it; `home` stands for ~."""
    return Path(os.path.expanduser(named or os.path.join(data or "~/.local/share", "gpufleet", "models")))


def added_model(name: str) -> AddedModel | None:
    """The model that was added under an id, ORG/NAME or ORG/NAME@REVISION: the one added last; None: none was."""
    whole, at, revision = name.strip().partition("@")
    owner, slash, bare = whole.partition("/")
    if not slash or "/" in bare or not os.path.isdir(models_root()):
        return None
    found = [m for folder in _folders(owner, bare) for m in _revisions(folder)]
    if at:
        found = [m for m in found if revision == m.checkpoint.asked_revision or _is_commit(m, revision)]
    return max(found, key=_added_last, default=None)


def added_called(bare: str) -> AddedModel | None:
    """The one added model that a name without owner stands for; of two it is none."""
    root = models_root()
    if "/" in bare or not os.path.isdir(root):
        return None
    owners = [owner for owner in _names(root) if _folders(owner, bare.partition("@")[0])]
    return added_model(f"{owners[0]}/{bare}") if len(owners) == 1 else None


def added_models() -> list[AddedModel]:
    """All models that were added, by id."""
    root = models_root()
    owners = _names(root) if os.path.isdir(root) else []
    found = [m for owner in owners for name in _names(root / owner) for m in _revisions(root / owner / name)]
    return sorted(found, key=lambda m: (m.checkpoint.id.casefold(), _added_last(m)))


def _is_commit(model: AddedModel, revision: str) -> bool:
    return bool(revision) and model.checkpoint.commit.startswith(revision.casefold())


def _added_last(model: AddedModel) -> tuple[date, float, str]:
    return model.checkpoint.day, os.path.getmtime(model.folder / FILE), model.checkpoint.commit


def _folders(owner: str, bare: str) -> list[Path]:
    """Folders of a model: a hub does not tell upper from lower case."""
    root = models_root()
    owners = (root / name for name in _names(root) if name.casefold() == owner.casefold())
    return [folder / name for folder in owners for name in _names(folder) if name.casefold() == bare.casefold()]


def _names(folder: Path) -> list[str]:
    """Folders in a folder, in order."""
    try:
        listed = os.listdir(folder)
    except OSError as error:
        raise DataMissing(f"added models in {folder} cannot be read: {error.strerror}") from None
    return sorted(name for name in listed if not name.startswith(".") and os.path.isdir(folder / name))


def _revisions(folder: Path) -> Iterator[AddedModel]:
    """Whole revisions of a model; one that is not as it was written is refused with how to mend it."""
    for name in _names(folder):
        try:
            written = json.loads(read_text_file(folder / name / FILE, "an added model", LARGEST_FILE_BYTES))
            yield AddedModel(kept_checkpoint(written), folder / name)
        except (UsageError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            hint = "Remove that folder, and add the model again with 'gpufleet catalog models add'."
            raise DataMissing(f"the added model {folder / name} is damaged: {error}", hint=hint) from None


def read_model(model: str | Path, shipped: Callable[[str], Architecture]) -> Architecture:
    """The architecture of a config.json, of a folder that holds one, or what `shipped` knows under that name."""
    refuse_url(str(model))
    if _is_gguf_file(str(model)):
        return read_gguf_model(named_path(model))
    if isinstance(model, Path) or _is_path(model):
        return read_model_config(Path(model))
    added = added_model(model)
    if added is not None:
        return _read_added(added)
    try:
        return shipped(model)
    except UnknownName:
        if _is_on_disk(model):
            return read_model_config(Path(model))
        called = added_called(model)
        if called is not None:
            return _read_added(called)
        raise


def model_asked(model: str | os.PathLike[str] | Architecture, shipped: Callable[[str], Architecture]) -> Architecture:
    """The model of a question: as it is, or read by its name or path."""
    return model if isinstance(model, Architecture) else read_model(str(model), shipped)


def encoder_asked(model: str | os.PathLike[str] | EncoderModel, shipped: Callable[[str], EncoderModel]) -> EncoderModel:
    """The encoder of a question: as it is, or read by its name or path."""
    return model if isinstance(model, EncoderModel) else read_encoder(str(model), shipped)


def _read_added(added: AddedModel) -> Architecture:
    """A model that was added from a hub, at the bytes that its files hold."""
    arch = parse_architecture(*_added_config(added))
    return with_stored_bytes(arch, added.checkpoint.parts, f"safetensors of {added.spoken}")


def _added_config(added: AddedModel) -> tuple[Mapping[str, object], str]:
    return _named_config(added.folder)[0], added.checkpoint.id


def checkpoint_of(model: str | Path, shipped: Callable[[str], str | None]) -> str | None:
    """Where a model's weights are: the folder around its config, or the id that `shipped` knows; None: not known.

    A config that came alone with a question has no folder.
    """
    is_on_disk = isinstance(model, Path) or _is_path(model)
    if not is_on_disk:
        added = added_model(str(model))
        try:
            return added.checkpoint.id if added else shipped(str(model))
        except UnknownName:
            called = None if _is_on_disk(str(model)) else added_called(str(model))
            if called is not None:
                return called.checkpoint.id
            is_on_disk = _is_on_disk(str(model))
    file = _config_file(Path(model))
    has_folder = is_on_disk and file.name == CONFIG_NAME and folder_of(file) != ""
    return _as_operand(str(file.parent)) if has_folder else None


def _as_operand(path: str) -> str:
    """A path that no command takes for an option.

    >>> _as_operand("-rf"), _as_operand("models/a")
    ('./-rf', 'models/a')
    """
    return f"./{path}" if path.startswith("-") else path


def read_encoder(model: str | Path, shipped: Callable[[str], EncoderModel]) -> EncoderModel:
    """The encoder of a config.json, of a folder that holds one, or what `shipped` knows under that name."""
    refuse_url(str(model))
    if isinstance(model, Path) or _is_path(model):
        return parse_encoder(*_named_config(Path(model)))
    added = added_model(model)
    if added is not None:
        return parse_encoder(*_added_config(added))
    try:
        return shipped(model)
    except UnknownName:
        if _is_on_disk(model):
            return parse_encoder(*_named_config(Path(model)))
        raise


def is_encoder(model: str, shipped: Callable[[str], bool]) -> bool:
    """Whether a model is not a decoder: told by its config, or by `shipped` for a name."""
    refuse_url(model)
    if _is_gguf_file(model):
        return False
    if _is_path(model):
        return encoder_family_of(_named_config(Path(model))[0]) is not None
    added = added_model(model)
    return encoder_family_of(_added_config(added)[0]) is not None if added else shipped(model)


def _is_gguf_file(model: str) -> bool:
    """Whether a text is the path of a GGUF file; a file's name alone may be that of a model as well."""
    spelled = model.casefold().endswith(SUFFIX) and "\0" not in model
    return spelled and (model.startswith((".", "/", "~")) or is_there(model))


def refuse_url(model: str) -> None:
    """Nothing is fetched: an answer must not depend on what a server says today."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", model):
        hint = "Download the model's config.json and give its path."
        raise UsageError("URLs are not read", found=model, expected="a name, a config.json or its folder", hint=hint)


def read_model_config(path: Path) -> Architecture:
    """The architecture that a config.json or the folder around it describes, `hf_quant_config.json` included."""
    return parse_architecture(*_named_config(path))


def _named_config(path: Path) -> tuple[Mapping[str, object], str]:
    """The config of a file or folder with its quantisation, and the model's name."""
    file = _config_file(path)
    if file.name == CONFIG_NAME and is_folder(file.parent) and not is_there(file):
        other = " but Mistral's params.json" if is_there(file.with_name("params.json")) else ""
        hint = f"Put {HUBS} beside it." if other else None
        raise UsageError(
            f"the folder {str(file.parent)!r} has no {CONFIG_NAME}{other}",
            expected="a Hugging Face model folder",
            hint=hint,
        )
    config = _read_object(file, "a model config")
    name = folder_of(file) if file.name == CONFIG_NAME else file.stem
    refuse_foreign(config, name or str(path))
    if file.name == CONFIG_NAME:
        config = _with_files_beside(config, file)
    return config, name or str(path)


def refuse_foreign(config: Mapping[str, object], name: str) -> None:
    """Refuse what describes a model in the words of another tool, or for an engine that is not planned."""
    tool = next((tool for tool, is_of in FOREIGN.items() if is_of(config)), None)
    if tool is not None:
        expected = "a config.json as Hugging Face's transformers write it"
        raise UsageError(f"{name}: this is a config of {tool}", expected=expected, hint=f"Give {HUBS}.")
    if _is_of_mlx(config.get("quantization")) or _is_of_mlx(config.get("quantization_config")):
        raise UsageError(
            f"{name}: weights as MLX quantises them, which run on Apple's chips alone",
            found="quantization",
            expected="a checkpoint for GPUs, such as the plain one, AWQ, GPTQ or GGUF",
            hint="Name the model without its format, and what runs by --precision.",
        )


def _is_of_mlx(quantization: object) -> bool:
    if not isinstance(quantization, Mapping) or not all(key in quantization for key in OF_MLX):
        return False
    return not any(key in quantization for key in ("quant_method", "quant_algo", "config_groups"))


def _has(*keys: str) -> Callable[[Mapping[str, object]], bool]:
    return lambda config: "model_type" not in config and all(key in config for key in keys)


FOREIGN: Mapping[str, Callable[[Mapping[str, object]], bool]] = {
    "TensorRT-LLM": lambda config: (
        "pretrained_config" in config or _has("architecture", "num_hidden_layers", "mapping")(config)
    ),
    "Mistral (params.json)": _has("dim", "n_layers", "hidden_dim"),
    "DeepSeek's own inference code": _has("dim", "n_layers", "inter_dim"),
    "its makers' own inference code": _has("dim", "n_layers"),
}


def _with_files_beside(config: Mapping[str, object], file: Path) -> Mapping[str, object]:
    """The config with what the files beside it say of its quantisation; its own word goes first."""
    own, modelopt = config.get("quantization_config"), file.with_name(QUANTIZATION_NAME)
    if is_there(modelopt):
        return {**config, "quantization_config": _with_cache_format(own, modelopt)}
    text = config.get("text_config")
    says = (own, config.get("compression_config"), text.get("quantization_config") if isinstance(text, dict) else None)
    beside = next((file.with_name(name) for name in OF_TOOLS if is_there(file.with_name(name))), None)
    if beside is None or any(word is not None for word in says):
        return config
    said = _read_object(beside, "a quantization config")
    return {**config, "quantization_config": {"quant_method": OF_TOOLS[beside.name], **said}}


def _config_file(path: Path) -> Path:
    """The config of a folder, or the path itself."""
    expanded = named_path(path)
    return expanded / CONFIG_NAME if is_folder(expanded) else expanded


def _is_path(model: str) -> bool:
    """Whether a text names something on disk: spelled like a path, or a file or model folder that exists."""
    if model.endswith(".json") or model.startswith((".", "/", "~")):
        return True
    return is_file(model) or is_file(os.path.join(model, CONFIG_NAME))


def _is_on_disk(model: str) -> bool:
    """Whether a name that no table holds is that of a folder, or of a link that leads nowhere."""
    try:
        return bool(model.strip()) and is_there(model)
    except ValueError:
        return False


def _with_cache_format(own: object, beside: Path) -> object:
    """The config's own word on quantisation with the cache format of the file beside it, or that file's own."""
    modelopt = _modelopt_quantization(beside)
    if not isinstance(own, dict):
        return modelopt if own is None else own
    return {"kv_cache_quant_algo": modelopt.get("kv_cache_quant_algo"), **own}


def _modelopt_quantization(path: Path) -> Mapping[str, object]:
    """What ModelOpt writes beside a config.json, in the words of a quantization_config."""
    quantization = _read_object(path, "a quantization config").get("quantization")
    if not isinstance(quantization, dict):
        raise UsageError(f"{path} does not say how the model is quantised", expected="an object 'quantization'")
    return {"quant_method": "modelopt", **quantization}


def _read_object(path: Path, what: str) -> Mapping[str, object]:
    text = read_text_file(path, what, MAX_CONFIG_BYTES)
    content = parse_json(text, f"{what} {str(path)!r}", "a complete Hugging Face config.json")
    if not isinstance(content, dict):
        raise UsageError(
            f"{what} is not one JSON object: {str(path)!r}", found=content, expected="a Hugging Face config.json"
        )
    return content
