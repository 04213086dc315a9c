"""Placement of rows: on one device, or split over several devices of one or more hosts.

Only rows are split; everything else (weights, covariances, draws) is small and is kept whole on
every device. So a sampler needs one collective operation, the sum over rows, and only this module
deals with devices: `spread_over` opens a mesh with one axis, `place` splits an array's leading axis
over it, and `rows.sum_over_blocks` adds up the sums of the devices.

In a program of several processes (`jax.distributed.initialize`) every process passes its own rows,
and all make the same call at the same time. Numbers that the host computes from all rows (how many
there are, how large) go through `find_largest_anywhere` and `sum_everywhere`. A process that stops
alone would leave the others waiting for ever in their next collective operation. So each process
checks its own part inside `refuse_together`, before the first sum over all processes, and
`check_same` compares their arguments.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from lastlayer.checks import check_int, fail
from lastlayer.compiling import Array
from lastlayer.errors import join_names

T = TypeVar("T")
AXIS = "equivocal_rows"  # a name no caller's own mesh has
WHOLE, CUT = PartitionSpec(), PartitionSpec(AXIS)  # type: ignore[no-untyped-call]


def choose_devices(devices: Any) -> tuple[jax.Device, ...]:
    """Return the devices to split rows over; an empty tuple means JAX's default device."""
    if devices is None:
        return ()
    if devices == "all":
        return tuple(jax.devices())
    if isinstance(devices, Sequence):
        known, chosen = jax.devices(), tuple(devices)
        if not chosen or not set(chosen) <= set(known) or len(set(chosen)) < len(chosen):
            fail(
                f"devices must be 'all', a number, or a list of some of {known}, each once, got "
                f"{devices!r:.80}."
            )
        held = Counter(device.process_index for device in chosen)
        uneven = len(held) < jax.process_count() or len(set(held.values())) > 1
        if len(held) > 1 and uneven:
            fail("devices must hold equally many of every process; use 'all', or one process's.")
        return chosen
    here = jax.local_devices()
    number = check_int(devices, "devices", least=1)
    if number > len(here):
        fail(
            f"devices must be at most {len(here)}, as many as JAX sees here, got {number}; for "
            "several on one CPU set XLA_FLAGS=--xla_force_host_platform_device_count=N."
        )
    return tuple(here[:number])


@contextmanager
def spread_over(devices: tuple[jax.Device, ...]) -> Iterator[None]:
    """Split rows over devices inside the context, or put all on one; () changes nothing."""
    if len(devices) < 2:
        with jax.default_device(devices[0]) if devices else nullcontext():
            yield
        return
    with jax.set_mesh(Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))):
        yield


def count_shards() -> int:
    """Count the devices that rows are split over; works under `jit`, too."""
    mesh = jax.sharding.get_abstract_mesh()
    return int(mesh.shape[AXIS]) if AXIS in mesh.axis_names else 1


def _get_mesh() -> Mesh:
    mesh: Mesh = jax.sharding.get_mesh()
    return mesh


def count_local_shards() -> int:
    """Count the devices of this process that rows are split over."""
    return len(_get_mesh().local_devices) if count_shards() > 1 else 1


def place(array: np.ndarray) -> Array:
    """Split the leading axis of an array, or of this process' part of it, over the devices."""
    if count_shards() == 1:
        return jax.device_put(array)  # jnp.asarray would compile a program for each shape
    sharding = NamedSharding(_get_mesh(), CUT)
    whole: Array = jax.make_array_from_process_local_data(sharding, array)  # type: ignore[no-untyped-call]
    return whole


def place_by_device(parts: Iterator[np.ndarray]) -> Array:
    """Place one part on each device of this process; an iterator builds each when needed."""
    mesh = _get_mesh()
    pairs = zip(parts, mesh.local_devices, strict=True)
    arrays = [jax.device_put(part, device) for part, device in pairs]
    shape = (count_shards() * len(arrays[0]), *arrays[0].shape[1:])
    sharding = NamedSharding(mesh, CUT)
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays)


def apply_one_by_one(function: Callable[..., T], *stacks: Array) -> T:
    """Apply a function to stacked matrices, one by one where several CPU devices do the same.

    jaxlib distributes the matrices of a LAPACK call over a pool of threads, and waits for them in
    one of those threads. Several devices share the pool: once all of its threads wait, none works,
    and the program hangs. A single matrix is computed by the calling thread.
    """
    if count_shards() == 1 or jax.default_backend() != "cpu":
        return function(*stacks)
    found = jax.lax.map(lambda one: function(*(leaf[None] for leaf in one)), stacks)
    without: T = jax.tree.map(lambda leaf: leaf[:, 0], found)
    return without


def find_largest_anywhere(values: np.ndarray | float | int) -> np.ndarray:
    """Return the maximum over all processes, entry by entry."""
    return np.asarray(_gather(values).max(axis=0))


def sum_everywhere(values: np.ndarray | float | int) -> np.ndarray:
    """Return the sum over all processes, entry by entry."""
    return np.asarray(_gather(values).sum(axis=0))


def _gather(values: np.ndarray | float | int) -> np.ndarray:
    found = np.asarray(values, np.float64)
    if count_shards() == count_local_shards():  # of one process
        return found[None]
    from jax.experimental import multihost_utils

    bits = np.ascontiguousarray(found).reshape(-1).view(np.uint32)  # float64 whatever x64 says
    every = np.asarray(multihost_utils.process_allgather(bits))
    return every.view(np.float64).reshape(-1, *found.shape)


@contextmanager
def refuse_together() -> Iterator[None]:
    """Make all processes fail where one does. Nothing inside may wait for other processes."""
    try:
        yield
    except Exception:  # too little memory, or a file that cannot be read
        find_largest_anywhere(1)
        raise
    if find_largest_anywhere(0):
        fail("another process of this run gave up, and said why; mend that, and start all again.")


def check_same(asked: dict[str, Any]) -> None:
    """Refuse processes that would compute different things, and name what differs."""
    numbers = np.array([_hash(value) for value in asked.values()])
    # gathered once: a process that sees no difference would wait in a second operation
    most, least = np.split(find_largest_anywhere(np.concatenate([numbers, -numbers])), 2)
    if (most != -least).any():
        differing = [name for name, here in zip(asked, most != -least, strict=True) if here]
        fail(f"all processes must agree on {join_names(differing)}.")


def _hash(value: Any) -> float:
    """Return six bytes of a hash as a float, which holds them exactly."""
    content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
    return float(int.from_bytes(hashlib.sha256(content).digest()[:6]))
