"""What a stream has shown so far: distinct rows, and how often each came with which target."""

from typing import NamedTuple

import numpy as np

__all__ = ["Seen", "merge_rows"]


class Seen(NamedTuple):
    """Rows with their targets and weights; after `merge_rows` no row stands twice."""

    rows: np.ndarray  # (N, D)
    targets: np.ndarray  # (N, K), summed over repetitions
    counts: np.ndarray  # (N,), summed likewise

    def empty(self) -> "Seen":
        """Return no rows, of the same shape and precision."""
        return Seen(*(part[:0] for part in self))


def merge_rows(*parts: Seen) -> Seen:
    """Merge all parts into distinct rows, in an order that does not depend on how they were cut.

    >>> once = Seen(np.array([[1.0], [2.0]]), np.array([[1.0], [0.0]]), np.ones(2))
    >>> merge_rows(once, once).targets
    array([[0.],
           [2.]])
    """
    rows, targets, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(rows):
        return Seen(rows, targets, counts)
    # Compared as bytes: np.unique(axis=0) takes thirty times as long where rows share a beginning.
    rows = np.ascontiguousarray(rows + 0.0)  # −0 becomes 0, which has other bytes
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, group = np.unique(as_bytes, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(first)))
    return Seen(
        rows[first],
        np.add.reduceat(targets[order], starts, axis=0),
        np.add.reduceat(counts[order], starts),
    )
