"""Are strange rows found? The comparison of `strangers.toml`, which was registered before.

    python -m benchmarks.strangers             all problems and seeds, about twenty minutes
    python -m benchmarks.strangers --quick     two small problems, one seed: a minute

Needs PyTorch, transformers, scikit-learn and the wheels that `benchmarks.strange_data` names. It
writes results/strangers.csv (a row for each problem, seed, kind and measure) and
results/strangers_summary.csv; docs/trust.md says what they mean.
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
from benchmarks.strange_data import PROBLEMS
from benchmarks.strange_networks import Embedded, embed, embed_sentence_gestalt
from lastlayer import sample_posterior
from lastlayer.machine import use_one_blas_thread
from lastlayer.unfamiliar import compute_factor, compute_leverages, fit_familiarity

REGISTRATION = Path(__file__).with_name("strangers.toml")
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
    familiarity = fit_familiarity(train, psi["validation"])
    scale = np.maximum(train.std(axis=0), 1e-6)
    centre = train[:, :-1].mean(axis=0)
    centred = compute_factor(train[:, :-1] - centre)
    factor = familiarity.factor
    logs = np.log(compute_leverages(psi["validation"], factor))

    def deviate(part: str) -> np.ndarray:
        z = (np.log(compute_leverages(psi[part], factor)) - logs.mean(axis=0)) / logs.std(axis=0)
        return np.asarray(np.abs(z).max(axis=1))

    def find_neighbour(part: str) -> np.ndarray:
        a, b = psi[part] / scale, train / scale
        square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        return np.asarray(np.partition(square, NEIGHBOURS - 1, axis=1)[:, NEIGHBOURS - 1])

    answers = rows.answers
    return {
        "leverage": lambda part: familiarity.compute_scores(psi[part]),
        "network entropy": lambda part: entropy(answers[part][0]),
        "default information": lambda part: default.entropies(psi[part]).information.sum(axis=1),
        "information at v = 1": lambda part: unit.entropies(psi[part]).information.sum(axis=1),
        "ensemble information": lambda part: (
            entropy(answers[part].mean(axis=0)) - entropy(answers[part]).mean(axis=0)
        ),
        "ensemble entropy": lambda part: entropy(answers[part].mean(axis=0)),
        "nearest neighbours": find_neighbour,
        "Mahalanobis": lambda part: compute_leverages(psi[part][:, :-1] - centre, centred)[:, 0],
        "h alone": lambda part: compute_leverages(psi[part], factor)[:, 0],
        "r alone": lambda part: compute_leverages(psi[part], factor)[:, 1],
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


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Average over kinds and seeds, then over problems; compare leverage with each measure."""
    strange = table[table["kind"] != "ordinary"]
    by_problem = strange.groupby(["measure", "problem"])["auroc"].mean().unstack("measure")
    flagged = strange.groupby(["measure", "problem"])["flagged"].mean().unstack("measure")
    usual = table[table["kind"] == "ordinary"].groupby("measure")["flagged"].mean()
    difference = -by_problem.sub(by_problem["leverage"], axis=0)
    n = len(by_problem)
    half = student.ppf(0.975, max(n - 1, 1)) * difference.std(ddof=1) / np.sqrt(n)
    return pd.DataFrame(
        {
            "auroc": by_problem.mean(),
            "leverage_minus_this": difference.mean(),
            "low": difference.mean() - half,
            "high": difference.mean() + half,
            "flagged": flagged.mean(),
            "flagged_ordinary": usual,
        }
    ).sort_values("auroc", ascending=False)


def main(
    quick: Annotated[bool, typer.Option(help="Two small problems, one seed.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Some of the problems.")] = None,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write.")] = RESULTS,
) -> None:
    """Make the comparison and print its summary."""
    registered = tomllib.loads(REGISTRATION.read_text(encoding="utf-8"))
    names = ["wine", "manifold"] if quick else only or registered["problems"]
    seeds = range(first, first + (1 if quick else registered["seeds"]))
    records: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    with use_one_blas_thread():
        for seed, name in product(seeds, names):
            records += compare(name, seed, registered["level"])
            table = pd.DataFrame(records)
            table.to_csv(out / "strangers.csv", index=False, float_format="%.4f")
            print(name, seed, flush=True)
    summary = summarise(table)
    summary.to_csv(out / "strangers_summary.csv", float_format="%.4f")
    print(summary.round(3).to_string())


if __name__ == "__main__":
    typer.run(main)
