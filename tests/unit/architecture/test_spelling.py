"""A key that is misspelt is told, not replaced by a default in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpufleet.api import fit
from gpufleet.architecture.encoder_parse import encoder_family_of
from gpufleet.architecture.families import family_of
from gpufleet.architecture.other_kinds import other_kind
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config, model_names
from gpufleet.errors import UsageError
from gpufleet.report.fit import fit_page
from gpufleet.report.formats import page_as_markdown
from gpufleet.report.html import page_as_html
from gpufleet.report.text import page_as_text


def decoders() -> list[str]:
    configs = {name: load_model_config(name) for name in model_names()}
    return [n for n, c in configs.items() if not encoder_family_of(c) and other_kind(family_of(c)) is None]


def renamed(name: str, key: str, other: str) -> dict[str, object]:
    config = load_model_config(name)
    return {(other if k == key else k): value for k, value in config.items()}


def warnings(config: Mapping[str, object]) -> list[str]:
    return [note for note in parse_architecture(config, "mine").notes if note.startswith("Warning: ")]


@pytest.mark.slow
@pytest.mark.parametrize("name", decoders())
def test_published_configs_raise_no_doubt(name: str) -> None:
    notes = parse_architecture(load_model_config(name), name).notes
    assert not [note for note in notes if note.startswith("Warning: ") or "leaves out" in note]


@pytest.mark.parametrize(
    ("name", "key", "typed", "taken"),
    [
        ("llama-3.1-8b", "num_key_value_heads", "num_key_value_head", "num_key_value_heads 32"),
        ("llama-3.1-8b", "num_key_value_heads", "numKeyValueHeads", "num_key_value_heads 32"),
        ("llama-3.1-8b", "num_key_value_heads", "num-key-value-heads", "num_key_value_heads 32"),
        ("qwen3-next-80b-a3b", "full_attention_interval", "full_atention_interval", "full_attention_interval 4"),
        ("qwen3-32b", "head_dim", "head_dims", "no head_dim"),
        ("mistral-7b-v0.1", "sliding_window", "sliding_windw", "no sliding_window"),
        ("llama-3.2-3b", "tie_word_embeddings", "tie_word_embedding", "no tie_word_embeddings"),
    ],
)
def test_a_misspelt_key_names_the_one_that_was_meant_and_what_was_taken(
    name: str, key: str, typed: str, taken: str
) -> None:
    [warning] = warnings(renamed(name, key, typed))
    assert f"{typed} is not a key of this family" in warning
    assert f"did you mean {key}?" in warning
    assert warning.endswith(taken)


@pytest.mark.slow
@pytest.mark.parametrize("name", decoders())
def test_any_key_of_sizes_that_loses_its_last_letter_is_told_or_refused(name: str) -> None:
    config = load_model_config(name)
    shape = parse_architecture(config, name)
    for key in ("num_key_value_heads", "hidden_size", "num_hidden_layers", "intermediate_size", "head_dim"):
        if key not in config:
            continue
        typed = renamed(name, key, key[:-1])
        try:
            changed = parse_architecture(typed, name)
        except UsageError:
            continue
        assert changed.blocks == shape.blocks or warnings(typed), key


def test_a_size_that_no_family_knows_is_told_with_the_default_that_was_taken() -> None:
    config = {k: v for k, v in load_model_config("llama-3.1-8b").items() if k != "num_key_value_heads"}
    notes = parse_architecture({**config, "kv_heads": 8}, "mine").notes
    assert "Warning: not read, though it may shape the model: kv_heads" in notes
    assert "The config leaves out, and the family's default was taken: num_key_value_heads 32" in notes


def test_what_shapes_nothing_is_not_told() -> None:
    config = load_model_config("llama-3.1-8b")
    harmless = {"num_beams": 4, "unsloth_fixed": True, "my_comment": "x", "hidden_act_size": 0, "pad_token_id": 7}
    assert warnings({**config, **harmless}) == []


def test_a_required_key_that_is_misspelt_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_architecture(renamed("llama-3.1-8b", "num_hidden_layers", "num_hiden_layers"), "mine")
    assert "the config lacks num_hidden_layers" in str(caught.value)
    assert "Did you mean num_hidden_layers by num_hiden_layers?" in str(caught.value)


def test_the_text_part_of_a_multimodal_config_is_named_too() -> None:
    name = next(n for n in decoders() if "text_config" in load_model_config(n))
    with pytest.raises(UsageError, match="Did you mean text_config by text_confg"):
        parse_architecture(renamed(name, "text_config", "text_confg"), "mine")
    config = load_model_config(name)
    text = config["text_config"]
    assert isinstance(text, dict)
    inner = {("num_hiden_layers" if k == "num_hidden_layers" else k): v for k, v in text.items()}
    with pytest.raises(UsageError, match="Did you mean num_hidden_layers"):
        parse_architecture({**config, "text_config": inner}, "mine")


def test_an_unknown_family_is_refused_in_a_sentence_that_can_be_read() -> None:
    sizes = {f"strange_size_{n}": n + 2 for n in range(15)}
    config = {**renamed("llama-3.1-8b", "num_hidden_layers", "num_hiden_layers"), **sizes, "model_type": "lama5"}
    with pytest.raises(UsageError) as caught:
        parse_architecture(config, "mine")
    told = str(caught.value)
    assert "Did you mean num_hidden_layers by num_hiden_layers?" in told
    assert "strange_size_0" in told
    assert "and 3 more" in told
    assert "Nearest family: llama" in told
    assert told.count("'") % 2 == 0
    assert len(told) < 600


def test_users_of_a_misspelt_model_are_warned_below_the_headline(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(renamed("llama-3.1-8b", "num_key_value_heads", "num_key_value_head")), encoding="utf-8")
    result = fit(str(file), "H100:1")
    assert any("did you mean num_key_value_heads" in note for note in result.notes)
    page = fit_page(result)
    for shown in (page_as_text(page, 80), page_as_markdown(page).replace("\\", ""), page_as_html(page)):
        words = " ".join(shown.split())
        assert 0 < words.index("Warning: num_key_value_head is not a key") < words.index("Engine vLLM")
        assert words.count("Warning: ") == 1
