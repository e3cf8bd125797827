"""Parameters of every model that gpufleet knows, against the model's own class in transformers.

Development only. It needs an environment with torch (the CPU's is enough), transformers and gpufleet:

    python3 -m venv build/transformers
    build/transformers/bin/pip install torch transformers .
    build/transformers/bin/python tools/against_transformers.py [CONFIG ...]

The class that a config names, else that of its model_type, is built on the meta device, which holds no weights, and
its parameters are counted: a tied weight once, buffers not. Without arguments the shipped models are compared, else the
`config.json` files given, and every `*config.json` of a folder.

Decoders are compared part by part (vocabulary, routed experts, the other weights of the language model, vision), so
that two errors do not cancel; encoders as a whole. Neither side counts layers that predict several tokens: the classes
do not build them. What holds for some rows only stands below the row:

- a vision tower that the class builds, from defaults where need be, and that gpufleet does not read, is left out;
- where the config unties the head and the class ties it all the same, it is counted as the checkpoint holds it.

Exit code 1 where a count differs, where gpufleet cannot read a config or transformers cannot build its class.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.architecture.encoder_parse import encoder_family_of, parse_encoder
from gpufleet.architecture.families import family_of
from gpufleet.architecture.other_kinds import other_kind
from gpufleet.architecture.parameters import head_params, parameter_parts
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config, model_names
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import GpufleetError

WHOLE, VOCABULARY, EXPERTS, OTHER, VISION = "whole", "vocabulary", "routed experts", "other weights", "vision"
NO_TOWER = "without vision: gpufleet reads no tower from the config"
UNTIED = "with a head of its own: the config unties what the class ties"
BY_MODEL_TYPE = "by model_type: transformers has no class of the name that the config gives, if any"
NO_CLASS = "transformers has neither the class nor the model_type"
AUTO_MAPPINGS_OF_DECODERS = ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES")
AUTO_MAPPINGS_OF_ENCODERS = ("MODEL_MAPPING_NAMES",)
NEITHER_SHAPE_NOR_SIZE = ("quantization_config", "auto_map")
WITHOUT_TRANSFORMERS = (
    "This Python has no torch or no transformers. Make one that has both, and gpufleet:"
    " python3 -m venv build/transformers && build/transformers/bin/pip install torch transformers ."
)
Config = Mapping[str, object]


@dataclass(frozen=True)
class Counts:
    """Parameters by part, and what is to be said of them."""

    parts: Mapping[str, int]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What both sides count of one model, or why they do not; `differing` is ours less theirs, by part."""

    model: str
    class_name: str = ""
    theirs: int = 0
    ours: int = 0
    differing: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    why_not: str = ""
    has_failed: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether all parts were compared and are the same."""
        return not self.why_not and not self.differing


def main(arguments: Sequence[str] | None = None) -> int:
    configs = dict(configs_of(parsed_options(arguments).config))
    if not all(map(importlib.util.find_spec, ("torch", "transformers"))):
        print(WITHOUT_TRANSFORMERS, file=sys.stderr)
        return 2
    print(table_row("class", "model", ["transformers", "gpufleet", "difference"]))
    comparisons = []
    for model, config in configs.items():
        comparisons.append(compared(model, config))
        for line in comparison_lines(comparisons[-1]):
            print(line, flush=True)
    for line in summary_lines(comparisons):
        print(line)
    return int(any(c.differing or c.has_failed for c in comparisons))


def parsed_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="*", type=Path, help="config.json files or folders of them (shipped models)")
    return parser.parse_args(arguments)


def configs_of(paths: Sequence[Path]) -> Iterator[tuple[str, Config]]:
    """Name and config of what is compared."""
    if not paths:
        yield from ((name, load_model_config(name)) for name in model_names())
    for path in paths:
        for file in sorted(path.glob("*config.json")) if path.is_dir() else [path]:
            if not file.name.endswith("hf_quant_config.json"):
                name = file.parent.name if file.name == "config.json" else file.stem.removesuffix("_config")
                yield name, json.loads(file.read_text(encoding="utf-8"))


def compared(model: str, config: Config) -> Comparison:
    """Both counts of one model."""
    kind = other_kind(family_of(config))
    if kind:
        return Comparison(model, why_not=f"gpufleet does not plan {kind[0]}")
    try:
        ours = our_counts(config, model)
    except GpufleetError as refusal:
        return Comparison(model, why_not=f"gpufleet refuses it: {refusal}", has_failed=True)
    own_class = class_of(config, AUTO_MAPPINGS_OF_ENCODERS if WHOLE in ours.parts else AUTO_MAPPINGS_OF_DECODERS)
    if own_class is None:
        return Comparison(model, why_not=NO_CLASS)
    try:
        theirs = their_counts(own_class, config, is_decoder=WHOLE not in ours.parts)
    except Exception as refusal:  # whatever the class raises is told of its row, and the other rows follow
        said = f"{type(refusal).__name__}: {refusal}".splitlines()[0]
        return Comparison(model, why_not=f"{own_class.__name__} cannot be built: {said}", has_failed=True)
    return comparison(model, own_class.__name__, theirs, ours)


def our_counts(config: Config, name: str) -> Counts:
    """What gpufleet counts."""
    if encoder_family_of(config):
        return Counts({WHOLE: num_encoder_parameters(parse_encoder(config, name))})
    return decoder_counts(parse_architecture(config, name))


def decoder_counts(arch: Architecture) -> Counts:
    """Parts of a decoder as gpufleet counts them; no vision where the config gives no tower that it reads."""
    parts = parameter_parts(arch)
    vocabulary = (1 if arch.tied_embeddings else 2) * head_params(arch)
    experts = parts.routed_experts + parts.expert_vectors
    other = parts.total - parts.vision - vocabulary - experts
    vision = {VISION: parts.vision} if arch.vision else {}
    return Counts({VOCABULARY: vocabulary, EXPERTS: experts, OTHER: other, **vision})


def class_of(config: Config, auto_mappings: Sequence[str]) -> Any:
    """The class in transformers that a config names, else the one that its model_type stands for; None: neither."""
    import transformers
    from transformers.models.auto import modeling_auto

    listed = (getattr(modeling_auto, mapping).get(config.get("model_type")) for mapping in auto_mappings)
    names = (named_class(config), *listed)
    return next((getattr(transformers, name) for name in names if name and hasattr(transformers, name)), None)


def named_class(config: Config) -> str | None:
    """The first class that a config names."""
    classes = config.get("architectures")
    return str(classes[0]) if isinstance(classes, list) and classes else None


def their_counts(own_class: Any, config: Config, is_decoder: bool) -> Counts:
    """What the class holds when it is built from the config without weights."""
    import torch

    own_config = own_class.config_class.from_dict(as_class_reads(config, own_class.config_class))
    with torch.device("meta"):
        model = own_class._from_config(own_config)
    model.tie_weights()
    vocabulary = {id(weight) for weight in vocabulary_of(model)}
    is_composite = "text_config" in own_class.config_class.sub_configs
    parts: Counter[str] = Counter()
    for name, weight in model.named_parameters(remove_duplicate=True):
        of_decoder = VOCABULARY if id(weight) in vocabulary else part_of(name, is_composite)
        parts[of_decoder if is_decoder else WHOLE] += weight.numel()
    remarks = () if own_class.__name__ == named_class(config) else (BY_MODEL_TYPE,)
    return with_untied_head(Counts(parts, remarks), vocabulary_of(model), config)


def as_class_reads(config: Config, config_class: Any) -> dict[str, object]:
    """A config as its class takes it: a language model that the class nests is nested, under a name that it knows."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kept = without_formats(config)
    del kept["model_type"]
    if "text_config" not in config_class.sub_configs:
        return kept
    inner = config.get("text_config")
    text = without_formats(inner) if isinstance(inner, Mapping) else dict(kept)
    if text.get("model_type") not in CONFIG_MAPPING:
        text["model_type"] = config_class().text_config.model_type
    return {**kept, "text_config": text}


