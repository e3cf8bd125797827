"""`gpufleet spot`: a job with a deadline on machines that may be taken away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, refuse_targets, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import OutFileOption, OutputFormat, OutputOption, verb
from gpufleet.errors import PolicyViolation, UsageError
from gpufleet.questions.spot import SpotRequest
from gpufleet.report.output_stream import remark

app = verb()

JobArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(
        metavar="[PLAN.json]", help="What plan train, finetune or batch wrote; else --work.", show_default=False
    ),
]
RulesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--rules", metavar="OUT.json", help="Also write the policy as data: a state machine with thresholds."),
]

ReplayOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--replay", metavar="LOG.csv", help="Check a log of ticks by a policy: PLAN.json is what --rules wrote."
    ),
]


@app.command(cls=GroupedCommand)
@asking(SpotRequest)
def spot(
    asked: Typed,
    job: JobArgument = None,
    rules: RulesOption = None,
    replay: ReplayOption = None,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """What a job costs on spot that must be done by a deadline, by which rules, and how often it is late."""
    from gpufleet.api.spot import plan_spot
    from gpufleet.catalog.load import load_catalog
    from gpufleet.report.spot import spot_page

    if replay is not None:
        return show_audit(job, replay, output, out_file)
    write_money_in(currency)
    read = [path for path in (job, asked.words.text("trace")) if path is not None]
    refuse_targets([rules, None if out_file == "-" else out_file], read)
    plan = plan_spot(asked.request(SpotRequest, job), catalog=load_catalog(catalog_dir))
    if rules is not None:
        write_whole(Path(rules), plan.rules.model_dump_json(indent=2) + "\n")
        remark(f"wrote {rules}")
    emit(plan, spot_page(plan), output, out_file)
    return 0


def show_audit(rules: str | None, log: str, output: OutputFormat | None, out_file: str | None) -> int:
    """A log beside its policy; exit code 4 where it was not followed."""
    from gpufleet.api.spot_audit import audit_spot
    from gpufleet.report.spot_audit import spot_audit_page

    if rules is None:
        raise UsageError("--replay checks by a policy", expected="gpufleet spot RULES.json --replay LOG.csv")
    audit = audit_spot(rules, log)
    emit(audit, spot_audit_page(audit), output, out_file)
    return 0 if audit.is_followed else PolicyViolation.exit_code
