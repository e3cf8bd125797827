"""What the end of a checkpoint's name says of how its weights are stored: -AWQ, -FP8-dynamic, -GGUF:Q4_K_M."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpufleet.catalog.table_files import toml_of
from gpufleet.errors import UsageError, nearest_names, shorten
from gpufleet.records import dataclass

FILE = Path(__file__).parent.parent / "data" / "architectures" / "stored_formats.toml"
NESTED = "text_config"
ATTENTION = ("*self_attn*", "*linear_attn*")
QUANTISED = ("quantization_config", "compression_config")


@dataclass(frozen=True)
class StoredFormat:
    """A number format that a name ends in; `config` is what the checkpoint's own config.json would say of it.

    Models of `attention_kept_of`, by their model_type, keep attention in 16 bits.
    """

    ending: str
    config: Mapping[str, Any]
    attention_kept_of: tuple[str, ...] = ()

    def of(self, config: Mapping[str, object]) -> dict[str, object]:
        """The config of the plain model with this format in place of its own."""
        plain = {key: value for key, value in config.items() if key not in QUANTISED}
        text = plain.get(NESTED)
        if isinstance(text, Mapping):
            plain[NESTED] = {key: value for key, value in text.items() if key not in QUANTISED}
        kept = [*ATTENTION] if config.get("model_type") in self.attention_kept_of else []
        stored = {**self.config, "exclude_modules": [*self.config.get("exclude_modules", ()), *kept]}
        return {**plain, **({"quantization_config": stored} if self.config else {})}


def split_name(owner: str, folded: str) -> tuple[str, StoredFormat] | None:
    """A folded name without its owner cut into the model's name and its number format; None where it names none.

    >>> name, stored = split_name("qwen", "qwen3-8b-awq")
    >>> name, stored.config["quant_method"]
    ('qwen3-8b', 'awq')
    """
    found = _gguf(folded)
    if found is not None:
        return found
    _refuse_foreign(folded)
    ending = next((e for e in _by_length(owner) if folded.endswith(f"-{e}") and folded != f"-{e}"), None)
    if ending is None:
        return None
    row = _endings(owner)[ending]
    stored = StoredFormat(ending, row.get("config", {}), tuple(row.get("attention_kept_of", ())))
    return folded[: -len(ending) - 1], stored


def gguf_format(file_type: str) -> StoredFormat:
    """A file of llama.cpp by its type, UD- variants by the type that they vary; an unknown one is refused."""
    bits = _table()["gguf"]["bits_per_weight"]
    known = file_type.removeprefix("ud-").replace("-", "_")
    plain = {"f32": "f16", "q3_k_m": "q3_k_l", "q2_k_l": "q2_k"}.get(known, re.sub(r"_k_x{1,2}l$", "_k_m", known))
    if plain not in bits:
        named = nearest_names(plain, bits) or list(bits)
        raise UsageError(f"unknown GGUF file type {shorten(known.upper())}", expected=", ".join(named).upper())
    return StoredFormat(known, {"quant_method": "gguf", "file_type": plain, "bits_per_weight": bits[plain]})


def _gguf(folded: str) -> tuple[str, StoredFormat] | None:
    """`name-gguf:type`, `name-type-gguf`, `name-gguf`, a file's own `name-type.gguf`, and `name-type` alone."""
    usual = _table()["gguf"]["usual"]
    repository, _, file_type = folded.partition(":")
    if repository.endswith("-gguf"):
        name = repository.removesuffix("-gguf")
        typed = _typed(name)
        return typed if typed and not file_type else (name, gguf_format(file_type or usual))
    if folded.endswith(".gguf"):
        return _typed(folded.removesuffix(".gguf"))
    return _typed(folded) if re.search(r"-i?q\d-[a-z0-9]+(-[a-z0-9]+)?$", folded) else None


def _typed(name: str) -> tuple[str, StoredFormat] | None:
    """A name that ends in a file type."""
    ending = re.search(r"[-.]((?:ud-)?(?:i?q\d-[a-z0-9]+(?:-[a-z0-9]+)?|bf16|f16|f32))$", name)
    return None if ending is None else (name[: ending.start()], gguf_format(ending.group(1)))


def _refuse_foreign(folded: str) -> None:
    for row in _table()["refused"]:
        if any(folded.endswith(f"-{ending}") for ending in row["endings"]):
            raise UsageError(
                f"{shorten(folded)} is {row['kind']}, which runs on {row['runs_on']}",
                expected="a checkpoint of vLLM, SGLang, TensorRT-LLM, transformers or llama.cpp",
                hint="Name the plain model with --precision, such as --precision int4.",
            )


@lru_cache(maxsize=64)
def _by_length(owner: str) -> list[str]:
    return sorted(_endings(owner), key=len, reverse=True)


@lru_cache(maxsize=64)
def _endings(owner: str) -> dict[str, Mapping[str, Any]]:
    """Every ending with its row; rows of this owner go before those of all."""
    return {ending: row for row in _rows(owner) for ending in row["endings"]}


def _rows(owner: str) -> Iterator[Mapping[str, Any]]:
    formats = _table()["format"]
    yield from (row for row in formats if "owners" not in row)
    yield from (row for row in formats if owner in row.get("owners", ()))


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return toml_of(FILE)
