"""The result of a study, and its summary in plain words.

Every sentence is filled from the tables of the study (`record/summary.toml` has the wording), so
none can contradict them. The terminal prints the summary. In the report it is the section "In
short", which stands above all others except the opening section about reversals that have a true
answer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equivocal.errors import format_number
from equivocal.network import Run
from equivocal.paper.claims import FullRuns, load_full_runs
from equivocal.paper.inference import Beliefs
from equivocal.paper.known_truth import EXAMPLE
from equivocal.paper.settings import read_record
from equivocal.paper.study import Study
from equivocal.paper.tables import find_stop_time
from equivocal.paper.verdicts import compare_errors
from equivocal.result import Figures, Result
from equivocal.statistics.summaries import LEVEL
from lastlayer.errors import join_names

__all__ = [
    "StudyResult",
    "collect_result",
    "count_verdicts",
    "describe_stop",
    "describe_truth",
    "summarise_study",
]

QUICK = (
    "A quick run only checks that the command works: its verdicts and effects mean nothing; do not "
    "report them."
)
Summary = dict[str, list[str]]  # sentences by heading
ALPHA = 1 - LEVEL
FEW = 5  # with fewer networks, tests over them have little power
WORDS = read_record("summary")


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult(Result):
    """The outcome of a study.

    Attributes
    ----------
    tables : dict of str to DataFrame
        Every table of tables/*.csv by name, and "claims" in the study of the paper.
    study : Study
        Its settings, world, stimuli and networks.
    beliefs : Beliefs
        The answers of networks and posteriors.
    truth : DataFrame or None
        Beliefs about reversals with a true answer, in the study of the paper.
    """

    study: Study
    beliefs: Beliefs
    truth: pd.DataFrame | None = None

    @property
    def folder(self) -> Path:
        """The folder that holds all results."""
        return self.study.folder

    @property
    def report(self) -> Path:
        """The path of the report, one self-contained page."""
        return self.folder / "report.html"

    @property
    def run(self) -> Run:
        """The trained networks."""
        return self.study.run

    def draw(self) -> Figures:
        """Draw the figures of the report, by name."""
        from equivocal.paper.figures import draw

        return draw(self)


def collect_result(
    study: Study, beliefs: Beliefs, tables: dict[str, pd.DataFrame], truth: pd.DataFrame | None
) -> StudyResult:
    """Put the results of all steps together, and summarise them: findings first."""
    result = StudyResult(
        name="study",
        tables=tables,
        settings=study.settings.to_dict(),
        study=study,
        beliefs=beliefs,
        truth=truth,
    )
    done, *findings = summarise_study(result).items()
    lines = ["\n  ".join([heading, *texts]) for heading, texts in (*findings, done)]
    if "claims" in tables:
        lines.insert(0, count_verdicts(tables["claims"]))
    return replace(result, summary=(QUICK, *lines) if study.settings.quick_run else tuple(lines))


def summarise_study(result: StudyResult, runs: FullRuns | None = None) -> Summary:
    """Summarise a finished study.

    Parameters
    ----------
    result : StudyResult
        The study's tables and beliefs.
    runs : FullRuns, optional
        Recorded full runs; by default those of the package.

    Returns
    -------
    dict of str to list of str
        Sentences by heading, in the order in which they are read.
    """
    study, tables, stop = result.study, result.tables, describe_stop(result)
    summary = {"What was done": [_describe_method(study, stop)]}
    runs = runs or load_full_runs()
    if "claims" not in tables:
        changes = _list_changes(tables["paired_models"], "paper", stop)
        summary["What was found"] = [changes, *_list_means(tables["means"], stop)]
        changes = _list_changes(tables["paired_models"], "converged", "at convergence")
        depends = [f"On when the sampler is stopped: {changes[0].lower()}{changes[1:]}"]
    else:
        claims = tables["claims"]
        summary["What was done"] += [_list_open_choices(study), WORDS["fair"]]
        if runs.answer and not study.settings.quick_run:
            summary[WORDS["match"]] = [*runs.answer, WORDS["asked"].format(runs.match_command)]
        summary |= _sort_claims(claims)
        summary["In numbers"] = [*_list_means(tables["means"], stop)]
        depends = [_sort_by_reading(claims), *_compare_verdicts(claims, study, runs)]
        depends += _name_corpus(claims)
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


def describe_stop(result: StudyResult) -> str:
    """Say in words where the paper's sampler stops, with the τ that is reached."""
    steps = result.study.settings.inference.samplers["paper"].num_steps
    words = "where the sampler stops" if steps is None else f"after {steps} steps of the sampler"
    return f"{words} (τ = {find_stop_time(result.beliefs.answers):.2g})"


def _describe_method(study: Study, stop: str) -> str:
    return str(WORDS["done"]).format(
        training=study.run.settings,
        world=study.run.world.name,
        stop=stop,
        items=len(study.stimuli.items),
        conditions=join_names(study.stimuli.conditions),
    )


def _list_open_choices(study: Study) -> str:
    """List the settings that the paper leaves open."""
    inference, stimuli = study.settings.inference, study.settings.stimuli
    paper = inference.samplers["paper"]
    taming = paper.options.get("taming", "consistent")
    return str(WORDS["open"]).format(
        taming=taming,
        other="printed" if taming == "consistent" else "consistent",
        bias="yes" if paper.bias else "no",
        particles=paper.num_particles,
        step=paper.options.get("step_size") or "automatic",
        file=Path(stimuli.file).name,
        items=len(study.stimuli.items),
        rows=inference.rows,
    )


def _sort_by_reading(claims: pd.DataFrame) -> str:
    """Say which results hold under all readings of N, stopped and converged, in some, in none."""
    columns = [
        name
        for name in map(str, claims.columns)
        if name.startswith(("verdict_pairs", "verdict_all"))
    ]
    open_verdicts = ["not run", "not testable as printed"]
    judged = claims[(claims["kind"] == "result") & ~claims[columns].isin(open_verdicts).any(axis=1)]
    held = (judged[columns] == "replicated").sum(axis=1)
    parts = {"all": held == len(columns), "none": held == 0}
    parts["some"] = ~parts["all"] & ~parts["none"]
    values: dict[str, object] = {"judged": len(judged)}
    for name, chosen in parts.items():
        listed = "; ".join(judged.loc[chosen, "in_short"])
        values |= {name: int(chosen.sum()), f"{name}_listed": f" ({listed})" if listed else ""}
    return str(WORDS["data"]).format(**values)


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
    rows = paired[paired["estimate"] == estimate]
    same = np.sign(rows["mean"]) == np.sign(rows["logit_mean"])
    clear: Any = rows[(rows["p_holm"] < ALPHA) & (rows["logit_p_holm"] < ALPHA) & same]
    named = [
        f"{row.condition}, {row.measure} {_format_signed(row.mean)} "
        f"[{format_number(row.ci_low)}, {format_number(row.ci_high)}]"
        for row in clear.itertuples()
    ]
    changes = "; ".join(named) or WORDS["none"].format(tests=len(rows))
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


def describe_truth(truth: pd.DataFrame, steps: int | None) -> list[str]:
    """Describe in a few sentences what doubt does where reversals have a true answer.

    Parameters
    ----------
    truth : DataFrame
        What `compare_with_truth` returned.
    steps : int or None
        Of the paper's sampler.
    """
    errors = truth.groupby(["kind", "condition"])["kl"].mean()
    rows: Any = errors.reset_index().itertuples()
    said = {f"{row.kind}_{row.condition}": f"{row.kl:.3g}" for row in rows}
    example = truth[(truth["item"] == EXAMPLE) & (truth["condition"] == "reversal")]
    limits = read_record("claims")["limits"]
    verdicts = {
        sampler: WORDS["truth_verdicts"][compare_errors(truth, sampler, limits).verdict]
        for sampler in ("paper", "converged")
    }
    time = truth.loc[truth["kind"] == "paper", "time"].median()
    values = said | {
        "truth": example["truth"].iloc[0],
        "networks": truth["network"].nunique(),
        "steps": steps,
        "time": f"(τ = {time:.2g}) ",
    }
    last = "truth_alike" if verdicts["paper"] == verdicts["converged"] else "truth_apart"
    return [*(text.format(**values) for text in WORDS["truth"]), WORDS[last].format(**verdicts)]
