"""Are strange rows found? Comparisons that were registered before their results were looked at.

    python -m benchmarks.strangers                               strangers.toml
    python -m benchmarks.strangers --registration strangers_2    the corrected measure
    python -m benchmarks.strangers --quick                       two small problems, one seed

Needs PyTorch, transformers, scikit-learn and the wheels that `benchmarks.strange_data` names. It
writes results/strangers.csv (a row for each problem, seed, kind and measure) and
results/strangers_summary.csv, or strangers_2 of each; docs/explanations/doubt.md tells them.
"""

import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy.stats import t as student

from benchmarks.machine import RESULTS
from benchmarks.scores import auroc
from benchmarks.strange_clusters import fit_clusters
from benchmarks.strange_data import PROBLEMS
from benchmarks.strange_networks import Embedded, embed, embed_sentence_gestalt
from lastlayer import sample_posterior
from lastlayer.machine import use_one_blas_thread
from lastlayer.unfamiliar import compute_leverages, fit_familiarity

NEIGHBOURS = 10
Score = Callable[[str], np.ndarray]  # from a part or kind of rows to a number for each


def load_problem(name: str, seed: int) -> Embedded:
    """Make a problem, train its networks and apply them."""
    if name == "sentence gestalt":
        return embed_sentence_gestalt(seed)
    return embed(PROBLEMS[name](np.random.default_rng([seed, 36])), seed)


def make_scores(rows: Embedded) -> dict[str, Score]:
    """Return all measures; each is large where a row is strange."""
    psi, train = rows.psi, rows.psi["train"].astype(np.float64)
    held_out = (psi["validation"], rows.targets["validation"])
    validation = held_out if len(held_out[0]) >= 30 else None  # fewer choose no prior
    y = rows.targets["train"]
    default = sample_posterior(
        psi["train"],
        y,
        prior_variance="auto",
        validation=validation,
        trained=rows.trained,
        diagnose=False,
    )
    unit = sample_posterior(psi["train"], y, prior_variance=1.0, diagnose=False)
    score_clusters = fit_clusters(train, psi["validation"].astype(np.float64))
    familiarity = fit_familiarity(train, psi["validation"])
    mean, scale = train[:, :-1].mean(axis=0), np.maximum(train.std(axis=0), 1e-6)
    gaussian = fit_familiarity(train[:, :-1] - mean, psi["validation"][:, :-1] - mean)

    def measure(part: str) -> np.ndarray:
        return compute_leverages(psi[part], familiarity.factor)

    logs = np.log(measure("validation"))

    def deviate(part: str) -> np.ndarray:
        z = (np.log(measure(part)) - logs.mean(axis=0)) / logs.std(axis=0)
        return np.asarray(np.abs(z).max(axis=1))

    def find_neighbour(part: str) -> np.ndarray:
        a, b = psi[part] / scale, train / scale
        square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        return np.asarray(np.partition(square, NEIGHBOURS - 1, axis=1)[:, NEIGHBOURS - 1])

    answers = rows.answers
    return {
        "leverage": lambda part: familiarity.compute_scores(psi[part]),
        "clustered": lambda part: score_clusters(psi[part].astype(np.float64)),
        "network entropy": lambda part: entropy(answers[part][0]),
        "default information": lambda part: default.entropies(psi[part]).information.sum(axis=1),
        "information at v = 1": lambda part: unit.entropies(psi[part]).information.sum(axis=1),
        "ensemble information": lambda part: (
            entropy(answers[part].mean(axis=0)) - entropy(answers[part]).mean(axis=0)
        ),
        "ensemble entropy": lambda part: entropy(answers[part].mean(axis=0)),
        "nearest neighbours": find_neighbour,
        "Mahalanobis": lambda part: compute_leverages(psi[part][:, :-1] - mean, gaussian.factor)[
            :, 0
        ],
        "h alone": lambda part: measure(part)[:, 0],
        "r alone": lambda part: measure(part)[:, 1],
        "two-sided": deviate,
    }


def entropy(p: np.ndarray) -> np.ndarray:
    """Return the entropy of yes/no answers, summed over outputs."""
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.asarray(-(p * np.log(p) + (1 - p) * np.log1p(-p)).sum(axis=-1))


def compare(name: str, seed: int, level: float) -> list[dict[str, Any]]:
    """Score the test rows and every kind of strange rows by every measure."""
    rows = load_problem(name, seed)
    kinds = [part for part in rows.psi if part not in rows.targets]
    records = []
    for measure, score in make_scores(rows).items():
        ordinary, calibration = score("test"), np.sort(score("validation"))
        about = {"problem": name, "seed": seed, "measure": measure}
        records.append(about | {"kind": "ordinary", "flagged": flag(ordinary, calibration, level)})
        for kind in kinds:
            strange = score(kind)
            found = {
                "auroc": auroc(ordinary, strange),
                "flagged": flag(strange, calibration, level),
            }
            records.append(about | {"kind": kind} | found)
    return records


def flag(scores: np.ndarray, calibration: np.ndarray, level: float) -> float:
    """Return the share of rows whose conformal p-value is at most `level`."""
    n = len(calibration)
    p = (1 + n - np.searchsorted(calibration, scores, side="left")) / (1 + n)
    return float((p <= level).mean())


def summarise(table: pd.DataFrame, judged: str) -> pd.DataFrame:
    """Average over kinds and seeds, then over problems; compare one measure with all."""
    strange = table[table["kind"] != "ordinary"]
    by_problem = strange.groupby(["measure", "problem"])["auroc"].mean().unstack("measure")
    flagged = strange.groupby(["measure", "problem"])["flagged"].mean().unstack("measure")
    usual = table[table["kind"] == "ordinary"].groupby("measure")["flagged"].mean()
    difference = -by_problem.sub(by_problem[judged], axis=0)
    n = len(by_problem)
    half = student.ppf(0.975, max(n - 1, 1)) * difference.std(ddof=1) / np.sqrt(n)
    return pd.DataFrame(
        {
            "auroc": by_problem.mean(),
            f"{judged}_minus_this": difference.mean(),
            "low": difference.mean() - half,
            "high": difference.mean() + half,
            "flagged": flagged.mean(),
            "flagged_ordinary": usual,
        }
    ).sort_values("auroc", ascending=False)


def main(
    quick: Annotated[bool, typer.Option(help="Two small problems, one seed.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Some of the problems.")] = None,
    registration: Annotated[str, typer.Option(help="strangers, or strangers_2.")] = "strangers",
    out: Annotated[Path, typer.Option(help="Where to write.")] = RESULTS,
) -> None:
    """Make the comparison and print its summary."""
    registered = tomllib.loads(Path(__file__).with_name(f"{registration}.toml").read_text("utf-8"))
    names = ["wine", "manifold"] if quick else only or registered["problems"]
    first = registered.get("first_seed", 0)
    seeds = range(first, first + (1 if quick else registered["seeds"]))
    records: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    with use_one_blas_thread():
        for seed, name in product(seeds, names):
            records += compare(name, seed, registered["level"])
            table = pd.DataFrame(records)
            table.to_csv(out / f"{registration}.csv", index=False, float_format="%.4f")
            print(name, seed, flush=True)
    summary = summarise(table, "clustered" if registration == "strangers_2" else "leverage")
    summary.to_csv(out / f"{registration}_summary.csv", float_format="%.4f")
    print(summary.round(3).to_string())


if __name__ == "__main__":
    typer.run(main)
