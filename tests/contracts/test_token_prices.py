"""Token APIs by name: which model, which host, of which day, and what is not known said."""

from __future__ import annotations

import json
from datetime import date

import pytest

from gpufleet.api.inquiries import names_host
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.token_prices import api_of, offers_of, resolve_host, token_offers
from gpufleet.cli import main
from gpufleet.errors import DataMissing, UnknownName

DAY = date(2026, 11, 28)
ASKED = ["--rate", "5/s", "--in", "1000", "--out", "300", "--gpus", "H100", "--as-of", "2026-11-28", "-o", "json"]


def test_every_price_has_a_host_a_source_and_either_a_day_or_the_day_its_list_was_first_seen():
    sources = load_catalog().sources
    assert len(token_offers()) == 337
    for offer in token_offers():
        source = sources[offer.source]
        assert (offer.as_of or source.first_seen) is not None, offer
        assert offer.price.usd_per_million_input_tokens <= offer.price.usd_per_million_output_tokens * 3, offer


def test_a_plan_beside_a_host_takes_its_price_and_says_whose_and_of_when(capsys: pytest.CaptureFixture[str]):
    assert main(["plan", "serve", "llama-3.3-70b", *ASKED, "--token-price", "OpenRouter"]) == 0
    found = json.loads(capsys.readouterr().out)["break_even"]
    [row] = [o for o in offers_of("llama-3.3-70b")[0] if o.host == "openrouter"]
    assert found["usd_per_million_output_tokens"] == row.price.usd_per_million_output_tokens
    assert (found["api"]["host"], found["api"]["as_of"], found["api"]["model"]) == (
        "openrouter",
        "2026-09-06",
        "llama-3.3-70b",
    )
    assert found["api"]["is_same_model"]


def test_models_of_one_shape_have_prices_of_their_own():
    """DeepSeek-R1 and V3 are one shape: their prices differ, and none is taken for the other."""
    r1, v3 = (api_of(f"deepseek-ai/DeepSeek-{name}", "nebius", 1000, 300, DAY) for name in ("R1", "V3"))
    assert (r1.model, v3.model) == ("deepseek-r1", "deepseek-v3")
    assert r1.usd_per_million_output_tokens != v3.usd_per_million_output_tokens
    zero = api_of("deepseek-ai/DeepSeek-R1-Zero", "nebius", 1000, 300, DAY)
    assert not zero.is_same_model
    assert api_of("unsloth/Llama-3.3-70B-Instruct-AWQ", "nebius", 1000, 300, DAY).is_same_model


def test_of_several_prices_at_a_host_the_least_for_these_requests_counts():
    several = [o for o in offers_of("deepseek-r1")[0] if o.host == "openrouter"]
    assert len(several) > 1
    api = api_of("deepseek-r1", "openrouter", 1000, 300, DAY)
    assert api.num_others_there == len(several) - 1
    paid = min(o.price.usd_per_request(1000, 300) for o in several)
    assert 1000 * api.usd_per_million_input_tokens + 300 * api.usd_per_million_output_tokens == pytest.approx(
        paid * 1e6
    )


def test_what_is_not_known_is_said(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UnknownName, match="together"):
        resolve_host("togehter")
    with pytest.raises(DataMissing, match="deepinfra"):
        api_of("llama-3.3-70b", "groq-ai", 1000, 300, DAY)
    ended = next(o for o in token_offers() if o.ends_on)
    with pytest.raises(DataMissing):
        api_of(ended.model, ended.host, 1000, 300, date(2030, 1, 1))
    assert main(["plan", "serve", "llama-3.3-70b", *ASKED, "--token-price", "acme"]) == 2
    assert main(["catalog", "token-prices", "no-such-model"]) == 2
    assert main(["catalog", "token-prices", "gpt2"]) == 5


def test_an_undated_or_weak_price_is_marked_in_the_listing(capsys: pytest.CaptureFixture[str]):
    assert main(["catalog", "token-prices", "deepseek-r1", "--provider", "hyperbolic,Fireworks_AI", "-o", "json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    rows = {row["host"]: row for row in listing["rows"]}
    assert set(rows) == {"hyperbolic", "fireworks"}
    assert rows["hyperbolic"]["doubt"]
    assert not rows["fireworks"]["doubt"]
    assert {(row["as_of"], row["first_seen"]) for row in listing["rows"]} == {(None, "2026-11-28")}
    assert main(["catalog", "token-prices", "deepseek-r1"]) == 0
    assert "undated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "is_host"), [("together", True), ("azure-ai", True), ("0.6/1.2", False), ("$0.6", False)]
)
def test_a_price_and_a_host_are_told_apart(text: str, is_host: bool):
    assert names_host(text) is is_host
