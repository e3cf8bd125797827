"""Every verb under hostile input: one message, the right exit code, no traceback."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpufleet.table import VERBS

Run = Callable[..., "subprocess.CompletedProcess[str]"]
LONGEST_MESSAGE = 1000
PATIENCE_S = 20

SOUND_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{previous}'] * 9)}]\n"
    for previous, name in zip("abcdefgh", "bcdefghi", strict=True)
)


class Case(NamedTuple):
    """Words after `gpufleet`, the exit code, and what the message must contain."""

    words: str
    told: tuple[str, ...] = ()
    code: int = 2


FIT = "fit llama-3.3-70b --gpus L40S:4"
SIMULATE = "simulate llama-3.1-8b --gpus H100:1 --rate 5/s --in 1000 --out 200"
PLAN = "plan serve llama-3.3-70b --rate 50/s --in 1000 --out 300"
CASES = [
    Case("catalog gpus --gpu H1000", ("H100",)),
    Case("catalog gpus --min-memory 80", ("80GiB",)),
    Case("catalog gpus --min-memory nan"),
    Case("catalog gpus --min-memory -80GiB"),
    Case("catalog gpus --min-memory 1e999GiB"),
    Case("catalog instances --cloud awss", ("aws",)),
    Case("catalog prices --region us-esat-1", ("us-east-1",)),
    Case("catalog prices --limit 0"),
    Case("catalog prices --limit -5"),
    Case("catalog gpus --out-file missing/folder/gpus.csv", ("cannot write",)),
    Case("catalog gpus --catalog missing", ("missing",), 2),
    Case("catalog gpu", ("gpus",)),
    Case("fit llama-3.3-70bb --gpus L40S:4", ("llama-3.3-70b",)),
    Case("fit truncated.json --gpus L40S:4", ("truncated.json",)),
    Case("fit words.json --gpus L40S:4", ("words.json",)),
    Case("fit list.json --gpus L40S:4", ("list.json",)),
    Case("fit deep.json --gpus L40S:4", ("deep.json",)),
    Case("fit huge.json --gpus L40S:4", ("huge.json",)),
    Case("fit binary.json --gpus L40S:4", ("binary.json",)),
    Case("fit empty_folder --gpus L40S:4", ("empty_folder",)),
    Case("fit absurd.json --gpus L40S:4", ("hidden_size",)),
    Case("fit negative.json --gpus L40S:4", ("num_hidden_layers",)),
    Case("fit fraction.json --gpus L40S:4", ("num_attention_heads",)),
    Case("fit nan.json --gpus L40S:4"),
    Case("fit digits.json --gpus L40S:4"),
    Case("fit unknown_family.json --gpus L40S:4", ("llamma", "llama")),
    Case("fit llama-3.3-70b --gpus L40SS:4", ("L40S",)),
    Case("fit llama-3.3-70b --gpus L40S:0"),
    Case("fit llama-3.3-70b --gpus L40S:-4"),
    Case("fit llama-3.3-70b --gpus L40S:nan"),
    Case("fit llama-3.3-70b --gpus L40S:99999999999"),
    Case(f"{FIT} --context nan"),
    Case(f"{FIT} --context -8k"),
    Case(f"{FIT} --context 1e300"),
    Case(f"{FIT} --context 8kb"),
    Case(f"{FIT} --engine vlmm", ("vllm",)),
    Case(f"{FIT} --precision fp88", ("fp8",)),
    Case("fit llama-3.3-70b --gpus L40S:2", (), 3),
    Case("plan serve llama-3.3-70bb --rate 50/s --in 1000 --out 300", ("llama-3.3-70b",)),
    Case("plan serve llama-3.3-70b --rate 50 --in 1000 --out 300", ("50/s",)),
    Case("plan serve llama-3.3-70b --rate nan/s --in 1000 --out 300"),
    Case("plan serve llama-3.3-70b --rate -50/s --in 1000 --out 300"),
    Case("plan serve llama-3.3-70b --rate 50/s --in -1 --out 300"),
    Case("plan serve llama-3.3-70b --rate 50/s --in 1000 --out nan"),
    Case("plan serve llama-3.3-70b --rate 50/s --in 1e300 --out 300"),
    Case(f"{PLAN} --slo ttft.p95", ("ttft.p95<500ms",)),
    Case(f"{PLAN} --slo tfft<500ms", ("ttft",)),
    Case(f"{PLAN} --slo ttft<500", ("500ms",)),
    Case(f"{PLAN} --slo ttft<nanms"),
    Case(f"{PLAN} --clouds awss", ("aws",)),
    Case(f"{PLAN} --regions us-esat-1", ("us-east-1",)),
    Case(f"{PLAN} --gpus H1000", ("H100",)),
    Case(f"{PLAN} --pricing spott", ("spot",)),
    Case(f"{PLAN} --engine vlmm", ("vllm",)),
    Case(f"{PLAN} --precision fp88", ("fp8",)),
    Case(f"{PLAN} --headroom nan"),
    Case(f"{PLAN} --headroom -20%"),
    Case(f"{PLAN} --min-replicas -1"),
    Case(f"{PLAN} --out-file missing/folder/plan.json", ("cannot write",)),
    Case("plan serve --workload bomb.yaml", ("anchors",)),
    Case("plan serve --workload missing.yaml", ("missing.yaml",)),
    Case("plan serve --workload huge.json", ("at most 1 MB",)),
    Case("plan serve", ("MODEL",)),
    Case("plan sevre", ("serve",)),
    Case("estimate llama-3.3-70bb --gpus H100:8 --in 1000 --out 10 --full-queue", ("llama-3.3-70b",)),
    Case("simulate llama-3.1-8b --gpus H100:1", ("--rate",)),
    Case(f"{SIMULATE} --requests 1000000000", ("5,000,000",)),
    Case(f"{SIMULATE} --requests 1e300"),
    Case(f"{SIMULATE} --replicas 0", ("replicas",)),
    Case(f"{SIMULATE} --route leats_kv", ("least_kv",)),
    Case(f"{SIMULATE} --arrival gama", ("gamma",)),
    Case(f"{SIMULATE} --stretch nan", ("--stretch",)),
    Case(f"{SIMULATE} --per-request missing/rows.csv", ("cannot write",)),
    Case("encode bert-bsae --gpus T4 --in 128", ("bert-base",)),
    Case("encode bert-base --gpus T4", ("--in",)),
    Case("encode bert-base --gpus T44 --in 128", ("T4",)),
    Case("encode bert-base --gpus T4 --in nan"),
    Case("encode bert-base --gpus T4 --in 128 --batch 0"),
    Case("encode bert-base --gpus T4 --in 128 --batch 1e300"),
    Case("encode bert-base --gpus T4 --in 128 --engine sglang", ("transformers",)),
    Case("encode whisper-tiny --gpus T4 --engine tei", ("does not run whisper", "faster-whisper"), 3),
    Case("encode bert-base --gpus V100 --in 128 --engine tei", ("Volta", "infinity"), 3),
    Case("encode bert-base --gpus T4 --in 128 --precision fp99", ("precision",)),
    Case("encode whisper-tiny --gpus T4 --audio 10", ("unit",)),
    Case("encode whisper-tiny --gpus T4 --audio 1e300s"),
    Case("encode whisper-tiny --gpus T4 --beams -1", ("beams",)),
    Case("encode wav2vec2-base --gpus T4 --audio 100d"),
    Case("encode llama-3-8b --gpus T4 --in 128", ("no family of encoders",)),
    Case("encode words.json --gpus T4 --in 128"),
    Case("encode absurd.json --gpus T4 --in 128"),
    Case("encode empty_folder --gpus T4 --in 128"),
    Case("accuracy missing.csv", ("missing.csv",)),
    Case("accuracy words.json"),
]
LISTED = {verb.name for verb in VERBS}


def config(**changes: object) -> str:
    return json.dumps({**SOUND_CONFIG, **changes})


@pytest.fixture
def hostile_files(tmp_path: Path) -> Path:
    """A folder of files that no reader should trust."""
    texts = {
        "truncated.json": config()[:-40],
        "words.json": "this is no JSON",
        "list.json": "[1, 2]",
        "deep.json": "[" * 100_000,
        "absurd.json": config(hidden_size=10**15),
        "negative.json": config(num_hidden_layers=-3),
        "fraction.json": config(num_attention_heads=2.5),
        "nan.json": config(hidden_size=float("nan")),
        "digits.json": config().replace("4096", "9" * 5000),
        "unknown_family.json": config(model_type="llamma", ssm_state_size=128),
        "bomb.yaml": BOMB,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00{")
    (tmp_path / "empty_folder").mkdir()
    with (tmp_path / "huge.json").open("wb") as huge:
        huge.truncate(100_000_000)
    return tmp_path


@pytest.mark.parametrize("case", [c for c in CASES if c.words.split()[0] in LISTED], ids=lambda case: case.words)
def test_hostile_input_gets_one_message_and_its_exit_code(case: Case, hostile_files: Path, ask_gpufleet: Run) -> None:
    assert hostile_files.is_dir()
    start = time.process_time()
    done = ask_gpufleet(*case.words.split())
    assert done.returncode == case.code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert time.process_time() - start < PATIENCE_S
    if case.code != 3:
        assert done.stdout == ""
        assert done.stderr.startswith("gpufleet: error: ")
        assert done.stderr.count("\n") == 1
        assert len(done.stderr) < LONGEST_MESSAGE
    for part in case.told:
        assert part in done.stdout + done.stderr
