"""`gpufleet catalog models add` against a hub on this machine: right files or one message, nothing half written."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.catalog.hub_server import COMMIT, TOKEN, HubServer, Weights, llama_tensors, safetensors
from tests.catalog.price_server import Answer, ask_this_machine_alone, serving

from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.catalog.exchange import BrokenFeed
from gpufleet.catalog.hub import FIRST_BYTES, HUB_BOUNDS, Hub, add_model, asked_model, visit_of
from gpufleet.catalog.models import load_model_config, shipped_architecture
from gpufleet.cli import added_models as command
from gpufleet.cli import main
from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import added_models, checkpoint_of, read_model

ID = "acme/Tiny-1B"
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
LLAMA_8B = {**load_model_config("llama-3-8b")}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GPUFLEET_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=lambda s: None, monotonic=lambda: 0.0))
    return tmp_path / "models"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[HubServer]:
    hub = HubServer()
    hub.hold(ID, files_of(CONFIG))
    with serving(hub.store), serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        yield hub


def files_of(config: dict[str, Any], **files: str | Weights) -> dict[str, str | Weights]:
    """A repository of one file of weights."""
    weights = safetensors(llama_tensors(config))
    return {"config.json": json.dumps(config), "model.safetensors": weights, "modeling_x.py": "import os", **files}


def add(*ids: str) -> int:
    return main(["catalog", "models", "add", *(ids or (ID,)), "-o", "json"])


def kept_files(root: Path) -> set[str]:
    """Everything of any model that lies there, but what waits for the next try."""
    return {p.name for p in root.rglob("*") if p.is_file() and ".download" not in p.parts and p.name != ".updating"}


def test_an_added_model_is_taken_by_its_id_with_the_bytes_of_its_files(
    hub: HubServer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.hold("meta/Fresh-8B", files_of(LLAMA_8B, **{"generation_config.json": "{}"}))
    assert add("meta/Fresh-8B") == 0
    [row] = json.loads(capsys.readouterr().out)["models"]
    assert (row["num_parameters"], row["stored_bytes"]) == (8_030_261_248, 16_060_522_496)
    assert (row["commit"], row["family"], row["refusal"]) == (COMMIT, "llama", "")
    assert kept_files(root) == {"config.json", "generation_config.json", "checkpoint.json"}
    arch = read_model("META/fresh-8b", shipped_architecture)
    assert (arch.name, num_parameters(arch)) == ("meta/Fresh-8B", 8_030_261_248)
    assert any("8,030,261,248 parameters" in note for note in arch.notes)
    assert read_model("Fresh-8B", shipped_architecture) == arch
    assert checkpoint_of("Fresh-8B", lambda name: None) is None
    assert main(["fit", "meta/Fresh-8B", "--gpus", "H100:1", "-o", "json"]) == 0
    capsys.readouterr()
    assert main(["catalog", "models", "--search", "fresh", "-o", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["meta/Fresh-8B"]


def test_weights_and_code_are_never_asked_for(hub: HubServer) -> None:
    assert add() == 0
    assert not any(path.endswith((".py", ".bin")) for path in hub.asked)
    assert all(headers["Range"] == f"bytes=0-{FIRST_BYTES - 1}" for headers in hub.store.headers)


def test_the_token_goes_to_the_hub_and_not_to_the_store(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.gated.add(ID)
    assert add() == 5
    said = capsys.readouterr().err
    assert "HF_TOKEN" in said
    assert hub.origin in said
    assert added_models() == []
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    assert add() == 5
    assert "hf_of_somebody_else" not in capsys.readouterr().err
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.headers.clear()
    assert add() == 0
    assert {headers.get("Authorization") for headers in hub.headers} == {f"Bearer {TOKEN}"}
    assert hub.store.headers
    assert not any("Authorization" in headers for headers in hub.store.headers)


def test_a_server_that_does_not_know_ranges_is_left_after_the_header(hub: HubServer) -> None:
    hub.store.ignores_range = True
    assert add() == 0


def test_a_revision_is_kept_beside_the_newest_and_named_by_branch_or_commit(hub: HubServer) -> None:
    older = "0123456789abcdef0123456789abcdef01234567"
    hub.revisions["v1.0"] = older
    assert add(f"{ID}@v1.0") == 0
    assert add() == 0
    assert {kept.checkpoint.commit for kept in added_models()} == {COMMIT, older}
    told = read_model(f"{ID}@v1.0", shipped_architecture).notes
    assert any("01234567" in note for note in told)
    assert read_model(f"{ID}@{older[:10]}", shipped_architecture).notes == told
    assert read_model(ID, shipped_architecture).notes != told
    assert add(f"{ID}@v9") == 2


def test_a_longer_header_is_asked_for_once_more_and_whole(hub: HubServer) -> None:
    deep = {**CONFIG, "num_hidden_layers": 120}
    assert len(safetensors(llama_tensors(deep)).start) > FIRST_BYTES
    hub.hold(ID, files_of(deep))
    assert add() == 0
    assert read_model(ID, shipped_architecture).num_layers == 120
    assert len(hub.store.asked) == 2


def test_files_of_an_index_count_together_and_what_predicts_is_apart(
    hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = llama_tensors(CONFIG)
    first, second = dict(list(tensors.items())[:12]), dict(list(tensors.items())[12:])
    second["model.layers.3.mlp.up_proj.weight"] = ("BF16", (160, 64))
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = {"weight_map": dict.fromkeys(first, names["a"]) | dict.fromkeys(second, names["b"])}
    files: dict[str, str | Weights] = {
        "config.json": json.dumps(CONFIG),
        "model.safetensors.index.json": json.dumps(index),
    }
    hub.hold(ID, files | {names["a"]: safetensors(first), names["b"]: safetensors(second)})
    assert add() == 0
    [row] = json.loads(capsys.readouterr().out)["models"]
    assert row["num_files"] == 2
    assert row["num_parameters"] == num_parameters(read_model(ID, shipped_architecture))
    assert {part["part"]: part["num_parameters"] for part in row["formats"]}["prediction layers"] == 160 * 64


def test_memory_goes_by_the_files_where_the_config_says_less(hub: HubServer) -> None:
    tensors = llama_tensors(CONFIG) | {"model.layers.0.mlp.gate.weight": ("BF16", (500, 64))}
    hub.hold(ID, files_of(CONFIG) | {"model.safetensors": safetensors(tensors)})
    assert add() == 0
    arch = read_model(ID, shipped_architecture)
    held = sum(2 * size[0] * (size[1] if len(size) > 1 else 1) for _, size in tensors.values())
    assert weights_bytes(arch, arch.weights) == pytest.approx(held)
    assert any(note.startswith("Warning: safetensors of") for note in arch.notes)


def test_packed_weights_are_counted_as_the_model_has_them(hub: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """AWQ: eight weights of 4 bits in an element of 32, scales and zeros beside them."""
    quantised = {**CONFIG, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64}}
    tensors: dict[str, Any] = {}
    for name, (_, shape) in llama_tensors(CONFIG).items():
        if "_proj" not in name:
            tensors[name] = ("BF16", shape)
            continue
        out, into = shape
        stem = name.removesuffix("weight")
        tensors[f"{stem}qweight"] = ("I32", (into, out // 8))
        tensors[f"{stem}scales"] = ("F16", (into // 32, out))
        tensors[f"{stem}qzeros"] = ("I32", (into // 32, out // 8))
    hub.hold(ID, files_of(quantised) | {"model.safetensors": safetensors(tensors)})
    assert add() == 0
    [row] = json.loads(capsys.readouterr().out)["models"]
    assert row["num_parameters"] == num_parameters(read_model(ID, shipped_architecture))


Changed = Callable[[HubServer], None]


def hold(**files: str | Weights) -> Changed:
    """Other files in the repository."""
    named = {name.replace("__", "."): file for name, file in files.items()}
    return lambda hub: hub.hold(ID, files_of(CONFIG) | named)


def index_of(*files: str) -> str:
    return json.dumps({"weight_map": {str(number): file for number, file in enumerate(files)}})


def with_index(*files: str) -> Changed:
    return lambda hub: hub.hold(ID, files_of(CONFIG) | {"model.safetensors.index.json": index_of(*files)})


def answering(where: str, changed: Callable[[Answer], Answer]) -> Changed:
    def fault(path: str, sound: Answer) -> Answer | None:
        return changed(sound) if where in path else None

    def plant(hub: HubServer) -> None:
        hub.faults.append(fault)
        hub.store.faults.append(fault)

    return plant


def cut(sound: Answer) -> Answer:
    return Answer(sound.body, sound.status, sound.headers, sent=0.4)


def without_config(hub: HubServer) -> None:
    hub.models[ID] = {"Tiny-1B-Q4_K_M.gguf": Weights(b"GGUF", 4)}


DAMAGED_SHAPE = json.dumps({"a": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 31]}}).encode()
FAULTS: dict[str, tuple[Changed, int, str]] = {
    "the model is not there": (lambda hub: hub.models.clear(), 2, "has no model acme/Tiny-1B"),
    "no config": (without_config, 2, "files of llama.cpp alone"),
    "a private one": (answering("/api/", lambda sound: Answer("", 401)), 5, "not there, private or gated"),
    "a fault of the hub": (answering("/api/", lambda sound: Answer("", 500)), 5, "failed 5 times"),
    "a fault of the store": (answering("X-Signature", lambda sound: Answer("", 503)), 5, "failed 5 times"),
    "the store lost it": (answering("X-Signature", lambda sound: Answer("", 404)), 5, "answers 404"),
    "a config that is cut": (answering("config.json", cut), 5, "failed 5 times"),
    "a header that is cut": (answering("X-Signature", cut), 5, "failed 5 times"),
    "a config of a list": (hold(config__json="[1]"), 5, "not one JSON object"),
    "a listing of a list": (answering("/api/", lambda sound: Answer("[]")), 5, "does not answer as a hub"),
    "a circle": (answering("/resolve/", lambda sound: Answer("", 302, {"Location": "config.json"})), 5, "redirected"),
    "no TLS elsewhere": (
        answering("/resolve/", lambda sound: Answer("", 302, {"Location": "http://b.example/x"})),
        5,
        "without TLS",
    ),
    "a config without end": (
        answering("config.json", lambda sound: Answer(b" " * 1_000_000 for _ in range(9))),
        5,
        "more than 5,000,000 bytes",
    ),
    "a header of 100 MB": (hold(model__safetensors=Weights(struct.pack("<Q", 10**8), 10**9)), 5, "bytes in the header"),
    "a header that is no JSON": (
        hold(model__safetensors=Weights(struct.pack("<Q", 8) + b"\x80not here", 10**6)),
        5,
        "no file of safetensors",
    ),
    "a shape that is not its bytes": (
        hold(model__safetensors=Weights(struct.pack("<Q", len(DAMAGED_SHAPE)) + DAMAGED_SHAPE, 10**6)),
        5,
        "damaged",
    ),
    "more tensors than file": (
        hold(model__safetensors=Weights(safetensors(llama_tensors(CONFIG)).start, 10_000)),
        5,
        "more than the file holds",
    ),
    "a path out of its folder": (with_index("../../etc/x.safetensors"), 5, "does not hold"),
    "a path from the root": (with_index("/etc/x.safetensors"), 5, "does not hold"),
    "a file that is not there": (with_index("model-1.safetensors"), 5, "does not hold"),
    "an index of no files": (hold(model__safetensors__index__json="{}"), 5, "names no files"),
}


@pytest.mark.parametrize(("plant", "code", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_message_and_leaves_nothing(
    plant: Changed, code: int, said: str, hub: HubServer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(hub)
    assert add() == code
    told = capsys.readouterr()
    errors = [line for line in told.err.splitlines() if line.startswith("gpufleet: error:")]
    assert len(errors) == 1, told.err
    assert said in errors[0], told.err
    assert told.out == ""
    assert kept_files(root) == set()
    assert added_models() == []


def test_an_index_of_a_million_files_is_refused_before_any_is_asked_for(
    hub: HubServer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{"weight_map":{' + ",".join(f'"{n}":"{n}"' for n in range(10**6)) + "}}"
    hub.hold(ID, files_of(CONFIG) | {"model.safetensors.index.json": text})
    assert add() == 5
    assert "more than 1,000 files of weights" in capsys.readouterr().err
    assert hub.store.asked == []
    assert kept_files(root) == set()


def test_a_slow_hub_is_given_up_after_its_time(hub: HubServer, root: Path) -> None:
    now = iter(range(0, 10**6, 60))
    with httpx.Client(timeout=5) as client:
        how = {"sleep": lambda s: None, "bounds": HUB_BOUNDS._replace(seconds=120)}
        visit = visit_of(asked_model(ID), Hub(hub.origin), client, root, date(2026, 11, 28), lambda: next(now), **how)
        with pytest.raises(BrokenFeed, match="not at its end after 120 s"):
            add_model(visit)
    assert kept_files(root) == set()


def test_after_a_fault_the_next_try_goes_on_and_ends_whole(hub: HubServer, root: Path) -> None:
    hub.store.faults.append(lambda path, sound: Answer("", 500))
    assert add() == 5
    hub.store.faults.clear()
    hub.asked.clear()
    assert add() == 0
    assert not any(path.endswith("/config.json") for path in hub.asked)
    assert kept_files(root) == {"config.json", "checkpoint.json"}
    assert not any(root.joinpath(".download").iterdir())


@pytest.mark.parametrize("words", ["acme", "acme/..", "../x", "acme/a--b", "acme/x@", "acme/x@../y", "a/b/c", "a/b?c"])
def test_what_is_no_id_is_not_asked_for(words: str) -> None:
    with pytest.raises(UsageError):
        asked_model(words)


def test_an_unknown_id_names_the_command_that_adds_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "acme/Nobody-Knows-7Z", "--gpus", "H100:1"]) == 2
    assert "'gpufleet catalog models add acme/Nobody-Knows-7Z'" in capsys.readouterr().err


def test_a_kept_model_that_was_changed_is_refused_with_its_folder(
    hub: HubServer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add() == 0
    (root / ID / COMMIT / "checkpoint.json").write_text("{}", encoding="utf-8")
    assert main(["fit", ID, "--gpus", "H100:1"]) == 5
    assert str(root / ID / COMMIT) in capsys.readouterr().err


def test_a_family_that_nobody_plans_is_kept_and_said(hub: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    hub.hold(ID, files_of({**CONFIG, "model_type": "new_mixer", "ssm_state_size": 128}) | {})
    assert add() == 0
    [row] = json.loads(capsys.readouterr().out)["models"]
    assert row["family"] is None
    assert "new_mixer" in row["refusal"]
