"""Does averaging over a posterior pay when rows shift, and under which prior? See `shift.toml`.

    python -m benchmarks.shift             all problems and seeds, about half an hour
    python -m benchmarks.shift --quick     two small problems, one seed: a minute

The comparison was registered before. It needs what `benchmarks.strangers` needs. results/shift.csv
has a row for each problem, seed, method and part of the rows ("test": at home), and
results/shift_summary.csv the contrasts; docs/explanations/doubt.md says what they mean. Constant
columns have the prior variance 25 under every rule.
"""

import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import t as student

from benchmarks.machine import RESULTS
from benchmarks.strange_data import (
    Problem,
    blur,
    load_affairs,
    load_diabetes,
    load_health,
    load_mnist,
    load_other_digits,
    rotate,
    split_rows,
    standardise,
)
from benchmarks.strange_networks import Embedded, embed
from benchmarks.strange_sentences import embed_sentences, write_sentence
from lastlayer import sample_posterior
from lastlayer.machine import use_one_blas_thread

REGISTRATION = Path(__file__).with_name("shift.toml")
INTERCEPT = 25.0
BAGS, CLUSTERS, EXACT_SEEDS = 10, 4, 3
# of the registered questions: which method, against which
CONTRASTS = (
    *(("gaussian", other) for other in ("map", "temperature", "ensemble")),
    *((family, "gaussian") for family in ("exact", "laplace", "bagged")),
    *((rule, "gaussian") for rule in ("hundredth", "one", "standard_error", "clusters")),
)

Rows = tuple[np.ndarray, np.ndarray]  # inputs and targets


def make_problem(inputs: Rows, shifts: dict[str, Rows], rng: np.random.Generator) -> Problem:
    """Split and standardise ordinary rows, and add shifted ones."""
    x, t = split_rows(*inputs, rng)
    targets = {part: np.asarray(answers, np.float32) for part, (_, answers) in shifts.items()}
    return standardise(x, t | targets, {part: rows for part, (rows, _) in shifts.items()})


def hold_out(x: np.ndarray, t: np.ndarray, away: np.ndarray, rng: np.random.Generator) -> Problem:
    """Make a problem whose shift is a group of rows that training never sees."""
    return make_problem((x[~away], t[~away]), {"held-out group": (x[away], t[away])}, rng)


def make_digits(
    home: Callable[[], Rows], away: Callable[[], Rows], rng: np.random.Generator
) -> Problem:
    """Digits of one source, shifted, and those of another."""
    (x, y), (other, other_y) = home(), away()
    inputs, t = split_rows(x, y[:, None] == np.arange(10), rng)
    test = inputs["test"]
    shifts = {f"rotated by {angle}": rotate(test, angle) for angle in (15, 30, 45)}
    shifts |= {f"blurred by {width}": blur(test, width) for width in (1.0, 1.5)}
    t |= dict.fromkeys(shifts, t["test"])
    t["other source"] = np.asarray(other_y[:, None] == np.arange(10), np.float32)
    shifts["other source"] = np.asarray(other, np.float32)
    return Problem(inputs, t, shifts, images=True)


def make_affairs(column: int, least: float, rng: np.random.Generator) -> Problem:
    """Fair's survey without those whose answer in a column is large."""
    x, t = load_affairs()
    return hold_out(x, t, x[:, column] >= least, rng)