def without_formats(config: Config) -> dict[str, object]:
    """A config without number formats and code of its own, which change no count."""
    return {key: value for key, value in config.items() if key not in NEITHER_SHAPE_NOR_SIZE}


def part_of(name: str, is_composite: bool) -> str:
    """The part of a decoder that a weight belongs to by its name; composite models hold more than a language model.

    >>> part_of("model.layers.3.mlp.experts.down_proj", is_composite=False)
    'routed experts'
    >>> part_of("model.visual.blocks.0.norm1.weight", is_composite=True)
    'vision'
    """
    if is_composite and "language_model" not in name and not name.startswith("lm_head"):
        return VISION
    return EXPERTS if ".experts." in name else OTHER


def vocabulary_of(model: Any) -> list[Any]:
    """The weights of token embedding and head, twice the same where they are tied; none where a model has neither."""
    try:
        layers = (model.get_input_embeddings(), model.get_output_embeddings())
    except NotImplementedError:
        return []
    return [layer.weight for layer in layers if hasattr(layer, "weight")]


def with_untied_head(counts: Counts, vocabulary: Sequence[Any], config: Config) -> Counts:
    """The counts with a head of its own, where the config unties it and the class ties it all the same."""
    is_tied = len(vocabulary) == 2 and vocabulary[0] is vocabulary[1]
    if config.get("tie_word_embeddings") is not False or not is_tied:
        return counts
    part = VOCABULARY if VOCABULARY in counts.parts else WHOLE
    parts = {**counts.parts, part: counts.parts[part] + vocabulary[1].numel()}
    return Counts(parts, (*counts.remarks, UNTIED))


