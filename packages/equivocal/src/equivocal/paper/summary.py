"""The summary of a study in plain words.

Every sentence is filled from the tables of the study (`record/summary.toml` has the wording), so
none can contradict them. The terminal prints the summary of a study. In the report it is the
section "In short", which stands above all others except the opening section about reversals that
have a true answer.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from equivocal.errors import format_number
from equivocal.paper.claims import FullRuns, judge_nearer_to_truth, load_full_runs, select_kinds
from equivocal.paper.figure_tables import (
    ALPHA,
    find_stop_time,
    select_clear_changes,
    select_largest_change,
)
from equivocal.paper.settings import read_record
from equivocal.paper.stages import Study
from lastlayer.errors import join_names

__all__ = [
    "count_verdicts",
    "describe_stop",
    "describe_time",
    "describe_truth",
    "summarise_study",
]

Summary = dict[str, list[str]]  # sentences by heading
FEW = 5  # with fewer networks, tests over them have little power
WORDS = read_record("summary")


def summarise_study(
    study: Study, tables: dict[str, pd.DataFrame], runs: FullRuns | None = None
) -> Summary:
    """Summarise a finished study.

    Parameters
    ----------
    study : Study
        A study with trained networks and stimuli.
    tables : dict of str to DataFrame
        The tables of tables/*.csv by name, and "claims".
    runs : FullRuns, optional
        Recorded full runs; by default those of the package.

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
        if runs.answer and not study.settings.quick_run:
            summary[WORDS["match"]] = [*runs.answer, WORDS["asked"].format(runs.match_command)]
        summary |= _sort_claims(claims)
        summary["In numbers"] = [*_list_means(tables["means"], stop)]
        rows = WORDS["data"].format(rows=study.settings.inference.rows)
        depends = [*_compare_verdicts(claims, study, runs), rows, *_name_corpus(claims)]
    depends += _follow_priors(tables["priors_models"], stop)
    networks = study.run.settings.networks
    if networks < FEW:
        depends.append(WORDS["few"].format(networks=networks))
    return summary | {"What it depends on": depends}


def count_verdicts(claims: pd.DataFrame) -> str:
    """Count the claims of each kind by verdict, in a sentence for each."""
    said = []
    for kind, part in claims.groupby("kind", sort=False):
        counts = part["verdict"].value_counts()
        known = ((text, counts[name]) for name, text in WORDS["tally"].items() if name in counts)
        listed = "; ".join(text.format(count) for text, count in known)
        said.append(f"{WORDS['kinds'][kind].format(len(part))}: {listed}.")
    return " ".join(said)


def describe_stop(study: Study) -> str:
    """Say in words where the paper's sampler stops, with the τ that is reached."""
    steps = study.settings.inference.samplers["paper"].num_steps
    words = "where the sampler stops" if steps is None else f"after {steps} steps of the sampler"
    return words + describe_time(study)


def describe_time(study: Study) -> str:
    """Name the τ that the paper's sampler reached, in parentheses; nothing before it has run."""
    if not (study.folder / "activations.nc").exists():
        return ""
    return f" (τ = {find_stop_time(study.read('activations.nc')):.2g})"


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
    """List the measures that change clearly, with their changes, in one sentence."""
    clear: Any = select_clear_changes(paired, estimate)
    named = [
        f"{row.condition}, {row.measure} {_format_signed(row.mean)} "
        f"[{format_number(row.ci_low)}, {format_number(row.ci_high)}]"
        for row in clear.itertuples()
    ]
    tests = int((paired["estimate"] == estimate).sum())
    changes = "; ".join(named) or WORDS["none"].format(tests=tests)
    return str(WORDS["changes"]).format(when=when, alpha=ALPHA, changes=changes)


def _format_signed(value: float) -> str:
    return ("+" if value > 0 else "") + format_number(value)


def _sort_claims(claims: pd.DataFrame) -> Summary:
    """List the paper's results, in short, by the heading of their verdict; then all other claims.

    The headings of "replicated" and "not replicated" are there even without claims.
    """
    found: Summary = {}
    results = claims[claims["kind"] == "result"]
    for verdict, heading in WORDS["verdicts"].items():
        short = results.loc[results["verdict"] == verdict, "in_short"].tolist()
        if short or verdict in ("replicated", "not replicated"):
            sentences = [WORDS["claim"].format(_capitalise(text)) for text in short]
            found[heading.format(len(short), len(results))] = sentences or [WORDS["no_claim"]]
    others: Any = claims[claims["kind"] != "result"]
    found[WORDS["beside"]] = [
        WORDS["other"].format(_capitalise(row.in_short), row.verdict, row.kind)
        for row in others.itertuples()
    ]
    return found


def _capitalise(text: str) -> str:
    return text[0].upper() + text[1:]


def _compare_verdicts(claims: pd.DataFrame, study: Study, runs: FullRuns) -> Iterable[str]:
    """Say which verdicts differ at convergence, and in full runs with other networks."""
    yield _list_differences(claims, claims["verdict_at_convergence"], WORDS["stopping"].format)
    if study.settings.quick_run:
        return
    for run in runs.list_others(study.settings.name):
        say = partial(WORDS["training"].format, run=run, command=run.commands[0])
        yield _list_differences(claims, claims["id"].map(run.verdicts), say)


def _name_corpus(claims: pd.DataFrame) -> Iterable[str]:
    """Say which claim is judged from networks of a single corpus, if it is judged."""
    judged = claims[(claims["id"] == "nearer-to-truth") & (claims["verdict"] != "not run")]
    return (WORDS["corpus"].format(text) for text in judged["in_short"])


def _list_differences(claims: pd.DataFrame, others: pd.Series, say: Callable[..., str]) -> str:
    """Count and list the claims that have another verdict in `others`; `say` forms the sentence."""
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
    changes = [f"{_format_signed(row.mean)} with {row.prior:g}" for row in own.itertuples()]
    numbers = join_names(changes, most=9)
    yield WORDS["priors"].format(stop=stop, largest=own.iloc[0], numbers=numbers)


def describe_truth(frontier: pd.DataFrame, example: pd.DataFrame) -> list[str]:
    """Describe in a few sentences what the uncertainty does where reversals have a true answer.

    Parameters
    ----------
    frontier, example : DataFrame
        `tables/frontier.csv` and `tables/example.csv` of `equivocal doubt --world slips`.
    """
    kinds = select_kinds(frontier)
    cooled = frontier[frontier["kind"] == "temperature"].set_index("value")
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
    errors |= {
        f"{name}_{condition}": f"{cooled.loc[[divisor], f'kl_{condition}'].mean():.3g}"
        for name, divisor in (("half", np.inf), ("cooled", 1.2))
        for condition in ("reversal", "congruent")
    }
    paper = kinds["paper"]
    time = f"(τ = {paper['time'].median():.2g}) " if "time" in paper else ""
    counts = {"networks": len(kinds["trained"]), "steps": int(paper["value"].max()), "time": time}
    last = "truth_alike" if verdicts["paper"] == verdicts["converged"] else "truth_apart"
    sentences = [text.format(truth=truth, **errors, **counts) for text in WORDS["truth"]]
    return [*sentences, WORDS[last].format(**verdicts)]
