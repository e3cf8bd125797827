"""`gpufleet rules`: the seeds' rules of thumb, each beside our model's own answer."""

from __future__ import annotations

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of
from gpufleet.cli.options import OutputFormat, Written, verb_group
from gpufleet.compat.rules_today.questions import (
    TRAINING_EXAMPLES,
    GpusQuestion,
    MemoryQuestion,
    RightSizeQuestion,
    RuntimeQuestion,
    SavingsQuestion,
    ScalingQuestion,
)
from gpufleet.questions.words import Request
from gpufleet.table import resolved

app = verb_group("Rules of thumb by the seeds' arithmetic, each beside our model's own answer.")

RULES: dict[str, tuple[type[Request], str]] = {
    "memory": (MemoryQuestion, "memory:memory_answer"),
    "runtime": (RuntimeQuestion, "runtime:runtime_answer"),
    "scaling": (ScalingQuestion, "scaling:scaling_answer"),
    "gpus": (GpusQuestion, "gpus:gpus_answer"),
    "right-size": (RightSizeQuestion, "right_size:right_size_answer"),
    "savings": (SavingsQuestion, "savings:savings_answer"),
}
"""The question of each verb, which says what the verb is for, and what answers it."""


def add_rule(name: str, question: type[Request], answered_by: str) -> None:
    """The verb of one rule."""

    def rule(asked: Typed, written: Written) -> int:
        from gpufleet.compat.rules_today.page import rule_page, rule_rows_page

        example = TRAINING_EXAMPLES.get(question) if asked.words.text("training") else None
        answer = resolved(f"compat.rules_today.{answered_by}")(asked.request(question, example))
        is_csv = (written.output or format_of(written.out_file)) is OutputFormat.CSV
        emit(answer, rule_rows_page(answer) if is_csv else rule_page(answer), written.output, written.out_file)
        return 0

    rule.__doc__ = question.__doc__
    app.command(name)(asking(question)(rule))


for verb, (asked_by_it, answer) in RULES.items():
    add_rule(verb, asked_by_it, answer)
