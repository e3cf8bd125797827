"""`gpufleet catalog models --show`: one model explained, shipped or the user's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("llama-3.1-8b", ("8.03B parameters", "attention, 32 heads over 8 KV heads of 128", "MLP of 14,336")),
        ("Qwen/Qwen3.5-35B-A3B", ("3.45B active", "gated delta net", "Recurrent: 30 of 40 layers", "vision tower")),
        ("deepseek-v3.2", ("latent attention", "Sparse: 61 of 61 layers", "reads 2,048 chosen")),
        ("deepseek-v4-pro", ("Compressed:", "4 residual streams", "entries of 128 tokens")),
        ("nemotron-3-super-120b-a12b-nvfp4", ("state space", "in a space of 1,024", "layers mix no tokens")),
        ("gemma-3-12b", ("Windows: 40 of 48 layers keep at most 1,024",)),
    ],
)
def test_a_model_is_explained_in_80_columns(ask_gpufleet: Run, model: str, said: tuple[str, ...]) -> None:
    done = ask_gpufleet("catalog", "models", "--show", model)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    words = " ".join(done.stdout.split())
    assert [text for text in said if text not in words] == []


def test_parts_sum_to_the_model_and_the_cache_grows(ask_gpufleet: Run) -> None:
    found = json.loads(ask_gpufleet("catalog", "models", "--show", "minimax-m3-nvfp4", "-o", "json").stdout)
    assert sum(part["num_parameters"] for part in found["parts"]) == found["num_parameters"] == 427_040_132_864
    assert sum(part["checkpoint_bytes"] for part in found["parts"]) == pytest.approx(found["checkpoint_bytes"])
    assert sum(kind["count"] for kind in found["layers"]) == 60
    held = [context["kv_bytes"] for context in found["contexts"]]
    assert held == sorted(held)
    assert found["vision"]["image_tokens"] > 1000


def test_a_config_of_ones_own_is_explained_with_what_was_assumed(ask_gpufleet: Run, tmp_path: Path) -> None:
    shape = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048}
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"model_type": "newcomer", **shape, "vocab_size": 1000}))
    done = ask_gpufleet("catalog", "models", "--show", str(own))
    assert done.returncode == 0
    assert "newcomer is not known" in " ".join(done.stdout.split()).replace("'", "")
    own.write_text(json.dumps({"model_type": "newcomer", **shape, "vocab_size": 1000, "ssm_state_size": 64}))
    done = ask_gpufleet("catalog", "models", "--show", str(own))
    assert done.returncode == 2
    assert "ssm_state_size" in done.stderr


def test_an_unknown_name_offers_the_nearest(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("catalog", "models", "--show", "qwen3.5-35b-a3")
    assert done.returncode == 2
    assert "qwen3.5-35b-a3b" in done.stderr
