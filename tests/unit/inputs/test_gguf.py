"""GGUF files: headers that are written here, with the key names and types of ggml-org/ggml docs/gguf.md."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpufleet.api import estimate, fit
from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config, shipped_architecture
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.gguf import read_gguf_model
from gpufleet.units import GIB

F32, F16, Q8_0, Q4_K, Q6_K = 0, 1, 8, 12, 14
BYTES = {F32: 4.0, F16: 2.0, Q8_0: 34 / 32, Q4_K: 144 / 256, Q6_K: 210 / 256}
TensorRow = tuple[str, tuple[int, ...], int]


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        words = b"".join(text(v) if isinstance(v, str) else struct.pack("<i", v) for v in value)
        return text(key) + struct.pack("<IIQ", 9, 8 if isinstance(value[0], str) else 5, len(value)) + words
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<II", 4, value)


def gguf(metadata: dict[str, Any], tensors: Iterable[TensorRow], version: int = 3) -> bytes:
    rows = list(tensors)
    infos = b"".join(
        text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0) for name, shape, kind in rows
    )
    head = b"GGUF" + struct.pack("<IQQ", version, len(rows), len(metadata))
    return head + b"".join(entry(k, v) for k, v in metadata.items()) + infos


def described(config: dict[str, Any], arch: str) -> dict[str, Any]:
    """The metadata that a converter writes of a config.json."""
    heads = config["num_attention_heads"]
    said = {
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "context_length": config["max_position_embeddings"],
        "attention.head_count": heads,
        "attention.head_count_kv": config.get("num_key_value_heads", heads),
        "attention.key_length": config.get("head_dim", config["hidden_size"] // heads),
        "rope.freq_base": float(config.get("rope_theta", 10000.0)),
    }
    if config.get("moe_intermediate_size"):
        said["expert_count"], said["expert_used_count"] = experts_of(config), config["num_experts_per_tok"]
        said["expert_feed_forward_length"] = config["moe_intermediate_size"]
    if config.get("sliding_window"):
        said["attention.sliding_window"] = config["sliding_window"]
    tokens = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [f"t{i}" for i in range(300)]}
    return {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in said.items()}, **tokens}


def experts_of(config: dict[str, Any]) -> int:
    return int(config.get("num_experts") or config["num_local_experts"])


def tensors(config: dict[str, Any], kind: Callable[[str, int], int], tied: bool, norms: int = 2) -> list[TensorRow]:
    """Tensors of a gated decoder by the names of llama.cpp; `kind` chooses the type of a matrix in a layer."""
    h, v, f = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    heads, kv = config["num_attention_heads"], config.get("num_key_value_heads", config["num_attention_heads"])
    d = config.get("head_dim", h // heads)
    found: list[TensorRow] = [("token_embd.weight", (h, v), kind("token_embd", 0)), ("output_norm.weight", (h,), F32)]
    found += [] if tied else [("output.weight", (h, v), kind("output", 0))]
    for i in range(config["num_hidden_layers"]):
        shapes: dict[str, tuple[int, ...]] = {"attn_q": (h, heads * d), "attn_k": (h, kv * d), "attn_v": (h, kv * d)}
        shapes["attn_output"] = (heads * d, h)
        if config.get("moe_intermediate_size"):
            e, w = experts_of(config), config["moe_intermediate_size"]
            shapes |= {"ffn_gate_exps": (h, w, e), "ffn_up_exps": (h, w, e), "ffn_down_exps": (w, h, e)}
            shapes["ffn_gate_inp"] = (h, e)
        else:
            shapes |= {"ffn_gate": (h, f), "ffn_up": (h, f), "ffn_down": (f, h)}
        found += [(f"blk.{i}.{n}.weight", s, F32 if n == "ffn_gate_inp" else kind(n, i)) for n, s in shapes.items()]
        found += [(f"blk.{i}.norm_{n}.weight", (h,), F32) for n in range(norms)]
        if config["model_type"].startswith("qwen3"):
            found += [(f"blk.{i}.attn_{n}_norm.weight", (d,), F32) for n in "qk"]
        if config["model_type"] == "qwen2":
            found += [
                (f"blk.{i}.attn_{n}.bias", (w,), F32) for n, w in (("q", heads * d), ("k", kv * d), ("v", kv * d))
            ]
    return found


def q4_k_m(layers: int) -> Callable[[str, int], int]:
    """llama.cpp's mix: half of attn_v and ffn_down, and the head, in Q6_K."""

    def kind(name: str, layer: int) -> int:
        is_more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        return Q6_K if name == "output" or (is_more and name in ("attn_v", "ffn_down")) else Q4_K

    return kind


