"""The comparison that was registered before its results were looked at, and its judgement."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.registration import judge, read_registration

TOP = Path(__file__).resolve().parents[4]
# of the file as it was when nothing had been looked at; a change of it is a new registration
CHECKSUM = "b50dc7a08f609d7f141164f82ed12cb9bf25adf5b4361d2a3377e9b94ab361b0"


def test_the_registration_has_not_changed_since() -> None:
    text = (TOP / "benchmarks" / "registration.toml").read_bytes()
    assert sha256(text).hexdigest() == CHECKSUM


def make_table(gain: float, *, noise: float = 0.001, price: float = 0.0) -> pd.DataFrame:
    """Ten corpora in which each posterior is nearer than the temperature by a gain."""
    rng, rows = np.random.default_rng(0), list[dict[str, Any]]()
    posteriors = [
        {"setting": "named"} | posterior for posterior in read_registration()["posteriors"]
    ]
    kinds = [{"kind": "trained"}, {"kind": "temperature", "setting": "held-out"}, *posteriors]
    for corpus in range(10):
        for kind in kinds:
            own = kind in posteriors
            row = {"corpus": corpus, "value": np.nan, "prior_variance": np.nan, "setting": ""}
            row |= {"kl_reversal": 0.2 - own * (gain + rng.normal(0, noise))}
            row |= {"kl_congruent": 0.01 + own * price, "aurc": 0.1, "aurc_entropy": 0.15}
            spreads = {"spread_rank": 0.7, "spread_ratio": 5.0}
            rows.append(row | {name: x + rng.normal(0, 0.01) for name, x in spreads.items()} | kind)
    table = pd.DataFrame(rows)
    table["aurc"] += rng.normal(0, 0.001, len(table))
    return table


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        ({"gain": 0.03}, "met"),
        ({"gain": 0.01}, "open"),  # less than a tenth of 0.2
        ({"gain": 0.03, "noise": 0.3}, "open"),
        ({"gain": 0.03, "price": 0.04}, "open"),  # congruent sentences lose more
        ({"gain": -0.03}, "against"),
    ],
)
def test_each_question_is_judged_as_registered(made: dict[str, float], verdict: str) -> None:
    found = judge(make_table(**made)).groupby("question", sort=False)["verdict"].unique()
    assert list(found.index) == [
        "nearer",
        "finds",
        "warranted: spread_rank",
        "warranted: spread_ratio",
    ]
    assert [list(verdicts) for verdicts in found] == [[verdict], ["met"], ["met"], ["against"]]
