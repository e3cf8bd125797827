"""Laws of the classic arithmetic over all questions that can be asked of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.compat.classic import AWSGPUMigrationAnalyzer, Goal, WorkloadType
from gpufleet.compat.classic.analysis import analysis
from gpufleet.compat.classic.arithmetic import Setup, gpus_needed, memory_needed_gb, monthly_saving_usd
from gpufleet.compat.classic.options import Question, option

ANALYZER = AWSGPUMigrationAnalyzer(true_today=False)
CONFIG = ANALYZER.config
SETUPS = st.builds(
    Setup,
    st.sampled_from(list(CONFIG.instances.values())),
    st.integers(1, 64),
    st.floats(0.5, 744),
    st.booleans(),
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    work, size = draw(st.sampled_from(WorkloadType)), draw(st.sampled_from(list(CONFIG.sizes.values())))
    precision = draw(st.sampled_from(list(CONFIG.precisions.values())))
    needed_gb = memory_needed_gb(CONFIG, size, precision, work)
    return Question(draw(SETUPS), work, size, precision, draw(st.sampled_from(Goal)), needed_gb)


@given(questions())
def test_an_option_equal_to_today_saves_nothing(question: Question) -> None:
    found = option(question, replace(question.today))
    assert found.is_today
    assert (found.saving_usd, found.saving_percent, found.speed_ratio) == (0, 0, 1)


@given(SETUPS, SETUPS)
def test_what_one_way_saves_the_other_way_costs(one: Setup, other: Setup) -> None:
    assert monthly_saving_usd(one, other) == -monthly_saving_usd(other, one)


@given(SETUPS)
def test_spot_never_costs_more_than_on_demand(setup: Setup) -> None:
    assert replace(setup, use_spot=True).monthly_usd <= replace(setup, use_spot=False).monthly_usd


@given(questions())
@settings(deadline=None)
def test_nothing_that_cannot_fit_is_recommended_or_listed(question: Question) -> None:
    found = analysis(CONFIG, question)
    shown = [*found.ranked, *found.best.values()]
    assert all(o.setup.gpu_count * o.setup.instance.gpu_memory_gb >= question.needed_gb - 1e-6 for o in shown)
    assert found.recommended is None or found.recommended in found.ranked


@given(questions())
@settings(deadline=None)
def test_today_is_an_option_exactly_when_it_fits(question: Question) -> None:
    found = analysis(CONFIG, question)
    assert any(o.is_today for o in found.ranked) is question.fits_today
    assert bool(found.remedies) is not question.fits_today


@given(questions())
def test_one_gpu_less_would_not_hold_the_model(question: Question) -> None:
    for instance in CONFIG.instances.values():
        least = gpus_needed(question.needed_gb, instance)
        assert least * instance.gpu_memory_gb >= question.needed_gb - 1e-6
        assert least == 1 or (least - 1) * instance.gpu_memory_gb < question.needed_gb


@given(questions())
@settings(deadline=None)
def test_no_acceptable_option_is_cheaper_than_the_one_recommended_for_cost(question: Question) -> None:
    found = analysis(CONFIG, replace(question, goal=Goal.COST))
    if found.recommended is not None:
        acceptable = [o for o in found.ranked if o.risk.level <= found.recommended.risk.level]
        assert found.recommended.setup.monthly_usd == min(o.setup.monthly_usd for o in acceptable)


@given(questions())
@settings(deadline=None, max_examples=40)
def test_a_report_is_never_wider_than_a_terminal(question: Question) -> None:
    report = ANALYZER.generate_migration_report(
        question.today.instance.key,
        question.today.gpu_count,
        question.work,
        question.size.key,
        question.today.monthly_hours,
        question.today.use_spot,
        question.precision.key,
        question.goal,
    )
    assert max(map(len, report.splitlines())) <= 80