def comparison(model: str, class_name: str, theirs: Counts, ours: Counts) -> Comparison:
    """Two counts, part by part; a tower that gpufleet does not read is left out."""
    is_alone = bool(theirs.parts.get(VISION)) and VISION not in ours.parts
    asked = [part for part in {**theirs.parts, **ours.parts} if not (is_alone and part == VISION)]
    their, our = ({part: counts.parts.get(part, 0) for part in asked} for counts in (theirs, ours))
    differing = {part: our[part] - their[part] for part in asked if our[part] != their[part]}
    remarks = (*theirs.remarks, *((NO_TOWER,) if is_alone else ()))
    return Comparison(model, class_name, sum(their.values()), sum(our.values()), differing, remarks)


def comparison_lines(c: Comparison) -> Iterator[str]:
    """A row of the table; below it the parts that differ, and remarks."""
    if c.why_not:
        yield f"{'-':<40}{c.model:<52}{c.why_not}"
        return
    yield table_row(c.class_name, c.model, [f"{c.theirs:,}", f"{c.ours:,}", f"{c.ours - c.theirs:+,}"])
    yield from (f"    {part}: {difference:+,}" for part, difference in c.differing.items())
    yield from (f"    {remark}" for remark in c.remarks)


def table_row(class_name: str, model: str, cells: Sequence[str]) -> str:
    return f"{class_name:<40}{model:<52}{cells[0]:>18}{cells[1]:>18}{cells[2]:>16}"


def summary_lines(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """What was remarked of which models, and in the last line how many agree and which were not compared."""
    done = [c for c in comparisons if not c.why_not]
    for remark, models in grouped((remark, c.model) for c in done for remark in c.remarks):
        yield f"{len(models)} compared {remark}: {', '.join(models)}"
    left = grouped((c.why_not, c.model) for c in comparisons if c.why_not)
    reasons = "; ".join(f"{len(models)} because {why} ({', '.join(models)})" for why, models in left)
    equal = f"{len(done)} models in {len({c.class_name for c in done})} classes: {sum(c.is_equal for c in done)} equal"
    yield f"{equal}; not compared: {reasons or 'none'}"


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Models by what is said of them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for said, model in pairs:
        groups[said].append(model)
    return list(groups.items())


if __name__ == "__main__":
    sys.exit(main())