def plain(kind: int) -> Callable[[str, int], int]:
    return lambda name, layer: kind


CASES = [
    ("llama-3.1-8b", "llama", q4_k_m(32), False, 2, "q4_k"),
    ("qwen3-8b", "qwen3", plain(Q8_0), False, 2, "q8_0"),
    ("qwen2.5-7b", "qwen2", plain(F16), False, 2, "f16"),
    ("gemma-2-2b", "gemma2", plain(Q8_0), True, 4, "q8_0"),
    ("qwen3-30b-a3b", "qwen3moe", plain(Q4_K), False, 2, "q4_k"),
    ("llama-3.2-1b", "llama", plain(Q8_0), True, 2, "q8_0"),
]


def written(folder: Path, model: str, arch: str, kind: Callable[[str, int], int], tied: bool, norms: int) -> Path:
    config = load_model_config(model)
    file = folder / f"{model}.gguf"
    file.write_bytes(gguf(described(config, arch), tensors(config, kind, tied, norms)))
    return file


@pytest.mark.parametrize(("model", "arch", "kind", "tied", "norms", "name"), CASES, ids=[c[0] for c in CASES])
def test_a_header_is_the_model_with_every_weight_at_its_own_bytes(tmp_path, model, arch, kind, tied, norms, name):
    file = written(tmp_path, model, arch, kind, tied, norms)
    rows = tensors(load_model_config(model), kind, tied, norms)
    elements = {n: struct_product(shape) for n, shape, _ in rows}
    read, shipped = read_gguf_model(file), shipped_architecture(model)
    assert [(b.count, b.mixer, b.feed_forward) for b in read.blocks] == [
        (b.count, b.mixer, b.feed_forward) for b in shipped.blocks
    ]
    assert num_parameters(read) == num_parameters(shipped) == sum(elements.values())
    assert weights_bytes(read, read.weights) == pytest.approx(sum(elements[n] * BYTES[k] for n, _, k in rows), rel=1e-6)
    assert (read.weights.name, read.weights.is_gguf) == (name, True)
    assert read.max_context_tokens == load_model_config(model)["max_position_embeddings"]


def struct_product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def test_the_mix_of_llama_3_1_8b_weighs_what_llama_cpp_publishes(tmp_path):
    """ggml-org/llama.cpp tools/quantize/README.md: Q4_K_M is 4.58 GiB, 4.8944 bits a weight."""
    read = read_gguf_model(written(tmp_path, *CASES[0][:5]))
    held = weights_bytes(read, read.weights)
    assert held / GIB == pytest.approx(4.58, rel=0.002)
    assert 8 * held / num_parameters(read) == pytest.approx(4.8944, rel=0.001)


def test_a_file_runs_on_llama_cpp_unless_another_engine_is_named(tmp_path):
    file = str(written(tmp_path, *CASES[0][:5]))
    held = fit(file, "RTX-4090:1", "8k")
    assert (held.engine, held.verdict) == ("llama.cpp", "fits")
    answer = estimate(file, "RTX-4090:1", input_tokens=500, output_tokens=200, concurrency=1)
    assert answer.tpot_s.low < answer.tpot_s.value < answer.tpot_s.high
    assert any("bytes of weights (q4_k" in note for note in held.notes)