def make_breast_cancer(rng: np.random.Generator) -> Problem:
    """Malignant or not, without the fifth of the tumours with the largest area."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return hold_out(x, y[:, None], x[:, 3] >= np.quantile(x[:, 3], 0.8), rng)


def make_manifold(rng: np.random.Generator) -> Problem:
    """Eight labels of inputs near a curved surface; latent variables grow."""
    bend, lift, labels = (rng.normal(size=shape) for shape in ((5, 5), (5, 30), (5, 8)))

    def draw(number: int, spread: float) -> Rows:
        z = spread * rng.normal(size=(number, 5))
        x = np.tanh(z @ bend / 2) @ lift + 0.1 * rng.normal(size=(number, 30))
        return x, rng.random((number, 8)) < expit(3 * np.sin(z @ labels))

    return make_problem(draw(2_500, 1), {f"times {s}": draw(500, s) for s in (1.5, 2.0)}, rng)


def make_sentences(rng: np.random.Generator) -> Problem:
    """Grammatical labels of sentence embeddings, trained without passive questions."""

    def draw(number: int, domain: int, passive_questions: bool) -> Rows:
        texts: list[str] = []
        answers: list[np.ndarray] = []
        while len(texts) < number:
            text, answer = write_sentence(rng, domain)
            if (answer[2] and answer[4]) == passive_questions:
                texts.append(text)
                answers.append(answer)
        return embed_sentences(texts), np.array(answers)

    shifts = {
        "other nouns and verbs": draw(400, 1, False),
        "passive questions": draw(400, 0, True),
    }
    return make_problem(draw(2_000, 0, False), shifts, rng)


PROBLEMS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "mnist": lambda rng: make_digits(load_mnist, load_other_digits, rng),
    "other digits": lambda rng: make_digits(load_other_digits, load_mnist, rng),
    "affairs, religious": lambda rng: make_affairs(4, 4, rng),
    "affairs, older": lambda rng: make_affairs(1, 37, rng),
    "health": lambda rng: hold_out(*load_health(rng), rng),
    "breast cancer": make_breast_cancer,
    "diabetes": lambda rng: hold_out(*load_diabetes(), rng),
    "manifold": make_manifold,
    "sentences": make_sentences,
}


def fit(psi: np.ndarray, t: np.ndarray, variance: float, **settings: Any) -> Any:
    """Sample a posterior about zero; its last feature is constant."""
    prior = np.full(psi.shape[1], variance)
    prior[-1] = INTERCEPT
    return sample_posterior(
        psi, t, prior_mean=0.0, prior_variance=prior, diagnose=False, **settings
    )


def choose_variances(rows: Embedded, variances: list[float], seed: int) -> dict[str, float]:
    """Return the variance that each rule of the registration chooses."""
    from sklearn.cluster import KMeans

    psi, t = rows.psi, rows.targets
    losses = []
    for v in variances:
        p = fit(psi["train"], t["train"], v).predict_proba(psi["validation"])
        losses.append(compute_losses(t["validation"], p))
    means = np.array([loss.mean() for loss in losses])
    best = int(means.argmin())
    excess = [loss - losses[best] for loss in losses]
    errors = np.array([e.std(ddof=1) / np.sqrt(len(e)) for e in excess])
    cluster = KMeans(CLUSTERS, n_init=4, random_state=seed).fit_predict(psi["train"])
    left_out = np.zeros(len(variances))
    for number in range(CLUSTERS):
        away = cluster == number
        counts = np.where(away, 0.0, 1.0)  # so that all fits have one shape
        for place, v in enumerate(variances):
            posterior = fit(psi["train"], t["train"] * counts[:, None], v, counts=counts)
            p = posterior.predict_proba(psi["train"][away])
            left_out[place] += compute_losses(t["train"][away], p).mean()
    return {
        "gaussian": variances[best],
        "hundredth": variances[best] / 100,
        "one": 1.0,
        "standard_error": variances[int(np.argmax(means <= means[best] + errors))],
        "clusters": variances[int(left_out.argmin())],
    }


def compute_losses(t: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the NLL of each row, averaged over its labels."""
    p = np.clip(np.asarray(p, np.float64), 1e-9, 1 - 1e-9)
    return np.asarray(-(t * np.log(p) + (1 - t) * np.log1p(-p)).mean(axis=1))


