"""How two counts of a model are compared, without transformers: `tools/against_transformers.py`."""

from __future__ import annotations

import importlib.util
import json
from types import SimpleNamespace

import pytest
from tools.against_transformers import (
    BY_MODEL_TYPE,
    EXPERTS,
    NO_CLASS,
    NO_TOWER,
    OTHER,
    UNTIED,
    VISION,
    VOCABULARY,
    WHOLE,
    Comparison,
    Counts,
    comparison,
    comparison_lines,
    configs_of,
    decoder_counts,
    main,
    our_counts,
    summary_lines,
    with_untied_head,
)

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.models import load_model_config, model_names, shipped_architecture

TEXT = {VOCABULARY: 100, EXPERTS: 700, OTHER: 200}


def test_errors_that_cancel_in_the_total_still_differ():
    theirs, ours = Counts(TEXT), Counts({**TEXT, EXPERTS: 710, OTHER: 190})
    found = comparison("m", "MixtralForCausalLM", theirs, ours)
    assert found.theirs == found.ours == 1000
    assert found.differing == {EXPERTS: 10, OTHER: -10}
    assert not found.is_equal
    assert [line.strip() for line in comparison_lines(found)][1:] == ["routed experts: +10", "other weights: -10"]


def test_a_tower_that_gpufleet_does_not_read_is_left_out_and_told():
    found = comparison("m", "C", Counts({**TEXT, VISION: 50}), Counts(TEXT))
    assert found.is_equal
    assert (found.theirs, found.ours, found.remarks) == (1000, 1000, (NO_TOWER,))


@pytest.mark.parametrize("theirs", [{**TEXT, VISION: 50}, TEXT])
def test_a_tower_that_gpufleet_reads_is_compared(theirs):
    found = comparison("m", "C", Counts(theirs), Counts({**TEXT, VISION: 60}))
    assert found.differing == {VISION: 60 - theirs.get(VISION, 0)}
    assert not found.remarks


def test_a_head_counts_alone_only_where_the_config_unties_what_the_class_ties():
    table = SimpleNamespace(numel=lambda: 40)
    counts, tied, apart = Counts({WHOLE: 100}), [table, table], [table, SimpleNamespace(numel=lambda: 40)]
    unties = {"tie_word_embeddings": False}
    assert with_untied_head(counts, tied, unties) == Counts({WHOLE: 140}, (UNTIED,))
    for vocabulary, config in [(tied, {}), (tied, {"tie_word_embeddings": True}), (apart, unties), ([table], unties)]:
        assert with_untied_head(counts, vocabulary, config) == counts


@pytest.mark.parametrize("model", ["gpt2", "mixtral-8x7b", "gpt-oss-20b", "qwen3-vl-2b", "llama-3-8b"])
def test_parts_of_a_decoder_are_the_whole_of_it(model):
    arch = shipped_architecture(model)
    parts = decoder_counts(arch).parts
    assert sum(parts.values()) == num_parameters(arch)
    assert (VISION in parts) == (arch.vision is not None)
    assert parts[VOCABULARY] == arch.vocab_size * arch.hidden_size * (1 if arch.tied_embeddings else 2)


def test_an_encoder_is_compared_as_a_whole():
    assert our_counts(load_model_config("bert-base-uncased"), "bert").parts == {WHOLE: 109_482_240}


def test_the_last_line_counts_models_classes_and_what_was_not_compared():
    comparisons = [
        Comparison("a", "C", 10, 10, remarks=(BY_MODEL_TYPE,)),
        Comparison("b", "C", 10, 11, {OTHER: 1}),
        Comparison("c", "D", 7, 7),
        Comparison("d", why_not=NO_CLASS),
        Comparison("e", why_not=NO_CLASS),
    ]
    *remarks, last = summary_lines(comparisons)
    assert remarks == [f"1 compared {BY_MODEL_TYPE}: a"]
    assert last == f"3 models in 2 classes: 2 equal; not compared: 2 because {NO_CLASS} (d, e)"


def test_configs_come_from_the_catalog_or_from_files_and_folders(tmp_path):
    (tmp_path / "own").mkdir()
    for name in ("a_config.json", "a_hf_quant_config.json", "own/config.json"):
        (tmp_path / name).write_text(json.dumps({"from": name}), encoding="utf-8")
    assert dict(configs_of([tmp_path, tmp_path / "own" / "config.json"])) == {
        "a": {"from": "a_config.json"},
        "own": {"from": "own/config.json"},
    }
    assert [name for name, _ in configs_of([])] == model_names()


def test_without_transformers_one_message_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else object())
    assert main([]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1
    assert "pip install torch transformers ." in said.err
