"""`gpufleet spot`: a job with a deadline, or a service, on machines that may be taken away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.ask.spot.words import SpotRequest
from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, refuse_targets, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import Written, verb
from gpufleet.errors import PolicyViolation, UsageError
from gpufleet.questions.words import FileUse, words_of
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.catalog.tables import Catalog

app = verb()

PlanArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(
        metavar="[PLAN.json]", help="What plan train, finetune, batch or serve wrote; else --work.", show_default=False
    ),
    FileUse.READ,
]
RulesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--rules", metavar="OUT.json", help="Also write the policy as data: a state machine with thresholds."),
    FileUse.WRITTEN,
]

ReplayOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--replay", metavar="LOG.csv", help="Check a log of ticks by a policy: PLAN.json is what --rules wrote."
    ),
    FileUse.READ,
]
SpotFleetOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--spot-fleet", metavar="OUT.tf", help="Also write the fleet of a service on AWS, for Terraform."),
    FileUse.WRITTEN,
]


@app.command(cls=GroupedCommand)
@asking(SpotRequest)
def spot(
    asked: Typed,
    *,
    plan: PlanArgument = None,
    rules: RulesOption = None,
    replay: ReplayOption = None,
    spot_fleet: SpotFleetOption = None,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
    written: Written,
) -> int:
    """What a job with a deadline, or a service, costs on spot: by which rules, how often late or short of machines."""
    from gpufleet.catalog.load import load_catalog
    from gpufleet.inputs.plan_file import is_service_plan

    if replay is not None:
        refuse_beside_replay(asked, [rules, spot_fleet])
        return show_audit(plan, replay, written)
    write_money_in(currency)
    read = [path for path in (plan, asked.words.text("trace"), asked.words.text("fleet")) if path is not None]
    refuse_targets([rules, spot_fleet, None if written.out_file == "-" else written.out_file], read)
    request, tables = asked.request(SpotRequest, plan), load_catalog(catalog_dir)
    if request.fleet is not None:
        return show_fleet(request, tables, [rules, spot_fleet], written)
    if plan is not None and is_service_plan(plan):
        return show_service(request, tables, rules, spot_fleet, written)
    return show_job(request, tables, rules, spot_fleet, written)


def refuse_beside_replay(asked: Typed, files: list[str | None]) -> None:
    """Refuse words of a question: a log is checked by the policy alone, which holds its job and its deadline."""
    said = [f"--{name.replace('_', '-')}" for name in words_of(SpotRequest) if asked.words.text(name) is not None]
    said += [word for word, file in zip(("--rules", "--spot-fleet"), files, strict=True) if file is not None]
    if said:
        raise UsageError(
            "--replay checks by the policy alone", found=said[0], expected="gpufleet spot RULES.json --replay LOG.csv"
        )


def show_job(request: SpotRequest, tables: Catalog, rules: str | None, fleet: str | None, written: Written) -> int:
    """A job with a deadline."""
    from gpufleet.ask.spot.job import plan_spot
    from gpufleet.ask.spot.job_page import spot_page

    if fleet is not None:
        raise UsageError("--spot-fleet writes the fleet of a service", expected="the file of plan serve ... -o json")
    plan = plan_spot(request, catalog=tables)
    if rules is not None:
        write_whole(Path(rules), plan.rules.model_dump_json(indent=2) + "\n")
        remark(f"wrote {rules}")
    emit(plan, spot_page(plan), written.output, written.out_file)
    return 0


def show_service(request: SpotRequest, tables: Catalog, rules: str | None, fleet: str | None, written: Written) -> int:
    """A service."""
    from gpufleet.ask.spot.service import plan_spot_service
    from gpufleet.ask.spot.service_page import spot_service_page
    from gpufleet.ask.spot.terraform import spot_fleet

    if rules is not None:
        raise UsageError("--rules writes the policy of a job", expected="-o json, whose answer holds that of a service")
    plan = plan_spot_service(request, catalog=tables)
    if fleet is not None:
        write_whole(Path(fleet), spot_fleet(plan))
        remark(f"wrote {fleet}")
    emit(plan, spot_service_page(plan), written.output, written.out_file)
    return 0


def show_fleet(request: SpotRequest, tables: Catalog, files: list[str | None], written: Written) -> int:
    """What of a fleet could move, beside what the seeds state of spot."""
    from gpufleet.ask.spot.fleet import fleet_on_spot
    from gpufleet.ask.spot.fleet_page import spot_fleet_page
    from gpufleet.ask.spot.fleet_shape import StatedSaving
    from gpufleet.compat.rules.savings import spot_saving_of, stated_of_spot

    def stated(cloud: str) -> StatedSaving | None:
        seed = spot_saving_of(cloud)
        return None if seed is None else StatedSaving(**seed._asdict())

    if any(files):
        raise UsageError("--rules and --spot-fleet are of one job or service", expected="--fleet without them")
    fleet = fleet_on_spot(request, stated=stated, catalog=tables)
    emit(fleet, spot_fleet_page(fleet, stated_of_spot()), written.output, written.out_file)
    return 0


def show_audit(rules: str | None, log: str, written: Written) -> int:
    """A log beside its policy; exit code 4 where it was not followed."""
    from gpufleet.ask.spot.audit import audit_spot
    from gpufleet.ask.spot.audit_page import spot_audit_page

    if rules is None:
        raise UsageError("--replay checks by a policy", expected="gpufleet spot RULES.json --replay LOG.csv")
    audit = audit_spot(rules, log)
    emit(audit, spot_audit_page(audit), written.output, written.out_file)
    return 0 if audit.is_followed else PolicyViolation.exit_code
