"""Our own answers beside the rules: counted where they are counted, unknown where they are unknown."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from gpufleet.api import estimate, estimate_encoder, fit
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.places import list_discounts
from gpufleet.cli import main
from gpufleet.compat import rules
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow
from gpufleet.compat.rules_today.gpus import gpus_answer
from gpufleet.compat.rules_today.memory import memory_answer
from gpufleet.compat.rules_today.page import rule_page
from gpufleet.compat.rules_today.questions import (
    MEMORY_OF_TRAINING,
    RUNTIME_OF_TRAINING,
    GpusQuestion,
    MemoryQuestion,
    RightSizeQuestion,
    RuntimeQuestion,
    SavingsQuestion,
    ScalingQuestion,
)
from gpufleet.compat.rules_today.right_size import right_size_answer
from gpufleet.compat.rules_today.runtime import runtime_answer
from gpufleet.compat.rules_today.savings import savings_answer
from gpufleet.compat.rules_today.scaling import scaling_answer
from gpufleet.compat.rules_today.stand_ins import LADDER, model_of
from gpufleet.errors import UsageError
from gpufleet.report.text import page_as_text
from gpufleet.units import GIB

VERBS = ("memory", "runtime", "scaling", "gpus", "right-size", "savings")


def row(answer: RuleAnswer, name: str, table: int = 0) -> RuleRow:
    return next(r for r in answer.tables[table].rows if r.name.startswith(name))


def test_memory_sets_the_seeds_parts_beside_those_of_fit() -> None:
    answer = memory_answer(MemoryQuestion())
    seed = rules.calculate_memory_requirements(7_000_000_000, 2, 4, 2048)
    assert [r.seed for r in answer.tables[0].rows if r.seed is not None] == list(seed.values())
    ours = fit("llama-2-7b", "A100-80GB:1", 2048, precision="fp16", batch=4)
    assert ours.total_bytes is not None
    total = row(answer, "total").ours
    assert total is not None
    assert total.value == pytest.approx(ours.total_bytes.value / GIB)


def test_the_cache_is_counted_from_heads_that_the_rule_does_not_know() -> None:
    shared = row(memory_answer(MemoryQuestion(model="llama-3.1-8b")), "KV cache").ours
    every_head = row(memory_answer(MemoryQuestion(model="llama-2-7b")), "KV cache").ours
    assert shared is not None
    assert every_head is not None
    assert every_head.value == 4 * shared.value == 4.0


def test_training_counts_weights_gradients_moments_and_activations() -> None:
    answer = memory_answer(MEMORY_OF_TRAINING)
    weights, moments = row(answer, "model weights").ours, row(answer, "optimizer states").ours
    assert weights is not None
    assert moments is not None
    assert moments.value == 2 * weights.value
    kept = row(answer, "activations").ours
    assert kept is not None
    assert kept.value > 0
    assert row(answer, "KV cache").ours_text == "training keeps none"


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_weights_in_training_are_those_of_fit(precision: str) -> None:
    weights = row(memory_answer(MemoryQuestion(precision=precision, training=True)), "model weights").ours
    checkpoint_bytes = fit("llama-2-7b", "H100:1", precision=precision).checkpoint_bytes_per_gpu
    assert weights is not None
    assert weights.value * GIB == checkpoint_bytes


def test_a_named_model_brings_its_own_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "memory", "--model", "llama-3.1-8b", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    by_hand = rules.calculate_memory_requirements(8_030_261_248, 2, 4, 2048)
    assert answer["tables"][0]["rows"][0]["seed"] == by_hand["model_weights_gb"]
    assert main(["rules", "scaling", "--model", "llama-3.1-8b", "--strategy", "data"]) == 0
    assert "16.06 GB" in capsys.readouterr().out.splitlines()[0]


def test_a_bound_of_training_counts_the_experts_that_a_token_meets() -> None:
    dense, sparse = (
        row(runtime_answer(RuntimeQuestion(gpus=("H100",), training=True, model=name)), "least on one").ours
        for name in ("llama-30b", "qwen3-30b-a3b")
    )
    assert dense is not None
    assert sparse is not None
    assert sparse.value < dense.value / 5


def test_the_recommended_gpu_really_holds_it() -> None:
    said = row(memory_answer(MemoryQuestion(parameters=13e9)), "recommended").ours_text
    gpu = said.split()[1]
    assert fit("llama-2-13b", f"{gpu}:1", 2048, precision="fp16", batch=4).fits


def test_reading_is_one_pass_and_writing_is_one_for_each_token() -> None:
    answer = runtime_answer(RuntimeQuestion())
    for table in range(2):
        read, written = (row(answer, f"time to {what} them", table) for what in ("read", "write"))
        assert read.ours is not None
        assert written.ours is not None
        assert read.seed == written.seed
        assert written.ours.value > 20 * read.ours.value


def test_the_latency_beside_the_rule_is_that_of_estimate() -> None:
    found = row(runtime_answer(RuntimeQuestion(gpus=("H100",))), "time to read them").ours
    alone = estimate("llama-2-7b", "H100:1", input_tokens=1000, output_tokens=1, batch=1, precision="fp16")
    assert found == alone.latency_s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "tokens", "bottlenecks"),
    [
        ("llama-2-7b", 10, "memory to read, memory to write"),
        ("llama-2-7b", 1000, "arithmetic to read, memory to write"),
        ("gpt2", 100, "kernel latency to read, kernel latency to write"),
    ],
)
def test_what_bounds_reading_and_writing_is_asked_not_known(model: str, tokens: float, bottlenecks: str) -> None:
    answer = runtime_answer(RuntimeQuestion(gpus=("H100",), model=model, tokens=tokens))
    assert row(answer, "bottleneck").ours_text == bottlenecks


def test_a_model_that_does_not_fit_has_no_bottleneck() -> None:
    answer = runtime_answer(RuntimeQuestion(gpus=("L4",), model="llama-3.3-70b"))
    assert [row(answer, name).ours for name in ("time to read", "time to write")] == [None, None]
    assert "does not fit" in row(answer, "time to write").ours_text
    assert row(answer, "bottleneck").ours_text == ""


@pytest.mark.slow
def test_training_times_of_the_seeds_are_far_longer_than_ours_on_the_same_gpus() -> None:
    answer = runtime_answer(RuntimeQuestion())
    runs = answer.tables[-1].rows
    assert len(runs) == len(rules.TRAINING_RUNS)
    for run in runs:
        assert run.ours is not None
        assert run.ours.low is not None
        assert run.ours.high is not None
        assert isinstance(run.seed, float)
        assert run.ours.low < run.ours.value < run.ours.high < run.seed
    assert [r.name for r in runs if "all weights take" in r.ours_text] == [
        "GPT-J 6B, A100 40GB", "Llama-7B, A100 40GB", "Llama-65B, 8x A100 80GB",
    ]  # fmt: skip


def test_a_speedup_is_a_ratio_of_two_estimates() -> None:
    answer = scaling_answer(ScalingQuestion(num_gpus=4, batch=16))
    load = {"input_tokens": 1000, "output_tokens": 200}
    alone = estimate("llama-2-7b", "A100-80GB:1", concurrency=16, **load).output_tokens_per_s.value
    sharded = estimate("llama-2-7b", "A100-80GB:4", concurrency=16, **load).output_tokens_per_s.value
    copies = 4 * estimate("llama-2-7b", "A100-80GB:1", concurrency=4, **load).output_tokens_per_s.value
    for name, together in (("tensor", sharded), ("data", copies)):
        found = row(answer, f"{name}: speedup").ours
        assert found is not None
        assert found.value == pytest.approx(together / alone)


def test_scaling_tells_where_the_seed_ends() -> None:
    assert any("breaks off" in note for note in scaling_answer(ScalingQuestion()).notes)


def test_more_gpus_than_sequences_is_said_not_reckoned() -> None:
    found = row(scaling_answer(ScalingQuestion(num_gpus=8, batch=4)), "data: speedup")
    assert (found.ours, found.ours_text) == (None, "fewer sequences than GPUs")


@pytest.mark.slow
@pytest.mark.parametrize(("parameters", "memory_gb"), [(70e9, 80.0), (13e9, 24.0), (7e9, 16.0)])
def test_the_number_of_gpus_holds_it_and_one_fewer_does_not(parameters: float, memory_gb: float) -> None:
    answer = gpus_answer(GpusQuestion(parameters=parameters, gpu_memory_gb=memory_gb))
    found = row(answer, "inference, whole").ours
    assert found is not None
    model = model_of(None, parameters).asked
    gpu = {80.0: "A100-80GB", 24.0: "A10G", 16.0: "T4"}[memory_gb]
    assert fit(model, f"{gpu}:{found.value:.0f}", 4096, precision="fp16", batch=1).fits
    if found.value > 1:
        assert not fit(model, f"{gpu}:{found.value - 1:.0f}", 4096, precision="fp16", batch=1).fits


def test_a_seven_billion_model_does_not_run_on_the_t4_that_the_seed_gives_it() -> None:
    found = row(right_size_answer(RightSizeQuestion(model="llama 7b")), "Llama 7B")
    assert found.seed == "14 GB, T4 / A10G"
    assert "not on one T4" in found.ours_text
    assert not fit("llama-2-7b", "T4:1", 2048, batch=1).fits


@pytest.mark.slow
def test_no_machine_on_aws_that_holds_it_costs_less_than_the_cheapest() -> None:
    found = row(right_size_answer(RightSizeQuestion(model="llama 13b")), "  cheapest").ours_text
    number, gpu, _, machine, price = found.replace(",", "").replace("x ", " ").split()
    assert fit("llama-2-13b", f"{gpu}:{number}", 2048, batch=1).fits
    assert float(price.removeprefix("$").removesuffix("/h")) <= 1.87  # g6e.xlarge, one L40S of 48 GB
    assert machine.startswith("g")


def test_a_model_is_told_what_concerns_it_alone() -> None:
    llama, whisper = (right_size_answer(RightSizeQuestion(model=model)) for model in ("llama 7b", "whisper tiny"))
    assert "GPT-2" not in " ".join([*llama.differences, *llama.notes])
    assert "Whisper" not in " ".join([*llama.differences, *llama.notes])
    assert "KV" not in " ".join([*whisper.differences, *whisper.notes])


@pytest.mark.slow
def test_speech_models_are_held_by_the_gpus_that_encode_says_hold_them() -> None:
    rows = right_size_answer(RightSizeQuestion()).tables[0].rows
    speech = [r for r in rows if r.name.startswith("Whisper")]
    assert len(speech) == 6
    for entry in speech:
        name = entry.name.casefold().replace(" ", "-")
        heard = estimate_encoder(name, "T4", batch=1, beams=5, precision="fp16", engine="openai-whisper")
        assert heard.is_held
        assert entry.ours_text.startswith(f"{heard.memory_bytes.value / 1e9:.1f} GB; on one T4")


def test_the_cheapest_machine_for_speech_runs_its_engine() -> None:
    found = row(right_size_answer(RightSizeQuestion(model="whisper large-v3")), "  cheapest").ours_text
    gpu = found.split()[1]
    assert estimate_encoder("whisper-large-v3", gpu, batch=1, engine="openai-whisper", precision="fp16").is_held


@pytest.mark.slow
def test_examples_outside_of_their_class_are_told() -> None:
    classes = right_size_answer(RightSizeQuestion()).tables[1].rows
    assert "GPT-2 Large 1.5 GB in FP16 (Small)" in row(right_size_answer(RightSizeQuestion()), "Medium", 1).ours_text
    assert len(classes) == len(rules.SIZE_CATEGORIES)


def test_environments_stand_at_their_own_price_and_at_todays() -> None:
    answer = savings_answer(SavingsQuestion())
    production = row(answer, "Production Inference")
    assert production.seed == pytest.approx(1624.32)
    assert production.ours is not None
    assert production.ours.value == pytest.approx(3 * 0.752 * 730)
    assert "$1,623" in production.ours_text


def test_commitments_that_the_catalog_holds_stand_beside_the_seeds_range() -> None:
    reserved = row(savings_answer(SavingsQuestion(instance="g4dn.xlarge")), "Reserved")
    assert reserved.ours is not None
    assert reserved.ours.value == pytest.approx(383.98 * (1 - 0.37), rel=0.02)
    elsewhere = row(savings_answer(SavingsQuestion(instance="p5.48xlarge")), "Reserved")
    [year] = [d for d in list_discounts(load_catalog()).rows if d.price_kind == "commit_1y"]
    assert f"1 year saves {year.held_median_ratio:.0%}" in elsewhere.ours_text


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["memory", "runtime", "gpus"])
def test_a_size_or_a_model_is_said_with_or_without_its_option(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> str:
        assert main(["rules", verb, *words]) == 0
        return capsys.readouterr().out

    assert told("13B") == told("--parameters", "13B")
    assert told("llama-3.1-8b") == told("--model", "llama-3.1-8b")
    assert main(["rules", verb, "13B", "--parameters", "7B"]) == 2


def test_a_price_that_is_not_held_is_unknown_and_never_zero() -> None:
    staging = row(savings_answer(SavingsQuestion()), "Staging")
    assert (staging.ours, staging.ours_text) == (None, "price unknown")


def test_the_night_of_the_seed_is_eight_hours() -> None:
    answer = savings_answer(SavingsQuestion(price_usd_per_hour=1.0))
    off = row(answer, "off 12 h")
    assert off.seed == pytest.approx(360)
    assert off.ours is not None
    assert off.ours.value == pytest.approx(730 * 12 / 24)
    assert off.ours_text == ""


def test_both_figures_of_a_night_are_for_the_hours_that_were_asked() -> None:
    off = row(savings_answer(SavingsQuestion(price_usd_per_hour=1.0, night=(22.0, 6.0))), "off 8 h")
    assert off.seed == pytest.approx(720 * 16 / 24)
    assert off.ours is not None
    assert off.ours.value == pytest.approx(730 * 16 / 24)
    assert off.ours_text == "off 22:00 to 06:00"


def test_what_was_not_asked_is_not_said_to_be() -> None:
    page = page_as_text(rule_page(savings_answer(SavingsQuestion(price_usd_per_hour=1.0, spot_ratio=0.5))), 80)
    assert "Asked: spot saving 50%." in page
    assert "Not asked: off 12 h a day." in page


def test_cost_and_energy_of_a_moment_are_not_nothing() -> None:
    answer = runtime_answer(RuntimeQuestion())
    page = page_as_text(rule_page(answer), 80)
    assert "$0.00 " not in page
    assert " 0 kWh" not in page
    cost, energy = row(answer, "cost"), row(answer, "energy")
    assert cost.seed == pytest.approx(1.5 * (1.4e13 / (0.6 * 70e12)) / 3600)
    assert energy.seed == pytest.approx(0.35 * (1.4e13 / (0.6 * 70e12)) / 3600)


@pytest.mark.slow
def test_a_gpu_of_the_catalog_without_a_stated_price_has_no_cost() -> None:
    assert row(runtime_answer(RuntimeQuestion(gpus=("H100",))), "cost").seed == "unknown: --price"
    priced = row(runtime_answer(RuntimeQuestion(gpus=("H100",), price_usd_per_hour=4.0)), "cost").seed
    assert isinstance(priced, float)
    assert priced > 0


def test_a_machine_without_price_asks_for_one() -> None:
    with pytest.raises(UsageError, match="--price"):
        savings_answer(SavingsQuestion(instance="p3.2xlarge"))
    assert savings_answer(SavingsQuestion(instance="p3.2xlarge", price_usd_per_hour=3.06)).tables


def test_a_machine_may_be_free(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "savings", "--price", "0", "-o", "json"]) == 0
    [own] = json.loads(capsys.readouterr().out)["tables"]
    assert own["rows"][0]["seed"] == 0


def test_the_ladder_answers_near_and_says_when_it_is_far() -> None:
    assert [model_of(None, size * 1e9).asked for size in (7, 13, 70)] == ["llama-2-7b", "llama-2-13b", "llama-2-70b"]
    assert "times the parameters" in model_of(None, 1.7e12).note
    assert all(model_of(name, 1e9).asked == name for name in LADDER)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_page_fits_eighty_columns_and_says_why_they_differ(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", verb]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 80
    assert "…" not in page
    assert "the seed's rule" in page
    assert "our model" in page
    assert "Why they differ:" in page


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_json_and_csv_hold_every_row(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", verb, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert main(["rules", verb, "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    named = [(table["title"], r["name"]) for table in answer["tables"] for r in table["rows"]]
    assert [(r["table"], r["name"]) for r in rows] == named
    assert answer["differences"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("memory --parameters 7", "350M"),
        ("memory --parameters 1e6B", "100,000B"),
        ("memory --parameters nan", "--parameters: cannot read a count"),
        ("memory --precision fp61", "fp16"),
        ("memory --batch 0", "1"),
        ("memory --sequence -5", "tokens"),
        ("memory --model llama-3.3-70bb", "llama-3.3-70b"),
        ("memory --gpu H1000", "H100"),
        ("runtime --gpu datacentre", "datacenter"),
        ("runtime --gpu H1000", "H100"),
        ("runtime --efficiency 0", "efficiency"),
        ("runtime --efficiency 1.5", "--efficiency: "),
        ("runtime --tokens 0", "positive"),
        ("runtime --tokens-per-s -1", "positive"),
        ("runtime --price 1e308", "--price is out of range"),
        ("savings --price 1e308", "--price is out of range"),
        ("savings --price 1e-300", "--price is out of range"),
        ("runtime --memory-moved 14", "80GiB"),
        ("runtime --precision fp99", "fp16"),
        ("scaling --gpus 0", "1"),
        ("scaling --strategy sideways", "pipeline"),
        ("scaling --overhead 100%", "communication_overhead"),
        ("scaling --model-size 0GB", "positive"),
        ("scaling --gpu H1000", "H100"),
        ("gpus --gpu-memory 80", "80GiB"),
        ("gpus --gpu H1000", "H100"),
        ("gpus --users -1", "1"),
        ("gpus --context 1e12", "tokens"),
        ("memory --sequence 1e12", "tokens"),
        ("runtime --tokens 1e12", "tokens"),
        ("scaling --batch 10000000", "1000000"),
        ("right-size llama70b", "Llama 7B"),
        ("right-size --context 0", "positive"),
        ("savings --instance g5.xlargee", "g5.xlarge"),
        ("savings --price -1", "0"),
        ("savings --price nan", "price"),
        ("savings --spot 120%", "share"),
        ("savings --off 25-3", "22-6"),
        ("savings --off night", "22-6"),
        ("savings --hours 9000", "744"),
        ("saving", "savings"),
    ],
)
def test_nonsense_gets_one_message(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gpufleet: error: ")
    assert err.count("\n") == 1
    assert told in err


def test_the_calculators_load_with_the_standard_library_alone() -> None:
    code = (
        "import gpufleet.compat.rules, sys\n"
        "heavy = {'numpy', 'pydantic', 'yaml', 'typer', 'rich', 'jinja2'} & set(sys.modules)\n"
        "print(sorted(heavy), sorted(m for m in sys.modules if m.startswith('gpufleet.') and 'compat' not in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['gpufleet.errors', 'gpufleet.units']"


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_without_options_nothing_counts_as_asked(training: bool) -> None:
    answer = runtime_answer(RUNTIME_OF_TRAINING if training else RuntimeQuestion())
    assert {i.origin for i in answer.inputs} == {"default"}
    assert "operations" not in [i.name for i in answer.inputs]


def test_the_count_of_operations_is_shown_with_its_factors() -> None:
    answer = runtime_answer(RuntimeQuestion(tokens=500))
    assert [i.name for i in answer.inputs if i.origin == "given"] == ["tokens"]
    assert answer.notes[0] == "The seed counts 7e+12 operations: 2 x 7B parameters x 500 tokens."
