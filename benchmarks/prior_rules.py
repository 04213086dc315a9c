"""Compare rules for choosing the prior, on data sets that are used nowhere else.

    python -m benchmarks.prior_rules --out DIR

The data come with the wheels of `river` and `mlxtend`, or are drawn from small random networks,
with many test rows. Each is tried with an early-stopped and with an overfitted network. For every
prior of a grid the losses of validation and test rows are computed; a rule chooses by validation
rows only. `prior_rules.csv` has a row for each network and rule: the change of the test loss from
that of the network itself, in per cent.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.comparison.data import Task
from benchmarks.comparison.networks import Network, train_networks
from benchmarks.comparison.prior_data import SOURCES, make_task
from lastlayer import Posterior, sample_posterior
from lastlayer.prior_search import (
    Logits,
    arrange_answers,
    find_intercepts,
    list_sizes,
    predict_logs,
)
from lastlayer.problem import Likelihood, Problem

SIZES = 15  # of the variances that the search tries, by half decades
SHARES = tuple(np.arange(8) / 8)
PATIENCE = 3  # variances without a lower loss


class Trial(NamedTuple):
    """A prior centred on zero or on the trained weights, and a share of the network."""

    kind: str
    size: float
    share: float
    difference: float  # from the network's validation loss
    error: float  # standard error of the difference
    test: float  # test loss


def try_priors(task: Task, network: Network) -> tuple[Trial, list[Trial]]:
    """Return the losses of the network itself, and those of every prior and share."""
    problems = {part: _build(task, network, part) for part in task.inputs}
    W, parts, train = network.weights, ("validation", "test"), problems["train"]
    own = {part: Logits(problems[part].features @ W.T) for part in parts}
    theirs = {part: _lose(problems[part], own[part]) for part in parts}
    intercepts, found = find_intercepts(train.features), []
    for kind, mean in {"zero": 0 * W, "shrunk": 0 * W, "trained": W}.items():
        best, risen = np.inf, 0
        for size in list_sizes(train)[:SIZES]:
            wide = (intercepts > 0) & (kind == "zero")
            fit = sample_posterior(
                train.features,
                train.targets,
                prior_mean=mean,
                prior_variance=np.where(wide, intercepts, size),
                diagnose=False,
            )
            logits = {part: _compute_logits(fit, problems[part]) for part in parts}
            shares = SHARES if kind == "zero" else SHARES[:1]
            for share in shares:
                mixed = {
                    part: Logits(mean + share * (own[part].mean - mean), variance)
                    for part, (mean, variance) in logits.items()
                }
                beside = _lose(problems["validation"], mixed["validation"]) - theirs["validation"]
                error = np.sqrt(len(beside)) * beside.std()
                test = _lose(problems["test"], mixed["test"]).sum()
                found.append(Trial(kind, size, share, beside.sum(), error, test))
            difference = found[-len(shares)].difference
            risen = 0 if difference <= best else risen + 1
            best = min(best, difference)
            if risen >= PATIENCE:
                break
    return Trial("network", 0.0, 1.0, 0.0, 0.0, theirs["test"].sum()), found


def _compute_logits(fit: Posterior, rows: Problem) -> Logits:
    mean, sd = fit.logits(rows.features)
    return Logits(mean, sd**2)


def _lose(rows: Problem, logits: Logits) -> np.ndarray:
    """Return the loss of each row, (M,)."""
    return np.asarray(-(arrange_answers(rows) * predict_logs(rows, logits)).sum(axis=(1, 2)))


def _build(task: Task, network: Network, part: str) -> Problem:
    psi, t = network.compute_features(task.inputs[part]), task.targets[part]
    if task.classes:
        t = np.eye(task.num_outputs, dtype=np.float32)[t]
    kind = Likelihood.SOFTMAX if task.classes else Likelihood.BERNOULLI
    return Problem.build(psi, t, None, 0.0, 1.0, kind, np.float32)


class Rule(NamedTuple):
    """Which trials may be chosen, and by how many standard errors they must beat the network."""

    kinds: tuple[str, ...]
    mixed: bool = False
    errors: float | None = None  # None: regardless of the network's loss

    def choose(self, own: Trial, trials: list[Trial]) -> Trial:
        """Return the allowed trial with the least validation loss, or the network itself."""
        allowed = [
            trial
            for trial in trials
            if trial.kind in self.kinds and (self.mixed or not trial.share)
        ]
        if self.errors is not None:
            limits = [trial.difference + self.errors * trial.error for trial in allowed]
            better = [t for t, limit in zip(allowed, limits, strict=True) if limit < 0]
            allowed = [own, *better]
        return min(allowed, key=lambda trial: trial.difference)


ZERO, BOTH = ("zero",), ("zero", "trained")
RULES = {
    "refit, intercept shrunk": Rule(("shrunk",)),
    "refit": Rule(ZERO),
    "refit or fine-tuned, 2 s.e.": Rule(BOTH, errors=2),
    **{f"mixture, {k} s.e.": Rule(ZERO, True, k) for k in (0, 1, 2, 3)},
}


def main() -> None:
    """Measure all networks and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("prior_rules"))
    parser.add_argument("--data", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--seeds", type=int, default=4)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name, overfitted, seed in product(given.data, (False, True), range(given.seeds)):
        task = make_task(name, seed, overfitted)
        about = {"dataset": name, "overfitted": overfitted, "seed": seed}
        rows += [about | row for row in apply_rules(*try_priors(task, train_networks(task)[0]))]
        print(*about.values(), flush=True)
        table = pd.DataFrame(rows)
        table.to_csv(given.out / "prior_rules.csv", index=False, float_format="%.5g")
    print(summarise(table).to_string(float_format="{:.2f}".format))


def apply_rules(own: Trial, trials: list[Trial]) -> Iterator[dict[str, Any]]:
    """Yield each rule with the prior it chooses and the change of the test loss in per cent."""
    for label, rule in RULES.items():
        found = rule.choose(own, trials)
        change = 100 * (found.test / own.test - 1)
        yield {"rule": label, "change": change, "share": found.share, "size": found.size}


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each rule the mean and worst change, and how often it is above 1 %."""
    rules = table.groupby(["overfitted", "rule"], sort=False)["change"]
    return pd.DataFrame(
        {
            "mean": rules.mean(),
            "median": rules.median(),
            "worst": rules.max(),
            "above 1 %": rules.agg(lambda change: (change > 1).mean() * 100),
        }
    )


if __name__ == "__main__":
    main()
