"""A hub of models on this machine, and the store that it sends readers to, in the form that the Hugging Face hub has.

`/api/models/ID/revision/REVISION` lists files with their sizes, `/ID/resolve/COMMIT/FILE` answers small files itself
and redirects to the store for weights, which honours Range. Errors carry X-Error-Code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.catalog.price_server import Answer, PriceServer

COMMIT = "5206a32e0bd3067aef1ce90f5528ade7d866253f"
TOKEN = "hf_s3cret"
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass
class Weights:
    """A file of safetensors of which only the beginning is there: nobody may ask for more."""

    start: bytes
    size_bytes: int


def safetensors(tensors: Shapes) -> Weights:
    """A file with these tensors: number format and shape by name."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (number_format, shape) in tensors.items():
        size = BYTES[number_format]
        for side in shape:
            size *= side
        header[name] = {"dtype": number_format, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return Weights(struct.pack("<Q", len(text)) + text, 8 + len(text) + at)


@dataclass
class Store(PriceServer):
    """Where weights lie: it knows no token, and answers the part of a file that is asked for."""

    files: dict[str, Weights] = field(default_factory=dict)
    ignores_range: bool = False

    def answer(self, path: str, headers: dict[str, str]) -> Answer:
        self.asked.append(path)
        self.headers.append(headers)
        file = self.files.get(path.partition("?")[0])
        if file is None:
            return Answer("no such key", 404)
        last = int(headers["Range"].rpartition("-")[2])
        assert headers["Range"].startswith("bytes=0-")
        if self.ignores_range:
            sound = Answer(iter([file.start, bytes(1024)]), 200)
        else:
            sound = Answer(
                (file.start + bytes(65536))[: min(last + 1, file.size_bytes)],
                206,
                {"Content-Range": f"bytes 0-{last}/{file.size_bytes}"},
            )
        return next((found for fault in list(self.faults) if (found := fault(path, sound)) is not None), sound)


@dataclass
class HubServer(PriceServer):
    """Models by id, each its files by name; a gated one wants the token."""

    store: Store = field(default_factory=Store)
    models: dict[str, dict[str, str | Weights]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})

    def hold(self, model: str, files: dict[str, str | Weights]) -> None:
        self.models[model] = files
        for name, file in files.items():
            if isinstance(file, Weights):
                self.store.files[f"/{model}/{name}"] = file

    def answer(self, path: str, headers: dict[str, str]) -> Answer:
        self.asked.append(path)
        self.headers.append(headers)
        sound = self.sound(path, headers)
        return next((found for fault in list(self.faults) if (found := fault(path, sound)) is not None), sound)

    def sound(self, path: str, headers: dict[str, str]) -> Answer:
        words = path.partition("?")[0].removeprefix("/api/models").strip("/").split("/")
        model, rest = "/".join(words[:2]), words[2:]
        files = self.models.get(model)
        if model in self.gated and headers.get("Authorization") != f"Bearer {TOKEN}":
            return Answer("gated", 401 if "Authorization" not in headers else 403, {"X-Error-Code": "GatedRepo"})
        if files is None:
            return Answer('{"error":"Repository not found"}', 404, {"X-Error-Code": "RepoNotFound"})
        if path.startswith("/api/"):
            commit = self.revisions.get(rest[1], rest[1] if rest[1] == COMMIT else None)
            if commit is None:
                return Answer('{"error":"Invalid rev id"}', 404, {"X-Error-Code": "RevisionNotFound"})
            listed = [{"rfilename": name, "size": size_of(file)} for name, file in files.items()]
            return Answer(json.dumps({"id": model, "sha": commit, "gated": False, "siblings": listed}))
        file = files[rest[-1]]
        if isinstance(file, Weights):
            there = f"{self.store.origin}/{model}/{rest[-1]}?X-Signature=abc"
            return Answer("", 302, {"Location": there, "X-Repo-Commit": COMMIT})
        return Answer(file, 200, {"X-Repo-Commit": COMMIT})


def size_of(file: str | Weights) -> int:
    return file.size_bytes if isinstance(file, Weights) else len(file.encode())


def llama_tensors(config: Mapping[str, Any], number_format: str = "BF16") -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a Llama, as its class saves them."""
    hidden, width = config["hidden_size"], config["intermediate_size"]
    head = hidden // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (width, hidden),
        "mlp.up_proj": (width, hidden),
        "mlp.down_proj": (hidden, width),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    table = (config["vocab_size"], hidden)
    shapes = {"model.embed_tokens.weight": table, "model.norm.weight": (hidden,), "lm_head.weight": table}
    for number in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    return {name: (number_format, shape) for name, shape in shapes.items()}
