"""Where rows live: on one device, or cut over several, of this host or of many.

Rows are data; everything else (weights, covariances, draws) is small and is kept whole on every
device. So a sampler needs one collective, the sum over rows, and this file is all it knows of
devices: `spread_over` opens a mesh with one axis, `placed` cuts an array's leading axis over it,
and `rows.sum_over_blocks` adds up what the devices found.

In a program of several processes (`jax.distributed.initialize`) every process hands in rows of its
own, and all ask for the same thing at the same time. What is computed on the host from all rows
(how many there are, how large) goes through `largest_anywhere` and `sum_everywhere`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from equivocal.sampling.engine.inputs import checked_int, fail
from equivocal.sampling.engine.shapes import Array

__all__ = [
    "AXIS",
    "CUT",
    "WHOLE",
    "chosen_devices",
    "largest_anywhere",
    "local_shards",
    "num_hosts",
    "num_shards",
    "one_by_one",
    "placed",
    "placed_by_device",
    "spread_over",
    "sum_everywhere",
]

T = TypeVar("T")
AXIS = "equivocal_rows"  # a name no caller's own mesh has
WHOLE, CUT = PartitionSpec(), PartitionSpec(AXIS)  # type: ignore[no-untyped-call]


def chosen_devices(devices: Any) -> tuple[jax.Device, ...]:
    """The devices to cut rows over; none where one device does it all."""
    if devices is None:
        return ()
    if isinstance(devices, str):
        if devices != "all":
            fail(f"devices must be 'all', a number or a list of JAX devices, got {devices!r}.")
        return tuple(jax.devices())
    if isinstance(devices, Sequence):
        known = jax.devices()
        if not devices or any(device not in known for device in devices):
            fail(f"devices must hold some of {known}, got {devices!r:.80}.")
        chosen = tuple(devices)
        if len(set(chosen)) < len(chosen):
            fail(f"devices must hold each device once, got {devices!r:.80}.")
        held = Counter(device.process_index for device in chosen)
        uneven = len(held) < jax.process_count() or len(set(held.values())) > 1
        if len(held) > 1 and uneven:
            fail("devices must hold equally many of every process; use 'all', or one process's.")
        return chosen
    here = jax.local_devices()
    number = checked_int(devices, "devices", least=1)
    if number > len(here):
        fail(
            f"devices must be at most {len(here)}, as many as JAX sees here, got {number}; for "
            "several on one CPU set XLA_FLAGS=--xla_force_host_platform_device_count=N."
        )
    return tuple(here[:number])


@contextmanager
def spread_over(devices: tuple[jax.Device, ...]) -> Iterator[None]:
    """Cut rows over devices inside the block, or put all on the one; none changes nothing."""
    if len(devices) < 2:
        with jax.default_device(devices[0]) if devices else nullcontext():
            yield
        return
    with jax.set_mesh(Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))):
        yield


def num_shards() -> int:
    """Devices that rows are cut over; under `jit` too."""
    mesh = jax.sharding.get_abstract_mesh()
    return int(mesh.shape[AXIS]) if AXIS in mesh.axis_names else 1


def _mesh() -> Mesh:
    mesh: Mesh = jax.sharding.get_mesh()
    return mesh


def local_shards() -> int:
    """Those of them that belong to this process."""
    return len(_mesh().local_devices) if num_shards() > 1 else 1


def num_hosts() -> int:
    """Processes that hold rows."""
    return num_shards() // local_shards()


def placed(array: np.ndarray) -> Array:
    """An array, or the part of it that this process has, its leading axis cut over the devices."""
    if num_shards() == 1:
        return jax.numpy.asarray(array)
    sharding = NamedSharding(_mesh(), CUT)
    whole: Array = jax.make_array_from_process_local_data(sharding, array)  # type: ignore[no-untyped-call]
    return whole


def placed_by_device(parts: Iterator[np.ndarray]) -> Array:
    """As `placed`, of one part for each device of this process, made when its turn comes."""
    mesh = _mesh()
    pairs = zip(parts, mesh.local_devices, strict=True)
    arrays = [jax.device_put(part, device) for part, device in pairs]
    shape = (num_shards() * len(arrays[0]), *arrays[0].shape[1:])
    sharding = NamedSharding(mesh, CUT)
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays)


def one_by_one(function: Callable[..., T], *stacks: Array) -> T:
    """A function of stacked matrices; matrix by matrix where several CPU devices do the same work.

    jaxlib deals the matrices of a LAPACK call out to a pool of threads and waits for them in one of
    those threads. Several devices share the pool: with all of its threads waiting, none works, for
    ever. A single matrix is done by the thread that asks.
    """
    if num_shards() == 1 or jax.default_backend() != "cpu":
        return function(*stacks)
    found = jax.lax.map(lambda one: function(*(leaf[None] for leaf in one)), stacks)
    without: T = jax.tree.map(lambda leaf: leaf[:, 0], found)
    return without


def largest_anywhere(values: np.ndarray | float | int) -> np.ndarray:
    """The maximum over all processes, entry by entry."""
    return np.asarray(_gathered(values).max(axis=0))


def sum_everywhere(values: np.ndarray | float | int) -> np.ndarray:
    """The sum over all processes, entry by entry."""
    return np.asarray(_gathered(values).sum(axis=0))


def _gathered(values: np.ndarray | float | int) -> np.ndarray:
    found = np.asarray(values, np.float64)
    if num_hosts() == 1:
        return found[None]
    from jax.experimental import multihost_utils

    bits = np.ascontiguousarray(found).reshape(-1).view(np.uint32)  # float64 whatever x64 says
    every = np.asarray(multihost_utils.process_allgather(bits))
    return every.view(np.float64).reshape(-1, *found.shape)
