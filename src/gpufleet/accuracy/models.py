"""Which model a row means: a config of the user's, a shipped model, the row's shape columns, or a known name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import shipped_architecture, shipped_encoder
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.encoder import EncoderModel
from gpufleet.domain.own_stack import OwnStack
from gpufleet.errors import UnknownName, UsageError
from gpufleet.files import is_file, is_folder
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.inputs.model_config import CONFIG_NAME, read_encoder, read_model, read_model_config

SHAPE_FIELDS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
}
EXPERT_COLUMNS = ("num_experts", "top_k")
LONGEST_NAME = 200


class ModelFinder:
    """Finds the model of a row; a config of `folder` comes before a shipped one, and each is read once.

    `own`: what a user's own runs said of a stack so far, which runs of it are predicted with.
    """

    def __init__(self, folder: Path | None = None, own: OwnStack | None = None):
        if folder is not None and not is_folder(folder):
            raise UsageError("--models names no folder", found=str(folder))
        self.folder, self.own = folder, own
        self.by_name = lru_cache(maxsize=None)(self._by_name)

    def of(self, row: MeasurementRow) -> Architecture:
        """The model that a row names or describes; says 'shape unknown' where nothing does."""
        model_id = row.text("model_id")
        if model_id:
            try:
                return self.by_name(model_id)
            except UnknownName as unknown:
                return self._described(row, str(unknown))
        return self._described(row, "shape unknown")

    def encoder_of(self, name: str) -> EncoderModel:
        """The model that is not a decoder of this name: a config of the user's before a shipped one."""
        own = next((file for file in self.own_configs(name) if is_file(file)), None)
        return read_encoder(name if own is None else own, shipped_encoder)

    def _described(self, row: MeasurementRow, otherwise: str) -> Architecture:
        if all(row.text(column) for column in SHAPE_FIELDS):
            return plain_decoder(row)
        for name in filter(None, (row.text("model"), row.text("checkpoint"))):
            try:
                return self.by_name(name)
            except UnknownName:
                continue
        raise UsageError(otherwise)

    def _by_name(self, name: str) -> Architecture:
        for file in self.own_configs(name):
            if is_file(file):
                return read_model_config(file)
        return read_model(name, shipped_architecture)

    def own_configs(self, name: str) -> Iterator[Path]:
        """Where the user's folder would keep the config of a model."""
        if self.folder is not None and is_file_name(name):
            yield self.folder / f"{name}.json"
            yield self.folder / name / CONFIG_NAME


def is_file_name(name: str) -> bool:
    """Whether a name stays inside the folder that it is looked up in."""
    return 0 < len(name) < LONGEST_NAME and name.isprintable() and not name.startswith(".") and Path(name).name == name


def plain_decoder(row: MeasurementRow) -> Architecture:
    """A gated decoder of the row's layers, hidden size, heads, MLP width and vocabulary."""
    if any(row.text(column) for column in EXPERT_COLUMNS):
        raise UsageError("shape unknown: experts cannot be built from shape columns")
    fields: dict[str, object] = {field: row.whole(column) for column, field in SHAPE_FIELDS.items()}
    kv_heads = row.whole("kv_heads")
    shape = {"model_type": "llama", **fields, **({"num_key_value_heads": kv_heads} if kv_heads else {})}
    return parse_architecture(shape, row.text("model") or "plain decoder")
