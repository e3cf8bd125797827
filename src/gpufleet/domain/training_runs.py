"""What stands around a training run: storage, restarts, the network between machines."""

from __future__ import annotations

from gpufleet.provenance import Sourced
from gpufleet.records import dataclass


@dataclass(frozen=True)
class TrainingRuns:
    """What is taken of the surroundings of a training run where nobody says it.

    A machine reads and writes checkpoints at `write_bytes_per_s_per_machine`, all of them at no more than
    `shared_bytes_per_s`. After a stop, every process runs again in `recovery_s`; the checkpoint is read after that.
    The network of a machine, where it is not published: `network_switched_gbit_per_s` where links join 8 GPUs or
    more, else `network_several_gbit_per_s` from 4 GPUs on, else `network_few_gbit_per_s`. A whole campaign takes
    `campaign_ratio` times the GPU-hours that are planned for its tokens: it is said, and not counted.
    """

    write_bytes_per_s_per_machine: Sourced
    shared_bytes_per_s: Sourced
    recovery_s: Sourced
    network_switched_gbit_per_s: Sourced
    network_several_gbit_per_s: Sourced
    network_few_gbit_per_s: Sourced
    campaign_ratio: Sourced
