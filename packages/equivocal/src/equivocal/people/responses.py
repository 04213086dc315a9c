"""The response of the models, and data that they cannot take, each refused with a way out.

gaussian  numbers: reading times, amplitudes
binomial  answers, 0 or 1
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from equivocal.statistics import find_separation
from lastlayer.errors import UserError, join_names

FAMILIES = ("gaussian", "binomial")


class Response(NamedTuple):
    """The response of a model."""

    values: np.ndarray
    binomial: bool = False


def prepare_response(trials: pd.DataFrame, family: str, log: bool) -> Response:
    """Return responses that models of the family can be fitted to, or raise a `UserError`.

    Parameters
    ----------
    trials : DataFrame
        The trials, with a column `response`.
    family : {"gaussian", "binomial"}
        The family of the models.
    log : bool
        Whether the logarithm of the response is modelled.
    """
    if family not in FAMILIES:
        raise UserError(f"family (--family) must be {' or '.join(FAMILIES)}, got {family!r:.80}.")
    values = trials["response"].to_numpy(float)
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise UserError(
            f"the response is {distinct[0]:g} in every trial, so there is nothing to fit; name "
            "another column with --response, or keep other rows with --where."
        )
    if family == "binomial":
        return _prepare_answers(trials, log)
    if len(distinct) == 2:
        raise UserError(
            f"the response has only two values, {distinct[0]:g} and {distinct[1]:g}, and linear "
            "models are not for these; add --family binomial (and --response COLUMN=VALUE, unless "
            "they are 0 and 1)."
        )
    if log and distinct[0] <= 0:
        raise UserError(
            f"the logarithm needs responses above zero, and one is {distinct[0]:g}; leave out "
            "--log, or remove those trials."
        )
    return Response(np.log(values) if log else values)


def _prepare_answers(trials: pd.DataFrame, log: bool) -> Response:
    """Return answers, which vary within a participant and within an item."""
    if log:
        raise UserError("--log is for numbers, and --family binomial for answers; leave one out.")
    values = trials["response"].to_numpy(float)
    for _, first in trials[~np.isin(values, (0, 1))].iterrows():
        raise UserError(
            f"the response is {first['response']:g} in line {first['row']}, and --family binomial "
            "needs 0 or 1; name the value that counts as 1 with --response COLUMN=VALUE."
        )
    for name in ("participant", "item"):
        groups = pd.Series(values, trials.index).groupby(trials[name])
        if ((groups.max() == 0) | (groups.min() == 1)).all():
            raise UserError(
                f"every {name} has one answer in all its trials, so that the variance of {name}s "
                f"has no finite estimate; is --{name} the right column? If so, average the answers "
                "over it, or model trials in which they vary."
            )
    return Response(values, binomial=True)


def check_groups(trials: pd.DataFrame) -> None:
    """Refuse trials of a single participant or item, or with a single trial for each."""
    for name in ("participant", "item"):
        levels = trials[name].nunique()
        if levels < 2:
            raise UserError(f"all joined trials have the same {name}; two or more are needed.")
        if levels == len(trials):
            raise UserError(
                f"every {name} has one trial only, so {name}s cannot be separated from noise; "
                f"is --{name} the right column?"
            )


def check_separation(response: Response, X: np.ndarray, names: Sequence[str]) -> None:
    """Refuse fixed effects that separate the answers, and so have no finite coefficient.

    Parameters
    ----------
    response : Response
        Responses of any family; only answers can be separated.
    X : ndarray
        The fixed effects, the intercept first.
    names : sequence of str
        The names of the other columns of X.
    """
    if not response.binomial:
        return
    direction = find_separation(response.values, X)
    if direction is None:
        return
    alone = [
        name
        for k, name in enumerate(names, start=1)
        if find_separation(response.values, X[:, [0, k]]) is not None
    ]
    together = [name for name, by in zip(names, direction[1:], strict=True) if abs(by) > 1e-6]
    raise UserError(
        f"{join_names(dict.fromkeys(alone or together), most=4)} separates the answers (1 above "
        "some value and 0 below it, or the same throughout one level), so that its coefficient "
        "has no finite estimate; leave it out, or add trials in which the other answer is given."
    )
