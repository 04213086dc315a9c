"""Rows that do not fit into memory: read or laid out chunk by chunk whenever they are summed over.

Features may be a `numpy.memmap`, a zarr or HDF5 array, or anything with `shape`, `dtype`, `chunks`
and slices that NumPy understands; targets and counts may be such arrays too. They are streamed when
they would not fit into the memory budget; only a few numbers are then kept for each row and output
in flight. The samplers do not change: their compiled sums request a chunk by its number, and
`StreamedRows` reads it. One pass over all rows checks them before anything is computed. Rows in the
caller's own memory are streamed in the same way where the budget has no room to lay them all out.
"""

import mmap
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np

from lastlayer.checks import check_counts, check_features, check_targets, choose_dtype, fail
from lastlayer.compiling import Array, Int
from lastlayer.errors import UserError
from lastlayer.plan import Plan, choose_limit
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Rows, cut_into_blocks, fill_features

CHUNK = 1 << 22  # bytes of features that are read or laid out at once
COPIES = 3  # of features that are read into memory: theirs, laid out, and handed to the device


def is_streamed(features: Any, dtype: Any, memory_budget: int | None) -> bool:
    """Return whether features are in a file, and too large to be read into memory."""
    lazy = isinstance(features, np.memmap) or all(
        hasattr(features, name) for name in ("shape", "dtype", "chunks")
    )
    if not lazy or len(features.shape) != 2:
        return False
    size = choose_dtype(features, dtype).itemsize
    return int(COPIES * np.prod(features.shape) * size) > choose_limit(memory_budget)


@dataclass(frozen=True, eq=False)
class StreamedProblem(Problem):
    """A `Problem` whose `features`, `targets` and `counts` stay where the caller keeps them."""

    in_memory: ClassVar[bool] = False
    features: Any
    targets: Any
    counts: Any

    @staticmethod
    def _check_rows(
        features: Any, targets: Any, counts: Any, likelihood: Likelihood, dtype: Any
    ) -> tuple[Any, Any, Any, np.dtype]:
        """Check the shapes; `check_range` reads all rows and checks their values."""
        if likelihood is Likelihood.SOFTMAX:
            fail("rows are read from disk for likelihood='bernoulli' alone; load them for softmax.")
        N = features.shape[0]
        targets = targets if hasattr(targets, "shape") else np.asarray(targets)
        if len(targets.shape) not in (1, 2) or targets.shape[0] != N:
            fail(f"targets must have one row for each of the {N} features, got {targets.shape}.")
        if counts is not None and np.shape(counts) != (N,):
            fail(f"counts must have shape ({N},), one per row of features, got {np.shape(counts)}.")
        return features, targets, counts, choose_dtype(features, dtype)

    @cached_property
    def _checked(self) -> tuple[np.ndarray, float]:
        """The largest absolute value of each feature and the sum of all counts; checks all rows."""
        largest, total = np.zeros(self.num_features), 0.0
        step = max(1, CHUNK // (self.num_features * self.dtype.itemsize))
        for start in range(0, self.num_rows, step):
            psi, _, c = self.read(start, start + step)
            largest = np.maximum(largest, np.abs(psi).max(axis=0))
            total += float(c.sum(dtype=np.float64))
        return largest, total

    @property
    def largest(self) -> np.ndarray:
        """The largest absolute value of each feature, (D,)."""
        return self._checked[0].astype(self.dtype)

    @property
    def total_count(self) -> float:
        """The sum of the counts."""
        return self._checked[1]

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return features (n, D), targets (n, K) and counts (n,) of some rows, checked."""
        psi, t = _read_rows(self.features, start, stop), _read_rows(self.targets, start, stop)
        counts = None if self.counts is None else _read_rows(self.counts, start, stop)
        try:
            psi = check_features(psi, self.dtype)
            c = check_counts(counts, len(psi), self.dtype)
            t = check_targets(t, c, softmax=False)
        except UserError as error:
            where = f" Rows are counted here from row {start:,} of the file." if start else ""
            raise UserError(f"{error}{where}") from None
        # a copy before the pages are released: features of the run's precision are still a view
        rows = np.array(psi), t, c
        for array in (self.features, self.targets, self.counts):
            _forget_pages(array)
        return rows


def _read_rows(array: Any, start: int, stop: int) -> np.ndarray:
    """Read rows of an array in a file; catch any exception, as each file format has its own."""
    try:
        return np.asarray(array[start:stop])
    except Exception as error:
        last = min(stop, array.shape[0]) - 1
        fail(f"rows {start:,} to {last:,} cannot be read ({error}); restore the file.")


def _forget_pages(array: Any) -> None:
    """Release the pages of a memory-mapped file, which otherwise stay in the process' memory."""
    mapped = getattr(array, "_mmap", None)
    if getattr(array, "mode", "") == "c":  # private pages hold the caller's own changes
        return
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


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
        psi, t, c = problem.read(start, min(stop, problem.num_rows))

        def cut(columns: np.ndarray) -> np.ndarray:
            columns = columns.astype(problem.dtype, copy=False)
            return cut_into_blocks(columns, *blocks).swapaxes(1, 2)

        counts = cut(c[:, self.outputs]) if c.ndim == 2 else cut(c[:, None])[:, 0]
        features = cut_into_blocks(fill_features(problem, psi, self.wide), *blocks)
        offsets = psi @ problem.select_mean(self.outputs).T
        return [features, counts, cut(t[:, self.outputs]), cut(offsets)]
