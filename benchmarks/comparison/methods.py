"""The methods by name, and the problems on which each is skipped.

To add one, write a function that takes a `Problem` and returns a `Fitted`, and name it here.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.comparison import baselines, ours, torch_peers
from benchmarks.comparison.problem import Fitted, Problem

__all__ = ["METHODS", "Method"]


@dataclass(frozen=True)
class Method:
    """A function that fits, and the problems it can be used for."""

    fit: Callable[[Problem], Fitted]
    most_labels: int | None = None  # with more it takes minutes
    classes: bool = True  # whether it supports one of K classes

    def find_obstacle(self, problem: Problem) -> str:
        """Return why the method is skipped for a problem; "" if it is not."""
        K = problem.task.num_outputs
        if problem.classes and not self.classes:
            return "it has yes/no outputs only"
        if self.most_labels is not None and not problem.classes and self.most_labels < K:
            return f"it takes minutes on {K} labels"
        return ""

    def count_lines(self) -> int:
        """Count the lines of code that fit and predict, with the helpers of the same module."""
        function = getattr(self.fit, "func", self.fit)
        tree = ast.parse(inspect.getsource(inspect.getmodule(function) or ours))
        bodies = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        seen, waiting = set[str](), {function.__name__}
        while waiting:
            seen |= waiting
            names = {
                node.id
                for name in waiting
                for node in ast.walk(bodies[name])
                if isinstance(node, ast.Name)
            }
            waiting = (names & bodies.keys()) - seen
        return sum(_count_code(bodies[name]) for name in seen)


def _count_code(function: ast.FunctionDef) -> int:
    """Count the lines of a function, without its docstring and blank lines."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    bare = ast.Module([ast.FunctionDef(**(dict(ast.iter_fields(function)) | {"body": body}))], [])
    return len([line for line in ast.unparse(ast.fix_missing_locations(bare)).splitlines() if line])


METHODS = {
    "network": Method(baselines.fit_network),
    "temperature": Method(baselines.fit_temperature),
    "ridge": Method(baselines.fit_ridge),
    "ours": Method(ours.fit_default),
    "ours-hmc": Method(ours.fit_hmc, most_labels=500),
    "ours-paper": Method(ours.fit_paper, classes=False),
    "ours-unit-prior": Method(ours.fit_unit_prior),
    "ours-probit": Method(ours.fit_probit, classes=False),
    "laplace-diag": Method(torch_peers.fit_laplace_diag, most_labels=500),
    "laplace-kron": Method(torch_peers.fit_laplace_kron, most_labels=500),
    "laplace-full": Method(torch_peers.fit_laplace_full, most_labels=500),
    "laplace-grid": Method(torch_peers.fit_laplace_grid, most_labels=500),
    "vbll": Method(torch_peers.fit_vbll, most_labels=100),
    "mc-dropout": Method(baselines.fit_mc_dropout),
    "deep-ensemble": Method(baselines.fit_deep_ensemble),
}
