"""How long it takes to write and read what a training run needs to go on."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats


def storage_bytes_per_s(num_machines: Floats, per_machine: Floats, shared: Floats) -> FloatArray:
    """What all machines together write to, or read from, storage that they share.

    min(machines x rate of one, rate of the storage)   [bytes/s]

    >>> storage_bytes_per_s(np.array([8, 8192]), 0.7e9, 2e12) / 1e9
    array([   5.6, 2000. ])
    """
    return np.asarray(np.minimum(num_machines * np.asarray(per_machine), shared))


def checkpoint_s(checkpoint_bytes: Floats, num_machines: Floats, per_machine: Floats, shared: Floats) -> FloatArray:
    """Seconds to write a checkpoint while the training waits for it, or to read one.

    t = bytes / min(machines x rate of one, rate of the storage)   [s]
    Every machine has an equal part of it. Writers that copy to the host's memory first keep the training waiting for
    a part of this; none is assumed.

    >>> checkpoint_s(70e9 * 14, 4, 0.7e9, 2e12)
    array(350.)
    """
    return np.asarray(checkpoint_bytes / storage_bytes_per_s(num_machines, per_machine, shared))


def restart_s(recovery_s: Floats, read_s: Floats, wait_s: Floats = 0.0) -> FloatArray:
    """Seconds from a stop until the training goes on.

    R = until every process runs again + the checkpoint is read + the wait for another machine   [s]

    >>> restart_s(600.0, 350.0)
    array(950.)
    """
    return np.asarray(recovery_s + np.asarray(read_s) + wait_s)
