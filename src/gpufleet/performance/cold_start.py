"""How long a replica takes to start: machine, image, process, weights, compilation, warm-up, one after the other."""

from __future__ import annotations

from functools import reduce
from itertools import starmap

import numpy as np

from gpufleet.domain.cold_start import ColdStart, Compiled, EngineStart, NodeStart, ReplicaToStart, StartStage, Storage
from gpufleet.domain.interruption import Spread
from gpufleet.memory.band import Band
from gpufleet.provenance import Grade

MACHINE, IMAGE, PROCESS, WEIGHTS = "machine", "image", "process", "weights"
COMPILATION, WARM_UP = "compilation", "warm-up"
STAGES = (MACHINE, IMAGE, PROCESS, WEIGHTS, COMPILATION, WARM_UP)
NOTHING = Band.exact(0.0)


def cold_start(replica: ReplicaToStart, engine: EngineStart, storage: Storage, node: NodeStart) -> ColdStart:
    """Seconds from the request for a machine until the replica answers, by stage, with their ranges.

    t = machine + image + process + weights + compilation + warm-up   [s]
    One after the other: what overlaps in practice (images that are streamed, graphs that are captured while weights
    are read) makes it shorter. The first two pass only where the machine does not run yet (`warm_node`).
    """
    found = [
        *([] if replica.warm_node else node_stages(replica, node)),
        stage(PROCESS, Band.of(engine.process_s), engine.process_s.source, engine.grade),
        stage(WEIGHTS, weights_s(replica, storage, node), weights_source(storage), storage.grade),
        *compilation_stages(replica, engine),
        stage(WARM_UP, warm_up_s(replica, engine), engine.warm_up_s.source, engine.grade),
    ]
    whole = total_s([Band(each.low_s, each.seconds, each.high_s) for each in found])
    return ColdStart(tuple(found), float(whole.expected), float(whole.low), float(whole.high))


def stage(name: str, took: Band, source: str, grade: Grade) -> StartStage:
    """A stage of this length."""
    return StartStage(name, float(took.expected), float(took.low), float(took.high), source, grade)


def node_stages(replica: ReplicaToStart, node: NodeStart) -> list[StartStage]:
    """Until the machine runs and holds the image."""
    return [
        stage(MACHINE, Band.of(node.ready_s), node.ready_s.source, node.ready_grade),
        stage(IMAGE, image_s(replica, node), node.image_bytes_per_s.source, node.image_grade),
    ]


def compilation_stages(replica: ReplicaToStart, engine: EngineStart) -> list[StartStage]:
    """The stage of engines that compile, where they are started so."""
    if engine.compile_s is None or replica.compiled is Compiled.NONE:
        return []
    return [stage(COMPILATION, compilation_s(replica, engine), engine.compile_s.source, engine.grade)]


def image_s(replica: ReplicaToStart, node: NodeStart) -> Band:
    """Seconds to pull and unpack the image.

    t = bytes / rate   [s]   Bytes as the registry counts them, compressed; the rate includes unpacking.
    """
    size = Band.of(node.image_bytes) if replica.image_bytes is None else Band.exact(replica.image_bytes)
    return product(size, inverse(Band.of(node.image_bytes_per_s)))


def weights_s(replica: ReplicaToStart, storage: Storage, node: NodeStart) -> Band:
    """Seconds until all weights are on the devices.

    t = max(bytes / machines / rate of a machine, bytes / devices / rate of a process)   [s]
    Each rank takes its part, and no byte comes to a machine twice: ranks share the page cache, or read ranges. Where
    every rank reads the whole checkpoint through the network, it takes up to as many times longer as there are ranks.
    """
    from_storage = product(
        Band.exact(replica.weights_bytes / replica.num_machines), inverse(storage_bytes_per_s(replica, storage, node))
    )
    if storage.process_bytes_per_s is None:
        return from_storage
    to_device = product(
        Band.exact(replica.weights_bytes / replica.num_devices), inverse(Band.of(storage.process_bytes_per_s))
    )
    return from_storage.larger_of(to_device)


