"""What machines of one's own can serve: which models, in which formats, for how many users."""

from __future__ import annotations

from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.catalog.engine_eras import engine_of_version
from gpufleet.catalog.engines import DEFAULT_ENGINE
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.model_listing import read_all
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.spoken_machines import SpokenMachines, parse_spoken
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision_labels import kv_precision, own_and_lower
from gpufleet.optimize.fit import FitQuestion, copies_of
from gpufleet.results.machine_fits import MachineFits, ModelOnMachines
from gpufleet.units import parse_tokens


def fit_all(
    owned: str, context: str | float = "8k", *, engine: str = DEFAULT_ENGINE, catalog: Catalog | None = None
) -> MachineFits:
    """Every shipped decoder that fits one of the machines, each in the best format that does, for so many users.

    >>> rows = fit_all("2 x 8 RTX-4090", "8k").rows
    >>> next(row.weight_format for row in rows if row.model == "llama-3.1-8b")
    'bf16'
    """
    tables = load_catalog() if catalog is None else catalog
    said, tokens = parse_spoken(owned), float(round(parse_tokens(context)))
    gpu = resolve_gpu(tables, said.gpu)
    every, _ = read_all()
    found = [row for arch in every.values() if (row := on_machines(arch, gpu.accelerator, said, tokens, engine))]
    return MachineFits(
        owned=owned,
        gpu=gpu.accelerator.name,
        num_machines=said.machines,
        gpus_per_machine=said.gpus,
        context_tokens=tokens,
        engine=engine,
        num_models=len(every),
        rows=sorted(found, key=lambda row: -row.num_parameters),
        notes=[gpu.note] if gpu.note else [],
    )


def on_machines(
    arch: Architecture, gpu: Accelerator, said: SpokenMachines, context_tokens: float, engine: str
) -> ModelOnMachines | None:
    """A model in the first of its formats that fits a machine, as so many copies as hold most users."""
    for weights in own_and_lower(arch):
        profile = engine_of_version(engine)
        kv = kv_precision(weights, profile)
        question = FitQuestion(arch, gpu, said.gpus, profile, weights, kv, context_tokens, gpus_per_machine=said.gpus)
        placed = [(copies * p.users, copies, p) for copies, p in copies_of(question) if p.users >= 1]
        if placed:
            users, copies, best = max(placed, key=lambda row: row[0])
            return ModelOnMachines(
                model=arch.name,
                num_parameters=num_parameters(arch),
                num_active_parameters=num_active_parameters(arch),
                weight_format=weights.name,
                is_stored_format=weights.name == arch.weights.name,
                layout=best.layout.label,
                copies_per_machine=copies,
                users_per_machine=users,
                users=users * said.machines,
            )
    return None
