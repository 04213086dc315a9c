"""The summary of a study in plain words: what was done, what was found, what it depends on.

Every sentence is filled from the tables of the study (`record/summary.toml` has their wording), so
none can contradict them. In the report it is the section "In short", below the opening section
about reversals that have a true answer, where there is one, and above all others. The terminal
prints it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pandas as pd

from equivocal.errors import join_names
from equivocal.formatting import format_number
from equivocal.study.claims import FullRuns, judge_nearer_to_truth, load_full_runs, select_kinds
from equivocal.study.figure_tables import ALPHA, select_clear_changes, select_largest_change
from equivocal.study.settings import read_record
from equivocal.study.stages import Study

__all__ = [
    "count_verdicts",
    "describe_stop",
    "describe_truth",
    "summarise_study",
]

Summary = dict[str, list[str]]  # sentences by heading
FEW = 5  # networks, below which a test over them can show little
WORDS = read_record("summary")


def summarise_study(
    study: Study, tables: dict[str, pd.DataFrame], runs: FullRuns | None = None
) -> Summary:
    """Summarise a finished study.

    Parameters
    ----------
    study : Study
        With trained networks and stimuli.
    tables : dict of str to DataFrame
        Those of tables/*.csv by name, and "claims".
    runs : FullRuns, optional
        What full runs found; by default what the package ships.

    Returns
    -------
    dict of str to list of str
        Sentences by heading, in the order in which they are read.
    """
    stop, claims = describe_stop(study), tables["claims"]
    summary = {"What was done": [_describe_method(study, stop)]}
    runs = runs or load_full_runs()
    if claims.empty:
        changes = _list_changes(tables["paired_models"], "paper", stop)
        summary["What was found"] = [changes, *_list_means(tables["means"], stop)]
        changes = _list_changes(tables["paired_models"], "converged", "at convergence")
        depends = [f"On when the sampler is stopped: {changes[0].lower()}{changes[1:]}"]
    else:
        summary["What was done"].append(WORDS["fair"])
        if runs.answer:
            summary[WORDS["match"]] = [*runs.answer, WORDS["asked"].format(runs.match_command)]
        summary |= _sort_claims(claims)
        summary["In numbers"] = [*_list_means(tables["means"], stop)]
        depends = [*_compare_verdicts(claims, study, runs), *_name_corpus(claims)]
    depends += _follow_priors(tables["priors_models"], stop)
    networks = study.run.settings.networks
    if networks < FEW:
        depends.append(WORDS["few"].format(networks=networks))
    return summary | {"What it depends on": depends}


def count_verdicts(claims: pd.DataFrame) -> str:
    """Count the claims by verdict, in one sentence."""
    counts = claims["verdict"].value_counts()
    parts = [text.format(counts[name]) for name, text in WORDS["tally"].items() if name in counts]
    return f"Of {len(claims)} claims: {'; '.join(parts)}."


def describe_stop(study: Study) -> str:
    """Return where the paper's sampler stops, in words."""
    steps = study.settings.inference.samplers["paper"].num_steps
    return "where the sampler stops" if steps is None else f"after {steps} steps of the sampler"


def _describe_method(study: Study, stop: str) -> str:
    return str(WORDS["done"]).format(
        training=study.run.settings,
        world=study.run.world.name,
        stop=stop,
        items=len(study.stimuli.items),
        conditions=join_names(study.stimuli.conditions),
    )


def _list_means(means: pd.DataFrame, stop: str) -> Iterable[str]:
    """Yield a sentence for each condition: all measures under the three estimates."""
    yield WORDS["means"].format(stop=stop)
    for condition, part in means.groupby("condition", sort=False):
        numbers = [
            f"{measure} {', '.join(map(format_number, own['mean']))}"
            for measure, own in part.groupby("measure", sort=False)
        ]
        yield f"{condition}: {'; '.join(numbers)}."


def _list_changes(paired: pd.DataFrame, estimate: str, when: str) -> str:
    """Name the measures whose change is clear."""
    clear: Any = select_clear_changes(paired, estimate)
    named = [
        f"{row.condition}, {row.measure} {_format_change(row.mean)} "
        f"[{format_number(row.ci_low)}, {format_number(row.ci_high)}]"
        for row in clear.itertuples()
    ]
    tests = int((paired["estimate"] == estimate).sum())
    changes = "; ".join(named) or WORDS["none"].format(tests=tests)
    return str(WORDS["changes"]).format(when=when, alpha=ALPHA, changes=changes)


def _format_change(value: float) -> str:
    return ("+" if value > 0 else "") + format_number(value)


def _sort_claims(claims: pd.DataFrame) -> Summary:
    """List the claims in short, by verdict; two verdicts are named even where no claim has them."""
    found: Summary = {}
    for verdict, heading in WORDS["verdicts"].items():
        short = claims.loc[claims["verdict"] == verdict, "in_short"].tolist()
        if short or verdict in ("replicated", "not replicated"):
            sentences = [WORDS["claim"].format(text[0].upper() + text[1:]) for text in short]
            found[heading.format(len(short), len(claims))] = sentences or [WORDS["no_claim"]]
    return found


def _compare_verdicts(claims: pd.DataFrame, study: Study, runs: FullRuns) -> Iterable[str]:
    """Say which verdicts are others at convergence, and in full runs with other networks."""
    yield _list_differences(claims, claims["verdict_at_convergence"], WORDS["stopping"].format)
    if study.settings.quick_run:
        return
    for run in runs.list_others(study.settings.name):
        say = partial(WORDS["training"].format, run=run, command=run.commands[0])
        yield _list_differences(claims, claims["id"].map(run.verdicts), say)


def _name_corpus(claims: pd.DataFrame) -> Iterable[str]:
    """Say what rests on a single corpus."""
    judged = claims[(claims["id"] == "nearer-to-truth") & (claims["verdict"] != "not run")]
    return (WORDS["corpus"].format(text) for text in judged["in_short"])


def _list_differences(claims: pd.DataFrame, others: pd.Series, say: Callable[..., str]) -> str:
    known = others.notna() & (others != "not run") & (claims["verdict"] != "not run")
    apart = known & (others != claims["verdict"])
    pairs = zip(claims.loc[apart, "in_short"], others[apart], strict=True)
    listed = "; ".join(f"{text} ({verdict})" for text, verdict in pairs)
    counts = {"apart": int(apart.sum()), "known": int(known.sum())}
    return say(**counts, listed=f": {listed}" if listed else "")


def _follow_priors(priors: pd.DataFrame, stop: str) -> Iterable[str]:
    """Yield how the largest change of an indicated unit depends on the prior variance."""
    own: Any = select_largest_change(priors)
    if own["prior"].nunique() < 2:
        return
    numbers = [f"{_format_change(row.mean)} with {row.prior:g}" for row in own.itertuples()]
    told = join_names(numbers, most=9)
    yield WORDS["priors"].format(stop=stop, largest=own.iloc[0], numbers=told)


def describe_truth(frontier: pd.DataFrame, example: pd.DataFrame) -> list[str]:
    """Describe in three sentences what doubt does where reversals have a true answer.

    Parameters
    ----------
    frontier, example : DataFrame
        `tables/frontier.csv` and `tables/example.csv` of `equivocal doubt --world slips`.
    """
    kinds = select_kinds(frontier)
    truth = example.loc[example["condition"] == "reversal", "truth"].iloc[0]
    errors = {
        f"{name}_{condition}": f"{rows[f'kl_{condition}'].mean():.3g}"
        for name, rows in kinds.items()
        for condition in ("reversal", "congruent")
    }
    verdicts = {
        sampler: WORDS["truth_verdicts"][judge_nearer_to_truth(frontier, sampler).verdict]
        for sampler in ("paper", "converged")
    }
    counts = {"networks": len(kinds["trained"]), "steps": int(kinds["paper"]["value"].max())}
    last = "truth_alike" if verdicts["paper"] == verdicts["converged"] else "truth_apart"
    told = [text.format(truth=truth, **errors, **counts) for text in WORDS["truth"]]
    return [*told, WORDS[last].format(**verdicts)]
