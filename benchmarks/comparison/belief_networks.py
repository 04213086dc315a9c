"""Bayesian networks of yes/no nodes, from the BIF files inside the wheel of `pgmpy`.

A row is a draw s of all nodes. The target of node k is drawn *again* from P(node k | its parents in
s), so that the true probability of every target is known exactly: it is an entry of a table.
"""

import gzip
import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["BeliefNetwork", "draw_rows", "read_bif"]

VARIABLE = re.compile(r"variable (\S+) \{\s*type discrete \[ \d+ \] \{ ([^}]*) \};")
TABLE = re.compile(r"probability \( (\S+)(?: \| ([^)]*))? \) \{(.*?)\n\}", re.DOTALL)
LINE = re.compile(r"\(([^)]*)\) ([^;]*);")


class BeliefNetwork(NamedTuple):
    """Nodes in an order in which parents come first."""

    names: list[str]
    parents: list[list[int]]
    tables: list[np.ndarray]  # for each node, P(second state) by the states of its parents


def read_bif(path: Path) -> BeliefNetwork:
    """Read a network whose nodes have two states each."""
    text = gzip.decompress(path.read_bytes()).decode()
    states = {name: re.split(r",\s*", both.strip()) for name, both in VARIABLE.findall(text)}
    given: dict[str, tuple[list[str], np.ndarray]] = {}
    for name, listed, body in TABLE.findall(text):
        parents = re.split(r",\s*", listed.strip()) if listed else []
        table = np.full((2,) * len(parents), np.nan)
        if not parents:
            table = np.array(float(body.split("table")[1].split(",")[1].rstrip(";\n ")))
        for seen, numbers in LINE.findall(body):
            place = [states[p].index(s) for p, s in zip(parents, seen.split(", "), strict=True)]
            table[tuple(place)] = float(numbers.split(",")[1])
        assert np.isfinite(table).all(), f"{path.name}: {name} lacks lines of its table"
        given[name] = (parents, table)
    order = TopologicalSorter({name: parents for name, (parents, _) in given.items()})
    names = list(order.static_order())
    number = {name: k for k, name in enumerate(names)}
    return BeliefNetwork(
        names,
        [[number[parent] for parent in given[name][0]] for name in names],
        [given[name][1] for name in names],
    )


def draw_rows(
    network: BeliefNetwork, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return draws of all nodes, targets, and the targets' true probabilities, each (N, K)."""
    K = len(network.names)
    rows, truth = np.zeros((size, K), int), np.zeros((size, K))
    for k in range(K):
        truth[:, k] = network.tables[k][tuple(rows[:, p] for p in network.parents[k])]
        rows[:, k] = rng.random(size) < truth[:, k]
    targets = rng.random((size, K)) < truth
    return rows.astype(np.float32), targets.astype(np.float32), truth
