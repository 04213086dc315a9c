"""Rows too many to be laid out in memory at once: chunk by chunk, whenever they are summed over.

A `numpy.memmap` of the run's own precision is then read in chunks, too, and need not fit into
memory; only a few numbers are kept for each row and output in flight. The samplers do not change:
their compiled sums request a chunk by its number, and `StreamedRows` lays it out.
"""

from typing import Any

import jax
import numpy as np

from lastlayer.compiling import Array, Int
from lastlayer.plan import Plan
from lastlayer.problem import Problem
from lastlayer.rows import Rows, cut_into_blocks, fill_features

CHUNK = 1 << 22  # bytes of features that are laid out at once


@jax.tree_util.register_static
class StreamedRows:
    """Rows of some outputs, as chunks of blocks that are made on request.

    Compiled sums request a chunk by its number while they run. So a caller must wait for them to
    finish before it puts other numbers into `outputs`.
    """

    def __init__(self, problem: Problem, plan: Plan, outputs: np.ndarray) -> None:
        self.problem, self.block_rows, self.wide = problem, plan.block_rows, plan.num_features
        self.outputs = outputs
        size = plan.block_rows * plan.num_features * problem.dtype.itemsize
        blocks = -(-problem.num_rows // plan.block_rows)
        self.together = min(max(1, CHUNK // size), blocks)  # blocks of a chunk
        self.num_chunks = -(-problem.num_rows // (self.together * plan.block_rows))

    def fetch(self, number: Int[Array, ""]) -> Rows:
        """Fetch one chunk; the compiled program calls the host for it."""
        n, r, slots = self.together, self.block_rows, len(self.outputs)
        own = 1 if len(self.problem.prior_mean) == 1 else slots
        counts = (n, r) if np.ndim(self.problem.counts) < 2 else (n, slots, r)
        # as bits: enable_x64 does not hold in the thread that calls back, which would round
        bits = (2,) * (self.problem.dtype.itemsize // 8)
        shapes = [
            jax.ShapeDtypeStruct(shape + bits, np.uint32)  # type: ignore[no-untyped-call]
            for shape in ((n, r, self.wide), counts, (n, slots, r), (n, own, r))
        ]
        fetched = jax.pure_callback(self._read_bits, shapes, number)
        kind = self.problem.dtype
        return Rows(*(jax.lax.bitcast_convert_type(part, kind) for part in fetched))

    def _read_bits(self, number: Any) -> list[np.ndarray]:
        parts = map(np.ascontiguousarray, self.read_chunk(number))
        bits = (2,) * (self.problem.dtype.itemsize // 8)
        return [part.view(np.uint32).reshape(part.shape + bits) for part in parts]

    def read_chunk(self, number: Any) -> list[np.ndarray]:
        """Read the fields of `Rows`; rows past the end count zero times."""
        problem, blocks = self.problem, (self.together, self.block_rows)
        start = int(number) * self.together * self.block_rows
        stop = start + self.together * self.block_rows
        given = problem.features, problem.targets, problem.counts
        psi, t, c = (part[start:stop] for part in given)

        def cut(columns: np.ndarray) -> np.ndarray:
            columns = columns.astype(problem.dtype, copy=False)
            return cut_into_blocks(columns, *blocks).swapaxes(1, 2)

        counts = cut(c[:, self.outputs]) if c.ndim == 2 else cut(c[:, None])[:, 0]
        features = cut_into_blocks(fill_features(problem, psi, self.wide), *blocks)
        offsets = psi @ problem.select_mean(self.outputs).T
        return [features, counts, cut(t[:, self.outputs]), cut(offsets)]