def predict_all(rows: Embedded, variances: list[float], seed: int) -> pd.DataFrame:
    """Return the NLL of every method on the test rows and on every shift."""
    psi, t = rows.psi, rows.targets
    train, y = psi["train"], t["train"]
    chosen = choose_variances(rows, variances, seed)
    v = chosen["gaussian"]
    logits = psi["validation"] @ rows.trained.T
    temperature = np.exp(
        minimize_scalar(
            lambda s: compute_losses(t["validation"], expit(logits / np.exp(s))).mean(),
            bounds=(-3, 3),
            method="bounded",
        ).x
    )
    rng, N = np.random.default_rng([seed, 1]), len(train)
    laplace = fit(train, y, v, method="laplace")
    bags = []
    for _ in range(BAGS):
        counts = rng.multinomial(N, np.full(N, 1 / N)).astype(np.float64)
        bag = fit(train, y * counts[:, None], v, method="laplace", counts=counts)
        bags.append(bag.mean)
    posteriors = {rule: fit(train, y, value) for rule, value in chosen.items()}
    posteriors["laplace"] = laplace
    if seed < EXACT_SEEDS:
        posteriors["exact"] = fit(train, y, v, method="hmc")
    records = []
    for part in [part for part in psi if part not in ("train", "validation")]:
        x = psi[part]
        answers = {
            "network": rows.answers[part][0],
            "temperature": expit(x @ rows.trained.T / temperature),
            "map": expit(x @ laplace.mean.T),
            "bagged": np.mean([expit(x @ mean.T) for mean in bags], axis=0),
            "ensemble": rows.answers[part].mean(axis=0),
        } | {name: posterior.predict_proba(x) for name, posterior in posteriors.items()}
        records += [
            {"part": part, "method": m, "variance": chosen.get(m, v)}
            | {"nll": float(compute_losses(t[part], p).mean())}
            for m, p in answers.items()
        ]
    return pd.DataFrame(records)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Return the log ratios of the registered contrasts, by problem and over problems."""
    table = table.assign(where=np.where(table["part"] == "test", "home", "shift"))
    logs = table.assign(log=np.log(table["nll"]))
    keys = ["problem", "seed", "where"]
    wide = logs.groupby([*keys, "method"])["log"].mean().unstack("method")
    records: list[dict[str, Any]] = []
    for method, against in CONTRASTS:
        ratios = (wide[method] - wide[against]).dropna()
        for where in ("home", "shift"):
            by_seed = ratios.xs(where, level="where")
            by_problem = by_seed.groupby("problem").mean()
            contrast = {"method": method, "against": against, "where": where}
            for problem, values in by_seed.groupby("problem"):
                records.append(contrast | {"problem": problem} | describe(values))
            records.append(contrast | {"problem": "all"} | describe(by_problem))
    return pd.DataFrame(records)


def describe(values: pd.Series) -> dict[str, float]:
    """Return the mean with its 95 % interval, and the two-sided p of a t-test against zero."""
    n = len(values)
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(n))
    half = student.ppf(0.975, max(n - 1, 1)) * error
    p = 2 * student.sf(abs(mean) / error, n - 1) if n > 1 and error > 0 else np.nan
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": float(p), "n": n}


def main(
    quick: Annotated[bool, typer.Option(help="Two small problems, one seed.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Some of the problems.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write.")] = RESULTS,
) -> None:
    """Make the comparison and print its summary."""
    registered = tomllib.loads(REGISTRATION.read_text(encoding="utf-8"))
    names = ["diabetes", "breast cancer"] if quick else only or registered["problems"]
    tables = []
    out.mkdir(parents=True, exist_ok=True)
    with use_one_blas_thread():
        for seed, name in product(range(1 if quick else registered["seeds"]), names):
            problem = PROBLEMS[name](np.random.default_rng([seed, 37]))
            losses = predict_all(embed(problem, seed), registered["variances"], seed)
            tables.append(losses.assign(problem=name, seed=seed))
            table = pd.concat(tables)
            table.to_csv(out / "shift.csv", index=False, float_format="%.5f")
            print(name, seed, flush=True)
    summary = summarise(table)
    summary.to_csv(out / "shift_summary.csv", index=False, float_format="%.4f")
    print(summary[summary["problem"] == "all"].round(3).to_string())


if __name__ == "__main__":
    typer.run(main)
