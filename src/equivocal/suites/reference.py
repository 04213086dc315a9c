"""`published_2018.csv`: the mean semantic update of each published network in each condition.

Rabovsky, Hansen & McClelland (2018), their standard model. Its names of conditions are what a suite
may give its own beside.
"""

from functools import cache
from importlib import resources

import pandas as pd

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.store import read_table

__all__ = ["check_published", "published_means"]

PUBLISHED = resources.files("equivocal.suites") / "data" / "published_2018.csv"


@cache
def published_means() -> pd.DataFrame:
    """Mean semantic update of the published networks: a row per network, a column per condition."""
    table = read_table(str(PUBLISHED))
    return table.pivot(index="network", columns="condition", values="semantic_update")


def check_published(name: str, where: str) -> None:
    """Complain of a condition's published name that the file lacks; none at all is well."""
    known = list(map(str, published_means()))
    if name and name not in known:
        every = join_names(known, most=len(known))
        hint = did_you_mean(name, known) or f"; give one of {every}, or ''."
        raise UserError(f"{where}: unknown published condition {name!r:.80}{hint}")
