"""What the classic arithmetic recommends, and why."""

from __future__ import annotations

import pytest

from gpufleet.compat.classic import AWSGPUMigrationAnalyzer, Goal, ModelSize, WorkloadType
from gpufleet.compat.classic.analysis import Analysis, analysis
from gpufleet.compat.classic.arithmetic import relative_speed
from gpufleet.compat.classic.judgement import Level
from gpufleet.compat.classic.records import Scenario
from gpufleet.errors import GpufleetError

ANALYZER = AWSGPUMigrationAnalyzer(true_today=False)


def asked(*words: object, **named: object) -> Analysis:
    return analysis(ANALYZER.config, ANALYZER.question(Scenario(*words, **named)))  # type: ignore[arg-type]


def test_over_provisioned_inference_moves_to_one_g6e_and_saves_more_than_ninety_percent() -> None:
    best = asked("P5", 1, WorkloadType.INFERENCE, ModelSize.SMALL).recommended
    assert best is not None
    assert (best.setup.label, best.saving_usd, round(best.saving_percent)) == ("1x G6e", 33_480, 93)


def test_p4d_to_g6e_saves_just_less_than_the_guide_says() -> None:
    found = asked("P4d", 1, "inference", "small")
    g6e = next(o for o in found.ranked if o.setup.label == "1x G6e")
    assert round(g6e.saving_percent, 1) == 89.1


def test_training_on_p5_is_two_to_three_times_as_fast_as_on_p4d() -> None:
    config = ANALYZER.config
    for count in (1, 8):
        ratio = relative_speed(config.instance("P5"), count) / relative_speed(config.instance("P4d"), count)
        assert 2 <= ratio <= 3


def test_fine_tuning_moves_to_g6e_as_the_guide_considers() -> None:
    best = asked("P5", 2, "fine-tuning", "medium").recommended
    assert best is not None
    assert best.setup.label == "3x G6e"


def test_the_per_size_multiplier_counts_for_training_and_not_for_inference() -> None:
    assert ANALYZER.question(Scenario("P6", 8, "training", ModelSize.EXTRA_LARGE)).needed_gb == 200 * 2 * 1.8
    assert ANALYZER.question(Scenario("P6", 8, "inference", ModelSize.EXTRA_LARGE)).needed_gb == 200 * 2 * 1.2
    assert ANALYZER.question(Scenario("P6", 8, "fine_tuning", ModelSize.SMALL)).needed_gb == 13 * 2 * 1.5


def test_what_cannot_fit_gets_the_three_solutions_with_numbers() -> None:
    found = asked("P5", 2, "training", "large")
    texts = [remedy.text for remedy in found.remedies]
    assert not found.question.fits_today
    assert texts[0].startswith("Use INT8: 150 GB needed, fits 2x P5")
    assert any(text.startswith("Increase the GPU count: 4x P5") for text in texts)
    assert any("2x P6 (192 GB per GPU)" in text for text in texts)


def test_every_scenario_but_the_example_fits_where_it_runs() -> None:
    for workload in ANALYZER.config.workloads.values():
        data = ANALYZER.report_of(workload.key).data
        assert data["current"]["fits"] is not workload.custom, workload.key


def test_expected_outcomes_come_out() -> None:
    cheaper = ANALYZER.report_of("inference_small_p5").data["recommendation"]["option"]
    faster = ANALYZER.report_of("training_large_p4d").data
    assert cheaper["instance"] in ("G6", "G6e")
    p5 = next(o for o in faster["options"] if (o["instance"], o["gpu_count"]) == ("P5", 8))
    assert 2 <= p5["performance_ratio"] <= 3
    massive = ANALYZER.report_of("inference_massive_p5e").data["recommendation"]["option"]
    assert massive["instance"] == "P6"
    assert massive["performance_ratio"] > 1


