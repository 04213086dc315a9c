"""The scripts that we write are run by R; lme4 must agree with our fits."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from equivocal.people.run_compare import compare_trials, quote_name
from equivocal.people.simulate import Experiment, simulate
from equivocal.people.trial_tables import Columns
from needs import needs

ESTIMATES, LIKELIHOOD = 1e-3, 1e-2
NETWORKS = 4
PRINT = """
for (name in ls(pattern = "^m[0-9]+$")) {
  fit <- get(name)
  best <- if (isLMM(fit)) update(fit, REML = TRUE) else fit
  shown <- format(c(as.numeric(logLik(fit)), fixef(best), sqrt(diag(vcov(best)))), digits = 12)
  cat("found", name, length(fixef(best)), names(fixef(best)), shown, "\\n")
}
"""


class Fit(NamedTuple):
    """One model as fitted by R, by the names of its fixed effects."""

    log_likelihood: float
    estimates: dict[str, float]
    errors: dict[str, float]


LARGE, SMALL = (24, 16, 3), (10, 8, 3)  # participants, items, positions


def write_trials(folder: Path, sizes: tuple[int, int, int]) -> None:
    """Reading times and answers, with one effect each."""
    participants, items, positions = sizes
    truth = Experiment(
        participants=participants, items=items, positions=positions, slope_sd=15.0, seed=11
    )
    trials, measures, _ = simulate(truth)
    rng = np.random.default_rng(11)
    odds = (trials["rt"] - 500) / 80 + rng.logistic(size=len(trials))
    given = {
        "half": 1 + np.arange(len(trials)) % 2,
        "said": np.where(odds > 0, "yes", "no"),
    }
    measures["word"] = rng.choice(["dog", "horse", "elephant", "ant"], len(measures))
    read = trials.assign(**given).merge(measures[["item", "position", "word"]])
    read.to_csv(folder / "d.csv", index=False)
    measures.to_csv(folder / "m.csv", index=False)
    copies = [measures.assign(network=n) for n in range(NETWORKS)]
    for n, copy in enumerate(copies):  # in other units, and with errors
        copy["surprise"] = copy["surprise"] * (1 + n) + rng.normal(0, 0.4, len(copy))
    pd.concat(copies).to_csv(folder / "n.csv", index=False)


def run_lme4(folder: Path) -> dict[str, Fit]:
    """Return the fits of every model of lme4.R; coefficients of linear models are by REML."""
    command = ["Rscript", "-e", f'source("lme4.R"); {PRINT}']
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    fits = {}
    for line in done.stdout.splitlines():
        if line.startswith("found m"):
            _, model, size, *rest = line.split()
            p = int(size)
            value, *numbers = map(float, rest[p:])
            names = rest[:p]
            pairs = (dict(zip(names, part, strict=True)) for part in (numbers[:p], numbers[p:]))
            fits[model] = Fit(value, *pairs)
    return fits


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [LARGE, SMALL])
@pytest.mark.parametrize(
    ("how", "columns"),
    [
        ({}, {}),
        ({"slopes": True, "controls": ["length"], "measure": ["surprise"]}, {}),
        ({"by": "half"}, {}),
        ({"family": "binomial"}, {"response": "said=yes"}),
        (
            {"family": "binomial", "slopes": True, "measure": ["surprise"]},
            {"response": "said=yes"},
        ),
        (
            {"family": "binomial", "controls": ["length"], "spillover": 1},
            {"response": "said=yes"},
        ),
    ],
)
def test_lme4_agrees_with_our_fits(tmp_path: Path, sizes, how, columns) -> None:
    """Estimates in log odds, or standard deviations of the response, per sd of the measure."""
    needs("lme4")
    write_trials(tmp_path, sizes)
    named, out = replace(Columns(), **columns), tmp_path / "out"
    result = compare_trials(tmp_path / "d.csv", tmp_path / "m.csv", out, columns=named, **how)
    table, theirs = result.tables["compare"], run_lme4(out)
    assert table["converged"].all()
    pairs = re.findall(r"^print\(anova\(m\d+, (m\d+)\)\)$", result.scripts["lme4.R"], re.M)
    trials = pd.read_csv(out / "trials.csv")
    unit = 1.0 if how.get("family") == "binomial" else trials["response"].std()
    apart, shifts, errors = [], [], []
    for model, row in zip(pairs, table.to_dict("records"), strict=True):
        found, name = theirs[model], quote_name(f"z_{row['measure']}")
        apart.append(abs(found.log_likelihood - row["log_likelihood"]))
        shifts.append(abs(found.estimates[name] / unit - row["std_estimate"]))
        error = row["se"] * trials[row["measure"]].std()
        errors.append(abs(found.errors[name] - error) / unit)
    assert max(apart) < LIKELIHOOD
    assert max(shifts) < ESTIMATES
    assert max(errors) < ESTIMATES


@pytest.mark.slow
@pytest.mark.parametrize("response", ["rt", "said=yes"])
def test_r_pools_networks_as_we_do(tmp_path: Path, response: str) -> None:
    """Estimates and standard errors of both measures, to a thousandth of a standard error."""
    needs("lme4")
    write_trials(tmp_path, LARGE)
    out, family = tmp_path / "out", "gaussian" if response == "rt" else "binomial"
    result = compare_trials(
        tmp_path / "d.csv", tmp_path / "n.csv", out, columns=Columns(response=response),
        family=family,
    )  # fmt: skip
    table = result.tables["compare"].set_index(["measure", "model"])
    assert table.loc["surprise", "networks"].tolist() == [NETWORKS, NETWORKS]
    done = subprocess.run(
        ["Rscript", "lme4.R"], cwd=out, capture_output=True, text=True, timeout=300, check=True
    )
    printed = re.findall(r"^\d +(surprise|rival) +(\S+) +(\S+)$", done.stdout, re.M)
    together = table.xs("together", level="model")
    assert [name for name, *_ in printed[-2:]] == ["surprise", "rival"]
    for name, estimate, se in printed[-2:]:
        ours = together.loc[name]
        assert abs(float(estimate) - ours["estimate"]) < ESTIMATES * ours["se"]
        assert float(se) == pytest.approx(ours["se"], rel=ESTIMATES)
