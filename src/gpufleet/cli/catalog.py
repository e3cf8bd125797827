"""`gpufleet catalog`: what the tables hold about GPUs, instance types, models and prices."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.emit import emit, is_page
from gpufleet.cli.market import CatalogOption
from gpufleet.cli.money import CurrencyOption, write_money_in
from gpufleet.cli.options import MaybeModelArgument, OutFileOption, OutputOption, verb_group
from gpufleet.errors import DataMissing
from gpufleet.questions.words import FileUse

app = verb_group("What the tables hold, with sources and dates; live only where you update it.")

GpuOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--gpu", metavar="NAME,...", help="Only these GPUs, such as H100 or L40S,A100-40GB."),
]
CloudOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--cloud", "--clouds", metavar="NAME,...", help="Only these clouds, such as aws,gcp."),
]
MinMemoryOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--min-memory", metavar="SIZE", help="At least this much GPU memory, such as 80GB or 40GiB."),
]
VendorOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--vendor", metavar="NAME", help="Only this maker: nvidia, amd, intel, aws, google."),
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--precision", metavar="NAME", help="Only GPUs that compute in it: bf16, fp8, fp4, int8, ..."),
]
MinGpusOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--min-gpus", metavar="N", help="At least N GPUs."),
]
InstanceOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--instance", metavar="NAME,...", help="Only these instance types, such as p5.48xlarge."),
]
RegionOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--region", "--regions", metavar="NAME,...", help="Only these regions; eu, us, germany too."),
]
KindOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--kind", "--pricing", metavar="NAME,...", help="Only these price kinds: on_demand, spot, ..."),
]
RestrictedOption = Annotated[
    bool, typer.Option("--restricted", help="Also regions that are not open to everybody, such as GovCloud.")
]
UnpricedOption = Annotated[bool, typer.Option("--unpriced", help="Also list what is sold at an unknown price.")]
ModelWords = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(metavar="add ORG/NAME[@REVISION]", help="Models to add from the hub.", show_default=False),
    FileUse.HERE,
]
SearchOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--search", metavar="TEXT", help="Only models with TEXT in one of their names."),
]
FamilyOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--family", metavar="NAME", help="Only this family, such as llama or qwen3_moe."),
]
ShowModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--show", metavar="MODEL", help="Explain one model: a name, a config.json or its folder."),
    FileUse.MAYBE_READ,
]
LimitOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--limit", metavar="N", min=1, help="At most N rows."),
]
SortOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--sort", metavar="KEY", help="Sort by a column; '-KEY' reverses the order."),
]


ProviderOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--provider", "--host", metavar="NAME,...", help="Only these hosts, such as together,openrouter."),
]
AcceptOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--accept", metavar="NAMES", help="Accept unusual prices of these types (aws:p5.48xlarge), or of all."
    ),
]
AcceptLossesOption = Annotated[
    bool, typer.Option("--accept-losses", help="Accept a feed in which most types vanished, or prices moved by 3x.")
]


@app.command("gpus")
def gpus(
    gpu: GpuOption = None,
    vendor: VendorOption = None,
    min_memory: MinMemoryOption = None,
    precision: PrecisionOption = None,
    cloud: CloudOption = None,
    sort: SortOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
) -> None:
    """Accelerators: memory, dense rates, links, and the cheapest on-demand price known here."""
    from gpufleet.cli.catalog_answers import gpu_answer

    write_money_in(currency)
    emit(
        *gpu_answer(
            gpu=gpu,
            vendor=vendor,
            min_memory=min_memory,
            precision=precision,
            cloud=cloud,
            sort=sort,
            limit=limit,
            catalog_dir=catalog_dir,
        ),
        output,
        out_file,
    )


@app.command("instances")
def instances(
    gpu: GpuOption = None,
    cloud: CloudOption = None,
    min_memory: MinMemoryOption = None,
    min_gpus: MinGpusOption = None,
    sort: SortOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
) -> None:
    """Instance types: GPUs, links, host, and the cheapest on-demand price known here."""
    from gpufleet.cli.catalog_answers import instance_answer

    write_money_in(currency)
    emit(
        *instance_answer(
            gpu=gpu,
            cloud=cloud,
            min_memory=min_memory,
            min_gpus=min_gpus,
            sort=sort,
            limit=limit,
            catalog_dir=catalog_dir,
        ),
        output,
        out_file,
    )


@app.command("prices")
def prices(
    gpu: GpuOption = None,
    instance: InstanceOption = None,
    cloud: CloudOption = None,
    region: RegionOption = None,
    kind: KindOption = None,
    restricted: RestrictedOption = False,
    unpriced: UnpricedOption = False,
    sort: SortOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
) -> None:
    """Prices per instance and per GPU, cheapest per GPU first, each with its date."""
    from gpufleet.cli.catalog_answers import price_answer

    write_money_in(currency)
    emit(
        *price_answer(
            gpu=gpu,
            instance=instance,
            cloud=cloud,
            region=region,
            kind=kind,
            restricted=restricted,
            unpriced=unpriced,
            sort=sort,
            limit=limit,
            catalog_dir=catalog_dir,
            is_page=is_page(output, out_file),
        ),
        output,
        out_file,
    )


@app.command("regions")
def regions(
    gpu: GpuOption = None,
    instance: InstanceOption = None,
    cloud: CloudOption = None,
    region: RegionOption = None,
    restricted: RestrictedOption = False,
    limit: LimitOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
    catalog_dir: CatalogOption = None,
    currency: CurrencyOption = None,
) -> None:
    """Regions of a cloud or an area; with --gpu, --instance or a region by name, what is sold where."""
    from gpufleet.cli.catalog_answers import region_answer

    write_money_in(currency)
    emit(
        *region_answer(
            gpu=gpu,
            instance=instance,
            cloud=cloud,
            region=region,
            restricted=restricted,
            limit=limit,
            catalog_dir=catalog_dir,
            is_page=is_page(output, out_file),
        ),
        output,
        out_file,
    )


@app.command("coverage")
def coverage(output: OutputOption = None, out_file: OutFileOption = None, catalog_dir: CatalogOption = None) -> None:
    """Which clouds and regions have prices here, by price kind, with their dates."""
    from gpufleet.cli.catalog_answers import coverage_answer

    emit(*coverage_answer(catalog_dir), output, out_file)


@app.command("discounts")
def discounts(output: OutputOption = None, out_file: OutFileOption = None, catalog_dir: CatalogOption = None) -> None:
    """Typical discounts, rules of thumb of the seeds, compared with the prices known here."""
    from gpufleet.cli.catalog_answers import discount_answer

    emit(*discount_answer(catalog_dir), output, out_file)


@app.command("models")
def models(
    words: ModelWords = None,
    search: SearchOption = None,
    family: FamilyOption = None,
    show: ShowModelOption = None,
    sort: SortOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """Shipped model architectures: exact parameters, context, checkpoint precision and other names.

    --show explains one of them, or a config.json of your own: parts, parameters, FLOP, bytes, KV cache and state.
    'add ORG/NAME[@REVISION]' asks the Hugging Face hub for config.json, quantisation and the headers of safetensors,
    never for code or weights; every question then takes that id. HF_TOKEN opens gated models.
    """
    if words:
        from gpufleet.cli.added_models import add_answer

        told = {"--search": search, "--family": family, "--show": show, "--sort": sort, "--limit": limit}
        emit(*add_answer(words, [flag for flag, value in told.items() if value is not None]), output, out_file)
        return
    from gpufleet.cli.catalog_answers import explained_answer, model_answer

    if show is not None:
        emit(*explained_answer(show), output, out_file)
        return
    emit(*model_answer(search=search, family=family, sort=sort, limit=limit), output, out_file)


@app.command("token-prices")
def token_prices(
    model: MaybeModelArgument = None,
    provider: ProviderOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """What APIs ask for tokens of open models, by host and day; 'plan serve --token-price' takes a host."""
    from gpufleet.cli.catalog_answers import token_price_answer

    emit(*token_price_answer(model, provider, limit, is_page=is_page(output, out_file)), output, out_file)


@app.command("update")
def update(
    cloud: CloudOption = None,
    accept: AcceptOption = None,
    accept_losses: AcceptLossesOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Fetch today's prices from public feeds into a snapshot; exit code 5 when one of them brought none."""
    from gpufleet.cli.catalog_refresh import update_answer

    result, page = update_answer(cloud, accept_losses, accept)
    emit(result, page, output, out_file)
    return 0 if result.is_complete else DataMissing.exit_code