@pytest.mark.parametrize("goal", list(Goal))
def test_goals_rank_by_what_they_say(goal: Goal) -> None:
    found = asked("P4d", 8, "training", "large", goal=goal)
    first = found.recommended
    assert first is found.ranked[0]
    assert first is not None
    if goal is Goal.COST:
        low = [o.setup.monthly_usd for o in found.ranked if o.risk.level is not Level.HIGH]
        assert first.setup.monthly_usd == min(low)
    elif goal is Goal.PERFORMANCE:
        assert first.speed_ratio == max(o.speed_ratio for o in found.ranked)
    else:
        assert first.risk.level == min(o.risk.level for o in found.ranked)
        assert not first.is_today  # its 320 GB are 94 % full


def test_spot_inference_is_never_of_low_risk() -> None:
    found = asked("G5", 2, "inference", "small", use_spot=True)
    assert all(o.risk.level is not Level.LOW for o in found.ranked)


def test_more_machines_than_today_are_of_high_risk() -> None:
    found = asked("P5", 1, "inference", "small")
    g4dn = next(o for o in found.ranked if o.setup.label == "2x G4dn")
    assert (g4dn.risk.level, g4dn.complexity.level) == (Level.HIGH, Level.HIGH)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("P7", 1, "inference", "small"), "Did you mean P6"),
        (("P5", 0, "inference", "small"), "a whole number from 1"),
        (("P5", 1.5, "inference", "small"), "a whole number from 1"),
        (("P5", 1, "inferense", "small"), "Did you mean inference"),
        (("P5", 1, "inference", "hugs"), "unknown model size"),
        (("P5", 1, "inference", "small", -1), "a number above 0"),
        (("P5", 1, "inference", "small", float("nan")), "a number above 0"),
        (("P5", 1, "inference", "small", 720, "yes"), "True or False"),
        (("P5", 1, "inference", "small", 720, False, "fp61"), "Did you mean fp16"),
        (("P5", 1, "inference", "small", 720, False, "fp16", "cheap"), "unknown goal"),
    ],
)  # fmt: skip
def test_a_wrong_word_is_refused_with_the_nearest(words: tuple[object, ...], says: str) -> None:
    with pytest.raises(GpufleetError) as caught:
        ANALYZER.question(Scenario(*words))  # type: ignore[arg-type]
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("symptom", "solution"),
    [
        ("CANNOT FIT MODEL", "Increase GPU count"),
        ("High Monthly Costs", "Right-size instance for workload"),
        ("low performance", "Consider newer GPU generations (P6 vs P5)"),
        ("nvidia-smi: command not found", "GPU-optimized AMI"),
        ("No GPU devices found", "GPU resource requirements"),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", "Reduce batch size"),
    ],
)
def test_symptoms_of_the_guides_are_answered(symptom: str, solution: str) -> None:
    assert solution in " ".join(ANALYZER.troubleshoot(symptom).split())


def test_an_unknown_symptom_names_the_known_ones() -> None:
    with pytest.raises(GpufleetError, match="out_of_memory"):
        ANALYZER.troubleshoot("zzz")


def test_training_in_eight_bits_is_offered_with_a_doubt() -> None:
    trained, served = (asked("P5", 1, work, "large").remedies[0].text for work in ("training", "inference"))
    assert trained.endswith("seldom trained in.")
    assert "seldom" not in served


def test_a_setup_that_holds_nothing_is_no_yardstick() -> None:
    report = " ".join(ANALYZER.generate_migration_report("G4dn", 1, "fine_tuning", "massive", use_spot=True).split())
    assert "1x G4dn cannot hold this model: 'Saves' and 'Speed' compare GPUs" in report
    assert "(76x used): CANNOT FIT MODEL" in report


def test_options_of_high_risk_stand_below_dearer_ones_and_that_is_said() -> None:
    report = " ".join(ANALYZER.report_of("inference_small_p5").split())
    assert report.index("2x G4dn $763") > report.index("1x P6 $43,200")
    assert "Options of high risk come last." in report
    assert "high risk come last" not in ANALYZER.report_of("training_large_p4d")


def test_titles_need_no_article() -> None:
    assert ANALYZER.generate_migration_report("P6", 8, "training", "extra_large").data["title"] == (
        "8x P6, training, Extra Large model, FP16"
    )
