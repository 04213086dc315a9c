"""What was found in trials, or put into simulated ones, in plain words and the answer first."""

import pandas as pd

from equivocal.human_data.comparison import Comparison
from equivocal.human_data.simulation import Experiment

__all__ = ["describe_comparison", "describe_power", "describe_simulation"]

NAMES = {"gaussian": "normal", "binomial": "binomial"}  # of families
WANTED = 0.8  # the power that experiments are usually planned for


def describe_comparison(comparison: Comparison) -> tuple[str, ...]:
    """Say which measures predict the response, which trials were used and what to bear in mind."""
    joined = comparison.joined
    response = joined.columns["response"]
    response = f"log({response})" if comparison.log else response
    left_out = joined.unmatched["reason"].value_counts().items()
    return (
        _describe_measures(comparison, response),
        f"{len(joined.trials)} of {joined.given} trials joined by {', '.join(joined.keys)}; "
        f"{joined.trials['participant'].nunique()} participants, "
        f"{joined.trials['item'].nunique()} items; response {response}, "
        f"{NAMES[comparison.family]} family",
        *(f"left out: {count}, {reason}" for reason, count in left_out),
        *(f"note: {note}" for note in comparison.notes),
    )


def _describe_measures(comparison: Comparison, response: str) -> str:
    """Say which measures predict the response: those whose 95 % interval excludes zero.

    Where there are several, each is judged beside the others, if they can be fitted together. A fit
    that did not converge has no estimate.
    """
    table = comparison.table
    together = table[table["model"] == "together"]
    if len(together) and not together["converged"].any():  # each alone may have converged
        together, table = together[:0], table[table["model"] != "together"]
    own = together if len(together) else table
    lacking = ". ".join(f"{m}, {why}" for m, why in _find_unknown(own).items())
    own = own[own["converged"]]
    if own.empty:
        return f"No estimate: {lacking}."
    unknown = f" No estimate: {lacking}." if lacking else ""
    clear = (own["low"] > 0) | (own["high"] < 0)
    unit = " log odds" if comparison.family == "binomial" else ""
    found, others = (_list_measures(own[chosen], unit) for chosen in (clear, ~clear))
    beyond = " beyond the other measures" if len(together) else ""
    if not found:
        return f"Nothing clearly predicts {response}{beyond}: {'; '.join(others)}.{unknown}"
    text = f"What predicts {response}{beyond}: {'; '.join(found)}."
    return text + (f" Not clearly: {'; '.join(others)}." if others else "") + unknown


def _find_unknown(rows: pd.DataFrame) -> dict[str, str]:
    """Return the measures without an estimate, and why."""
    failed = rows[~rows["converged"]].to_dict("records")
    return {str(row["measure"]): str(row["note"]) for row in failed}


def _list_measures(rows: pd.DataFrame, unit: str) -> list[str]:
    """List the effects of measures with their 95 % intervals."""
    return [
        f"{row['measure']}, {row['estimate']:+.3g}{unit} per unit (95 % {row['low']:+.3g} to "
        f"{row['high']:+.3g})"
        for row in rows.to_dict("records")
    ]


def describe_simulation(
    trials: pd.DataFrame, experiment: Experiment, measure: str
) -> tuple[str, ...]:
    """Say which effect simulated trials have, and how much they vary beside it."""
    rt = trials["rt"]
    return (
        f"In these simulated trials rt changes by {experiment.beta:+g} with each unit of "
        f"{measure}; it has mean {rt.mean():.0f} and standard deviation {rt.std():.0f}.",
        f"{len(trials)} trials of {experiment.participants} participants and "
        f"{experiment.items} items",
    )


def describe_power(table: pd.DataFrame, beta: float) -> str:
    """Say how often the effect is detected, and which experiment is the smallest that will do."""
    rows = table.to_dict("records")
    enough = [row for row in rows if row["power"] >= WANTED]
    chosen = min(enough, key=lambda row: row["participants"] * row["items"], default=None)
    chosen = chosen or max(rows, key=lambda row: row["power"])
    share, low, high = (f"{100 * chosen[name]:.0f}" for name in ("power", "low", "high"))
    text = (
        f"{chosen['participants']} participants and {chosen['items']} items detect an "
        f"effect of {beta:g} per unit in {share} % of experiments (95 % {low} to {high} %)"
    )
    if not enough:
        return f"None of these experiments reaches a power of {100 * WANTED:.0f} %: {text}."
    return f"{text}: the smallest of these experiments with a power of {100 * WANTED:.0f} %."
