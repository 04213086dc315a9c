"""The registered comparison, judged: what `registration.toml` asks, from tables of the frontier.

The file was written before any result and must not change; this module only does what it says.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equivocal.statistics.summaries import TTest, compare_with_zero, correct_holm
from equivocal.store import read_toml

__all__ = ["judge", "read_registration"]

SCORES = ["kl_reversal", "kl_congruent", "aurc", "aurc_entropy", "spread_rank", "spread_ratio"]
MET, AGAINST, OPEN = "met", "against", "open"


def read_registration() -> dict[str, Any]:
    """Read the registration."""
    return read_toml(Path(__file__).with_name("registration.toml"))


def judge(table: pd.DataFrame) -> pd.DataFrame:
    """Judge every registered question for every registered posterior.

    Parameters
    ----------
    table : DataFrame
        `tables/frontier.csv` of all corpora with networks of one recipe, or its means by corpus.

    Returns
    -------
    DataFrame
        Columns question, kind, setting, corpora, the mean of the measure with its 95 % interval,
        p (corrected by Holm), the smallest difference that counts, and the verdict: met, against
        or open.
    """
    margin = read_registration()["margin"]
    trained, cooled = (
        _average(table, {"kind": "trained"}),
        _average(table, {"kind": "temperature", "setting": "held-out"}),
    )
    smallest = margin * float(trained["kl_reversal"].mean())
    nearer, finds, warranted = list[dict[str, Any]](), list[dict[str, Any]](), []
    for posterior in read_registration()["posteriors"]:
        own, about = _average(table, posterior), _name(table, posterior)
        gain = cooled["kl_reversal"] - own["kl_reversal"]
        price = float((own["kl_congruent"] - cooled["kl_congruent"]).mean())
        nearer.append(_test("nearer", about, gain, smallest) | {"price": price})
        found = own["aurc_entropy"] - own["aurc"]
        finds.append(_test("finds", about, found, margin * float(own["kl_reversal"].mean())))
        for name, low, high in (("spread_rank", 0.5, np.inf), ("spread_ratio", 0.5, 2.0)):
            test = compare_with_zero(own[name])
            inside = low < test.ci_low and test.ci_high < high
            outside = test.ci_high < low or test.ci_low > high
            verdict = MET if inside else AGAINST if outside else OPEN
            row = _describe(f"warranted: {name}", about, test) | {"verdict": verdict}
            warranted.append(row)
    return pd.DataFrame([*_settle(nearer), *_settle(finds), *warranted])


def _select(table: pd.DataFrame, wanted: dict[str, Any]) -> pd.DataFrame:
    """Select the rows of a kind with a setting; "sentence" is a part of its name."""
    rows = table[table["kind"] == wanted["kind"]]
    for name in ("value", "prior_variance"):
        if name in wanted:
            rows = rows.loc[np.isclose(rows[name].astype(float), wanted[name])]
    if "setting" in wanted:
        rows = rows[rows["setting"].str.contains(wanted["setting"], regex=False)]
    return pd.DataFrame(rows)


def _average(table: pd.DataFrame, wanted: dict[str, Any]) -> pd.DataFrame:
    """Return the means over the networks of each corpus."""
    means: pd.DataFrame = _select(table, wanted).groupby("corpus")[SCORES].mean()
    return means


def _name(table: pd.DataFrame, wanted: dict[str, Any]) -> dict[str, str]:
    return {"kind": wanted["kind"], "setting": _select(table, wanted)["setting"].iloc[0]}


def _describe(question: str, about: dict[str, str], test: TTest) -> dict[str, Any]:
    return {"question": question, **about, "corpora": test.n, **test.name_interval("mean")}


def _test(question: str, about: dict[str, str], gain: pd.Series, smallest: float) -> dict[str, Any]:
    """Return a row with the test of a gain, which is yet to be corrected for its company."""
    test = compare_with_zero(gain)
    return _describe(question, about, test) | {"p": test.p, "smallest": smallest}


def _settle(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Correct the p-values of a question, and say what came out."""
    for row, p in zip(rows, correct_holm([row["p"] for row in rows]), strict=True):
        row["p"] = float(p)
        bought = row["mean"] > row.get("price", -np.inf)
        if row["mean"] >= row["smallest"] and row["mean_low"] > 0 and p < 0.05 and bought:
            row["verdict"] = MET
        else:
            worse = row["mean"] <= -row["smallest"] and row["mean_high"] < 0
            row["verdict"] = AGAINST if worse else OPEN
    return rows
