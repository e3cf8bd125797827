"""What `gpufleet plan train` and `plan finetune` answer: flags laid over a workload file, put to the api."""

from __future__ import annotations

from gpufleet.api.training import FinetuneRequest, TrainRequest, planned
from gpufleet.cli.market import SHIPPED_MARKET, MarketFlags
from gpufleet.cli.money import write_money_in
from gpufleet.cli.plan_words import SaidWords, model_of, needed, with_words
from gpufleet.inputs.workload import WorkloadFile, read_workload, refuse_said
from gpufleet.questions.training import TrainingRequest, words_of_training
from gpufleet.results.training import TrainingPlan

VERBS: dict[type[TrainingRequest], str] = {TrainRequest: "plan train", FinetuneRequest: "plan finetune"}


def training_answer(
    kind: type[TrainRequest] | type[FinetuneRequest],
    typed: WorkloadFile,
    preferred: WorkloadFile,
    workload: str | None,
    market: MarketFlags = SHIPPED_MARKET,
) -> TrainingPlan:
    """The plan for what was typed, over what the file says, over what is preferred."""
    written = WorkloadFile() if workload is None else read_workload(workload)
    verb, words = VERBS[kind], words_of_training(kind)
    refuse_said(written, words, verb)
    said = typed.over(written)
    write_money_in(said.text("currency"), preferred.text("currency"))
    model = model_of(said, verb)
    needed(said.text("tokens"), "--tokens", "how many tokens to train on, such as 50M or 2T")
    asked = SaidWords.of(typed, written, preferred.only(words))
    return planned(with_words(kind(model), asked, market), market.tables())
