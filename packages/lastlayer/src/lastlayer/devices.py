"""Rows on one device, or split over several devices of this process.

Only rows are split; everything else (weights, covariances, draws) is small and is kept whole on
every device. So a sampler needs one collective operation, the sum over rows, and only this module
deals with devices: `spread_over` opens a mesh with one axis, `place` splits an array's leading axis
over it, and `rows.sum_over_blocks` adds up the sums of the devices.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from lastlayer.checks import check_int, fail
from lastlayer.compiling import Array

T = TypeVar("T")
AXIS = "lastlayer_rows"  # a name no caller's own mesh has
WHOLE, CUT = PartitionSpec(), PartitionSpec(AXIS)  # type: ignore[no-untyped-call]


def choose_devices(devices: Any) -> tuple[jax.Device, ...]:
    """Return the devices to split rows over; an empty tuple means JAX's default device."""
    if devices is None:
        return ()
    known = jax.local_devices()
    if devices == "all":
        return tuple(known)
    if isinstance(devices, Sequence):
        if not devices or not set(devices) <= set(known) or len(set(devices)) < len(devices):
            fail(
                f"devices must be 'all', a number, or a list of some of {known}, each once, got "
                f"{devices!r:.80}."
            )
        return tuple(devices)
    number = check_int(devices, "devices", least=1)
    if number > len(known):
        fail(
            f"devices must be at most {len(known)}, as many as JAX sees here, got {number}; for "
            "several on one CPU set XLA_FLAGS=--xla_force_host_platform_device_count=N."
        )
    return tuple(known[:number])


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


def place(array: Any) -> Array:
    """Split the leading axis of an array over the devices."""
    if count_shards() == 1:
        return jax.device_put(array)  # jnp.asarray would compile a program for each shape
    return jax.device_put(array, NamedSharding(jax.sharding.get_mesh(), CUT))


def apply_one_by_one(function: Callable[..., T], *stacks: Any) -> T:
    """Apply a function to stacked matrices, one by one where several CPU devices do the same.

    jaxlib distributes the matrices of a LAPACK call over a pool of threads, and waits for them in
    one of those threads. Several devices share the pool: once all of its threads wait, none works,
    and the program hangs. A single matrix is computed by the calling thread.
    """
    if isinstance(stacks[0], np.ndarray) or count_shards() == 1 or jax.default_backend() != "cpu":
        return function(*stacks)
    results = jax.lax.map(lambda one: function(*(leaf[None] for leaf in one)), stacks)
    without: T = jax.tree.map(lambda leaf: leaf[:, 0], results)
    return without
