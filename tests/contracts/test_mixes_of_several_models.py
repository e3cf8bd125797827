"""Several models and quotas: what the page says of two machine types, which nobody looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import main

SERVICE = """
clouds: [aws]
regions: [us-east-1]
gpus: [L40S]
models:
  - {model: llama-3.1-8b, rate: 30/s, in: 800, out: 200, slo: 'tpot.p95<40ms'}
  - {model: qwen3-8b, rate: 30/s, in: 800, out: 200, slo: 'tpot.p95<40ms'}
"""


def told(folder: Path, quotas: dict[str, int], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (folder / "service.yaml").write_text(SERVICE, encoding="utf-8")
    rows = [f"aws,all,{name},all,{most}" for name, most in quotas.items()]
    text = "\n".join(["cloud,region,instance_type,price_kind,max_instances", *rows]) + "\n"
    tables = folder / "tables"
    tables.mkdir()
    (tables / "quotas.csv").write_text(text, encoding="utf-8")
    code = main(("plan", "serve", "--workload", str(folder / "service.yaml"), "--catalog", str(tables)))
    return code, " ".join(capsys.readouterr().out.split())


def test_a_cheaper_mix_of_one_model_is_named_where_no_table_of_it_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = told(
        tmp_path, {"g6e.xlarge": 9, "g6e.2xlarge": 5, "g6e.4xlarge": 2, "g6e.8xlarge": 2, "g6e.16xlarge": 2}, capsys
    )
    assert "Planned alone, two offers together would cost $" in text
    assert "Two offers together cost less" not in text


def test_quotas_too_small_for_all_do_not_read_as_if_nothing_could_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(tmp_path, {"all": 2}, capsys)
    assert code == 3
    assert "Two machine types for one model were not tried and may fit: plan a model alone" in text