def storage_bytes_per_s(replica: ReplicaToStart, storage: Storage, node: NodeStart) -> Band:
    """What one machine gets from where the weights lie.

    Its own rate; or share x min(line of the machine, what a line to storage carries at most)   [bytes/s]
    """
    if replica.storage_bytes_per_s is not None:
        return Band.exact(replica.storage_bytes_per_s)
    if storage.machine_bytes_per_s is not None:
        return Band.of(storage.machine_bytes_per_s)
    assert storage.line_ratio is not None
    most = Band.of(node.line_bytes_per_s)
    return product(Band.of(storage.line_ratio), line_bytes_per_s(replica.line_bytes_per_s, most))


def line_bytes_per_s(line: Spread | None, usual: Band) -> Band:
    """A machine's line, at most what lines to storage are known to carry; the usual one where it is not known.

    >>> line_bytes_per_s(Spread(400e9, 400e9, 400e9), Band(1e9, 3e9, 12.5e9)).expected
    12500000000.0
    """
    if line is None:
        return usual
    known = Band(line.low, line.expected, line.high).smaller_of(Band.exact(usual.high))
    return Band(*(float(end) for end in (known.low, known.expected, known.high)))


def weights_source(storage: Storage) -> str:
    """What the rate of this storage rests on."""
    rates = (storage.process_bytes_per_s, storage.machine_bytes_per_s, storage.line_ratio)
    return "; ".join(dict.fromkeys(rate.source for rate in rates if rate is not None))


def compilation_s(replica: ReplicaToStart, engine: EngineStart) -> Band:
    """Seconds in which an engine compiles the model, or loads what it compiled before.

    t = fixed + layers x seconds of a layer + more where nothing is cached   [s]
    """
    if engine.compile_s is None or engine.compile_s_per_layer is None or engine.fresh_compile_s is None:
        return NOTHING
    cached = Band.of(engine.compile_s).plus(Band.of(engine.compile_s_per_layer).scaled(replica.num_layers))
    return cached if replica.compiled is Compiled.CACHED else cached.plus(Band.of(engine.fresh_compile_s))


def warm_up_s(replica: ReplicaToStart, engine: EngineStart) -> Band:
    """Seconds to profile the memory, capture graphs and run first steps.

    t = fixed + bytes of a device's weights x seconds of a byte   [s]
    """
    per_byte = Band.of(engine.warm_up_s_per_byte)
    return Band.of(engine.warm_up_s).plus(per_byte.scaled(replica.weights_bytes / replica.num_devices))


def total_s(stages: list[Band]) -> Band:
    """All stages together: expected ones add up, and widths as squares, because stages err independently.

    low = sum t - sqrt(sum (t - low)^2), high = sum t + sqrt(sum (high - t)^2)   [s]

    >>> total = total_s([Band(7.0, 10.0, 13.0), Band(6.0, 10.0, 14.0)])
    >>> float(total.low), total.expected, float(total.high)
    (15.0, 20.0, 25.0)
    """
    return reduce(Band.beside, stages, NOTHING)


def product(one: Band, other: Band) -> Band:
    """The product of two independent quantities: the widths of their logarithms add as squares.

    >>> found = product(Band.exact(12e9), inverse(Band(0.05e9, 0.1e9, 0.4e9)))
    >>> round(float(found.low)), round(float(found.expected)), round(float(found.high))
    (30, 120, 240)
    """
    expected = one.expected * other.expected
    below, above = starmap(
        np.hypot,
        (
            (np.log(one.expected / one.low), np.log(other.expected / other.low)),
            (np.log(one.high / one.expected), np.log(other.high / other.expected)),
        ),
    )
    return Band(expected * np.exp(-below), expected, expected * np.exp(above))


def inverse(rate: Band) -> Band:
    """Seconds of a byte at a rate, or anything else turned over: the low end comes from the high one."""
    return Band(1.0 / rate.high, 1.0 / rate.expected, 1.0 / rate.low)