GOOD = gguf(
    described(load_model_config("llama-3.2-1b"), "llama"), tensors(load_model_config("llama-3.2-1b"), plain(Q8_0), True)
)


def refusal(folder: Path, content: bytes) -> str:
    file = folder / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_gguf_model(file)
    said = str(refused.value)
    assert "\n" not in said
    assert len(said) < 1000
    return said


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.9999])
def test_a_file_that_ends_in_its_header_is_told_so(tmp_path, share):
    assert "GGUF" in refusal(tmp_path, GOOD[: int(share * len(GOOD))])


HEAD = b"GGUF" + struct.pack("<I", 3)
HOSTILE = {
    "another magic": (b"GGML" + GOOD[4:], "does not begin with GGUF"),
    "version 1": (b"GGUF" + struct.pack("<I", 1) + GOOD[8:], "version is 1"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + GOOD[8:], "version"),
    "counts without end": (HEAD + struct.pack("<QQ", 2**63, 2**63), "tensors"),
    "keys without end": (HEAD + struct.pack("<QQ", 0, 2**62), "keys"),
    "a key of 16 EiB": (HEAD + struct.pack("<QQQ", 0, 1, 2**64 - 1), "ends within its header"),
    "an array without end": (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 4, 2**60), "items"),
    "arrays within arrays": (
        HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1) * 1 + struct.pack("<IQ", 9, 1) * 50,
        "nested",
    ),
    "a value of no type": (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<I", 99), "type 99"),
    "five dimensions": (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<I", 5), "5 dimensions"),
    "no elements": (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQIQ", 1, 0, 0, 0), "absurd size"),
    "too many": (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0), "absurd"),
    "no such type": (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQIQ", 1, 32, 77, 0), "type 77"),
    "half a block": (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQIQ", 1, 33, 8, 0), "blocks of q8_0"),
    "a tensor twice": (gguf({}, [("t", (32,), F32)] * 2), "twice"),
    "no metadata": (gguf({}, [("t", (32,), F32)]), "not read yet"),
    "an image encoder": (gguf({"general.architecture": "clip"}, []), "not read yet"),
    "one of three files": (gguf({"general.architecture": "llama", "split.count": 3}, []), "llama-gguf-split"),
    "no tensors": (gguf(described(load_model_config("llama-3.2-1b"), "llama"), []), "vocab_size"),
    "tensors of another model": (
        gguf(
            described(load_model_config("llama-3.2-1b"), "llama"),
            tensors(load_model_config("llama-3.2-3b"), plain(Q8_0), True),
        ),
        "not those of the model",
    ),
    "no sizes": (gguf({"general.architecture": "llama"}, [("token_embd.weight", (64, 100), F32)]), "hidden_size"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broken_file_is_refused_in_one_sentence(tmp_path, name):
    content, told = HOSTILE[name]
    assert told in refusal(tmp_path, content)


def test_bytes_that_were_turned_over_end_in_a_model_or_in_one_sentence(tmp_path):
    chance, file = random.Random(7), tmp_path / "m.gguf"
    for _ in range(150):
        content = bytearray(GOOD)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(min(len(content), 2000))] = chance.randrange(256)
        file.write_bytes(bytes(content))
        with suppress(GpufleetError):
            read_gguf_model(file)


def test_folders_and_files_that_are_not_there_are_said(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        fit(str(tmp_path / "none.gguf"), "L4:1")
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(UsageError, match="is not a file"):
        fit(str(tmp_path / "folder.gguf"), "L4:1")


def test_a_written_header_is_read_as_the_config_it_was_made_of():
    """The companion of the writer: parse the config alone."""
    config = load_model_config("llama-3.2-1b")
    assert num_parameters(parse_architecture(config, "m")) == sum(
        struct_product(shape) for _, shape, _ in tensors(config, plain(Q8_0), tied=True)
    )
