"""Rules that the seeds leave open, each settled in one sentence; the viewer shows them, a decision record tells why."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """What was open, and what holds."""

    about: str
    rule: str


RULES = (
    Rule(
        "Cost",
        "Printed price x number of GPUs x hours, as the table 'for 1 GPU @ 720 hours' does. Real instances of the P "
        "family have 8 GPUs and are sold whole: each report says so.",
    ),
    Rule(
        "Instance behind a row",
        "G4dn g4dn.xlarge, G5 g5.4xlarge, G6 g6.4xlarge (by price); G6e g6e.48xlarge, P4d p4d.24xlarge, P4de "
        "p4de.24xlarge, P5 p5.48xlarge, P5e p5e.48xlarge, P6 p6-b200.48xlarge (by 8 GPUs).",
    ),
    Rule(
        "compute_tflops",
        "FP16 tensor peak of one GPU with sparsity, as the printed 2000 (H100) and 733 (L40S) are; without it where a "
        "GPU has no sparsity (T4). Dense peaks are half.",
    ),
    Rule(
        "memory_bandwidth_factor",
        "min(1, 256 FLOP per byte x memory bandwidth / dense peak), to one decimal: a roofline that yields the printed "
        "0.9 (H100) and 0.6 (L40S).",
    ),
    Rule(
        "interconnect_multiplier",
        "1.0 with NVSwitch, 0.7 as printed for 'NVLink 4-way', 0.5 over PCIe; it counts from two GPUs on. Bandwidth is "
        "GB/s in both directions.",
    ),
    Rule(
        "Relative speed",
        "compute_tflops x memory_bandwidth_factor x interconnect_multiplier x GPUs; P4d to P5 is 2.88x (the seed says "
        "2-3x), P4d to P6 6.49x.",
    ),
    Rule(
        "Memory overhead",
        "Inference x 1.2. Training and full fine-tuning x the size's own memory_overhead_multiplier (1.5; 1.8 for "
        "extra_large), x 1.5 where it has none.",
    ),
    Rule(
        "Parameter counts",
        "SMALL 13B and MEDIUM 35B as printed; LARGE 100B (the most that the scenario training_large_p4d holds on 8 "
        "GPUs of 40 GB in FP16 is 106B); MASSIVE 405B, the largest open model of its class; EXTRA_LARGE 200B.",
    ),
    Rule(
        "Options",
        "Of every instance the fewest GPUs that hold the model, and as many as today; up to 64 GPUs. The best by facts "
        "of today, with the full install, is sought among all counts between, and beyond where none does the work.",
    ),
    Rule(
        "Load",
        "Inference is judged by facts of today at one request a second, or at requests_per_s of the scenario.",
    ),
    Rule(
        "Goal",
        "Cost for inference and fine-tuning, performance for training, unless goal= says otherwise. Cost: cheapest "
        "without high risk. Performance: fastest. Reliability: least risk, least work, most free memory.",
    ),
    Rule(
        "Risk",
        "High below 0.1x of today's speed, or on more machines than today. Medium below 0.5x, over 90% full memory, on "
        "several machines, PCIe between GPUs that train, spot for inference.",
    ),
    Rule(
        "Migration complexity",
        "High for another vendor or more machines than today. Medium for another family, or splitting a model that was "
        "whole (and the reverse). Else low.",
    ),
    Rule(
        "Configs",
        "A file of a folder of your own is laid over the shipped rows: single fields suffice, null removes a row and "
        "the workloads that name it, capitals make no difference, // comments are accepted with a note, names "
        "beginning with _ are notes. A new size becomes a member of ModelSize. Other *.json files of the folder count "
        "too.",
    ),
)
