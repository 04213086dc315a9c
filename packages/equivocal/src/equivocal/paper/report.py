"""The result of a study: what it found, in words, and its report (`equivocal.report`).

Sentences and sections are those of `record/report.toml`, filled from the tables of the study, so
that none can contradict them. The terminal prints the first of them. A quick run shows no verdicts
of its own: its numbers are noise, and it says what full runs found.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from equivocal.errors import format_number
from equivocal.figure_style import KINDS, NAME_OF, save_figure
from equivocal.network import Run
from equivocal.paper.claims import FullRun, FullRuns, load_full_runs
from equivocal.paper.inference import EXAMPLE, Beliefs
from equivocal.paper.settings import read_record
from equivocal.paper.study import READINGS, Study
from equivocal.paper.tables import find_stop_time
from equivocal.paper.verdicts import NOT_RUN, compare_errors
from equivocal.report import (
    Picture,
    Report,
    Section,
    describe_making,
    list_versions,
    write_report,
)
from equivocal.result import QUICK, Figures, Result
from equivocal.statistics.summaries import LEVEL
from equivocal.store.files import write_text_atomically
from equivocal.store.store import hash_content
from lastlayer.errors import join_names
from lastlayer.files import write_atomically

__all__ = ["StudyResult", "collect_result", "hash_report", "write"]

ALPHA = 1 - LEVEL
FEW = 5  # with fewer networks, tests over them have little power
WORDS = read_record("report")
DIAGRAMS = ("network", "posterior")  # shipped; made by scripts/make_diagrams.py
COUNTED = {"pairs": "pairs", "all": "sentences"}  # what N counts, by reading
CELLS = ["label", "probe", "sd", "df", "effect", "logit_effect", "logit_t", "se"]  # only in CSV


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
    runs : FullRuns
        Recorded full runs, by default those of the package.
    """

    study: Study
    beliefs: Beliefs
    truth: pd.DataFrame | None = None
    runs: FullRuns = field(default_factory=load_full_runs)

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

    @property
    def quick(self) -> bool:
        """Whether the numbers are noise."""
        return self.study.settings.quick_run

    @cached_property
    def stop(self) -> str:
        """Where the paper's sampler stops, with the τ that is reached."""
        steps = self.study.settings.inference.samplers["paper"].num_steps
        words = "where the sampler stops" if steps is None else f"after {steps} steps"
        return f"{words}, τ = {find_stop_time(self.beliefs.answers):.2g}"

    def draw(self) -> Figures:
        """Draw the figures of the report, by name."""
        from equivocal.paper.figures import draw

        return draw(self)

    def describe(self, drawn: Collection[str]) -> Report:
        """Describe this result; `drawn` names its figures."""
        kind = "paper" if "claims" in self.tables else "own"
        texts: dict[str, str] = WORDS[kind]
        first = "effect" if kind == "paper" else f"activations_{self.study.stimuli.conditions[-1]}"
        sections, values = [], fill_values(self)
        for entry in WORDS["sections"][kind]:
            names = [
                n for n in drawn if n != first and n.startswith(tuple(entry.get("figures", [])))
            ]
            sentences = [entry["text"].format(**values)] if "text" in entry else []
            sentences += list_sentences(self, entry.get("sentences", ""))
            table = shape_table(self, entry)
            if len(table) or names:
                pictures = [caption(name) for name in names]
                title = entry["title"]
                section = Section(title=title, sentences=sentences, pictures=pictures, table=table)
                sections.append(section)
        shown = {picture.name for section in sections for picture in section.pictures}
        others = [caption(name) for name in drawn if name not in shown | {first}]
        return Report(
            title=texts["title"].format(**values),
            about=texts["about"],
            warning=QUICK if self.quick else "",
            question=texts["question"].format(**values),
            answer=answer(self),
            picture=caption(first),
            made=list(describe_settings(self)),
            sections=sections,
            appendix=list(list_appendix(self, others)),
        )


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
    return replace(result, summary=tuple(summarise(result)))


def hash_report(result: StudyResult) -> str:
    """Return a hash of all that tables, figures and report depend on, the package's code too."""
    texts = {name: table.to_csv() for name, table in result.tables.items()}
    kept = [result.study.hash_beliefs(name) for name in ("activations", "path", "exact", "nuts")]
    return hash_content(texts, kept, result.study.settings.to_dict(), code=())


def write(result: StudyResult, figures: Figures) -> list[Path]:
    """Write tables, claims, figures and the report, and return the paths of all files."""
    folder, others = result.folder, dict(result.tables)
    written = {folder / "claims.csv": others.pop("claims")} if "claims" in others else {}
    written |= {folder / "tables" / f"{name}.csv": table for name, table in others.items()}
    for path, table in written.items():
        write_text_atomically(path, table.to_csv(index=False))
    for name, figure in figures.items():
        save_figure(figure, folder / "figures", name)
    for name, kind in product(DIAGRAMS, KINDS):
        shipped = resources.files("equivocal.paper") / "diagrams" / f"{name}.{kind}"
        with write_atomically(folder / "figures" / f"{name}.{kind}") as temporary:
            temporary.write_bytes(shipped.read_bytes())
    shown = [*DIAGRAMS, *figures]
    drawn = [folder / "figures" / f"{name}.{kind}" for name in shown for kind in KINDS]
    return [*written, *drawn, write_report(folder, result.describe(shown))]


def summarise(result: StudyResult) -> Iterator[str]:
    """Yield the lines that the terminal prints: the answer, then the claims by verdict."""
    if result.quick:
        yield QUICK
    yield from answer(result)
    if "claims" in result.tables and not result.quick:
        claims = result.tables["claims"]
        results = claims[claims["kind"] == "result"]
        for verdict, heading in WORDS["verdicts"].items():
            short = results.loc[results["verdict"] == verdict, "in_short"]
            if len(short):
                yield "\n  ".join([heading.format(len(short), len(results)), *short])
    yield from describe_settings(result)


def answer(result: StudyResult) -> list[str]:
    """Say what came out, in a few sentences."""
    tables, words, runs = result.tables, WORDS["answers"], result.runs
    if "claims" not in tables:
        paired = tables["paired_models"]
        changes = [
            _list_changes(paired, "paper", result.stop),
            _list_changes(paired, "converged", "at convergence"),
        ]
        return [*changes, *_list_means(tables["means"], result.stop)]
    claims = tables["claims"]
    if result.quick:
        found = [
            words["full"].format(
                run=run, counts=count_verdicts(claims.assign(verdict=find_recorded(claims, run)))
            )
            for run in reversed(runs.studies)  # the paper's own recipe first
        ]
        return [words["quick"], *found]
    said = [count_verdicts(claims), words["data"].format(**_count_readings(claims))]
    said += _describe_effect(tables["effects"])
    return said + (describe_truth(result)[-1:] if result.truth is not None else [])


def count_verdicts(claims: pd.DataFrame) -> str:
    """Count the claims of each kind by verdict, in a sentence for each."""
    said = []
    for kind, part in claims.groupby("kind", sort=False):
        counts = part["verdict"].value_counts()
        known = ((text, counts[name]) for name, text in WORDS["tally"].items() if name in counts)
        listed = "; ".join(text.format(count) for text, count in known)
        said.append(f"{WORDS['kinds'][kind].format(len(part))}: {listed}.")
    return " ".join(said)


def find_recorded(claims: pd.DataFrame, run: FullRun) -> pd.Series:
    """Find the verdicts of a full run on claims."""
    return claims["id"].map(run.verdicts).fillna(NOT_RUN)


def _list_verdict_columns() -> list[str]:
    """List the columns of verdicts under each reading of N, stopped and converged."""
    return [f"verdict_{name}{end}" for name in READINGS for end in ("", "_converged")]


def sort_by_reading(claims: pd.DataFrame) -> pd.Series:
    """Return for each claim whether it holds under all readings of N, stopped and converged.

    "all", "some" or "none"; "–" where it is not judged under all.
    """
    columns = _list_verdict_columns()
    held = (claims[columns] == "replicated").sum(axis=1)
    text = held.map(lambda count: {0: "none", len(columns): "all"}.get(count, "some"))
    unjudged = claims[columns].isin([NOT_RUN, "not testable as printed"]).any(axis=1)
    return text.mask(unjudged, "–")


def _count_readings(claims: pd.DataFrame) -> dict[str, int]:
    """Count the results that hold under all readings, under some, and under none."""
    counts = sort_by_reading(claims[claims["kind"] == "result"]).value_counts()
    found = {name: int(counts.get(name, 0)) for name in ("all", "some", "none")}
    return found | {"judged": sum(found.values())}


def _describe_effect(effects: pd.DataFrame) -> Iterator[str]:
    """Say how large the central effect is, under both readings of N."""
    words, measure = WORDS["answers"], effects["measure"].iloc[0]
    own = effects[effects["measure"] == measure]
    means = own.groupby(["reading", "estimate"], sort=False)["activation"].mean().map(format_number)
    readings = [
        words["reading"].format(counted=counted, **means[name])
        for name, counted in COUNTED.items()
        if name in means
    ]
    role = str(measure).removeprefix("indicated ")
    yield words["effect"].format(role=role, mle=means["", "mle"], readings="; ".join(readings))


def _list_means(means: pd.DataFrame, stop: str) -> Iterator[str]:
    """Yield a sentence for each condition: all measures under the three estimates."""
    for condition, part in means.groupby("condition", sort=False):
        numbers = [
            f"{measure} {', '.join(map(format_number, own['mean']))}"
            for measure, own in part.groupby("measure", sort=False)
        ]
        listed = f"{condition}: {'; '.join(numbers)}"
        yield WORDS["answers"]["means"].format(stop=stop, listed=listed)


def _list_changes(paired: pd.DataFrame, estimate: str, when: str) -> str:
    """List the measures that change clearly, with their changes, in one sentence."""
    rows = paired[paired["estimate"] == estimate]
    same = np.sign(rows["mean"]) == np.sign(rows["logit_mean"])
    clear: Any = rows[(rows["p_holm"] < ALPHA) & (rows["logit_p_holm"] < ALPHA) & same]
    named = [
        f"{row.condition}, {row.measure} {'+' * (row.mean > 0)}{format_number(row.mean)} "
        f"[{format_number(row.ci_low)}, {format_number(row.ci_high)}]"
        for row in clear.itertuples()
    ]
    words = WORDS["answers"]
    changes = "; ".join(named) or words["none"].format(tests=len(rows))
    return str(words["changes"]).format(when=when, alpha=ALPHA, changes=changes)


def describe_settings(result: StudyResult) -> Iterator[str]:
    """Yield when and with what a study was made, and what the paper leaves open."""
    study, words = result.study, WORDS["made"]
    inference, stimuli = study.settings.inference, study.settings.stimuli
    training = study.run.settings
    yield describe_making(words["training"].format(training=training, world=study.run.world.name))
    if "claims" in result.tables:
        paper = inference.samplers["paper"]
        taming = paper.options.get("taming", "consistent")
        values = {
            "other": "printed" if taming == "consistent" else "consistent",
            "bias": "yes" if paper.bias else "no",
            "step": paper.options.get("step_size") or "automatic",
            "file": Path(stimuli.file).name,
            "items": len(study.stimuli.items),
        }
        yield words["open"].format(paper=paper, taming=taming, rows=inference.rows, **values)


def fill_values(result: StudyResult) -> dict[str, Any]:
    """Return the values that the texts of titles and sections are filled with."""
    values: dict[str, Any] = {"name": result.study.settings.name, "stop": result.stop}
    if "claims" in result.tables:
        steps, impossible = result.tables["steps"], result.tables["impossible_numbers"]
        roles = _list_roles(steps)
        less = impossible[impossible["why"].str.contains("wrong tail")]
        values |= {
            "results": int((result.tables["claims"]["kind"] == "result").sum()),
            "roles": " / ".join(roles),
            "trained": " and ".join(f"{steps[f'mle_{r}'].mean():.2g} ({r})" for r in roles),
            "networks": steps["network"].nunique() if len(steps) else 0,
            "impossible": len(impossible),
            "less": len(less),
            "trained_less": int(less["where"].str.contains("trained network").sum()),
        }
    return values


def list_sentences(result: StudyResult, name: str) -> list[str]:
    """List the sentences of a section that its tables decide on."""
    if name == "truth":
        return [] if result.truth is None else describe_truth(result)
    if name == "match" and result.runs.answer:
        answer, command = result.runs.answer[0], result.runs.match_command
        return [WORDS["depends"]["match"].format(answer=answer, command=command)]
    return []


def _compare_verdicts(result: StudyResult) -> Iterator[str]:
    """Say which verdicts differ at convergence and in other full runs, and on what they rest."""
    claims, runs, words = result.tables["claims"], result.runs, WORDS["depends"]
    yield words["stopping"].format(**_find_differences(claims, claims["verdict_at_convergence"]))
    for run in runs.list_others(result.study.settings.name):
        apart = _find_differences(claims, claims["id"].map(run.verdicts))
        yield words["training"].format(run=run, command=run.commands[0], **apart)
    judged = claims[(claims["id"] == "nearer-to-truth") & (claims["verdict"] != NOT_RUN)]
    yield from (words["corpus"].format(text) for text in judged["in_short"])
    if (networks := result.run.settings.networks) < FEW:
        yield words["few"].format(networks=networks)


def _find_differences(claims: pd.DataFrame, others: pd.Series) -> dict[str, object]:
    """Count and list the claims that have another verdict in `others`."""
    known = others.notna() & (others != NOT_RUN) & (claims["verdict"] != NOT_RUN)
    apart = known & (others != claims["verdict"])
    pairs = zip(claims.loc[apart, "in_short"], others[apart], strict=True)
    listed = "; ".join(f"{text} ({verdict})" for text, verdict in pairs)
    counts = {"apart": int(apart.sum()), "known": int(known.sum())}
    return counts | {"listed": f": {listed}" if listed else ""}


def describe_truth(result: StudyResult) -> list[str]:
    """Describe in a few sentences what doubt does where reversals have a true answer."""
    truth, words, limits = result.truth, WORDS["truth"], read_record("claims")["limits"]
    assert truth is not None
    errors = truth.groupby(["kind", "condition"])["kl"].mean()
    rows: Any = errors.reset_index().itertuples()
    said = {f"{row.kind}_{row.condition}": f"{row.kl:.3g}" for row in rows}
    example = truth[(truth["item"] == EXAMPLE) & (truth["condition"] == "reversal")]
    verdicts = {
        sampler: words[compare_errors(truth, sampler, limits).verdict]
        for sampler in ("paper", "converged")
    }
    time = truth.loc[truth["kind"] == "paper", "time"].median()
    values = said | {
        "truth": example["truth"].iloc[0],
        "networks": truth["network"].nunique(),
        "steps": result.study.settings.inference.samplers["paper"].num_steps,
        "time": f"(τ = {time:.2g}) ",
    }
    sentences = [text.format(**values) for text in words["sentences"]]
    if result.quick:
        return sentences[:1]
    last = "alike" if verdicts["paper"] == verdicts["converged"] else "apart"
    return [*sentences, words[last].format(**verdicts)]


def shape_table(result: StudyResult, entry: dict[str, Any]) -> pd.DataFrame:
    """Return the table of a section: a table of the study, or claims with their verdicts."""
    tables, name = result.tables, entry.get("table", "")
    if "story" in entry or name == "verdicts":
        return _shape_claims(result, entry.get("story"))
    if name == "steps":
        return _shape_steps(tables["steps"])
    if name == "rational_levels" and name in tables:
        table = tables[name].replace({"reading": COUNTED, "estimate": NAME_OF})
        return table.rename(columns={"reading": "what N counts"})
    return tables.get(name, pd.DataFrame()).drop(columns=CELLS, errors="ignore")


def _shape_claims(result: StudyResult, story: str | None) -> pd.DataFrame:
    """Return the claims of a story with our numbers, or all with the verdicts of all readings."""
    claims, stop = result.tables["claims"], result.stop
    if story is not None:
        if result.quick:
            return pd.DataFrame()
        names = ["claim", "printed", "at_paper_steps", "at_convergence"]
        verdicts = {"verdict": "verdict, stopped", "verdict_at_convergence": "verdict, converged"}
        own = claims.loc[claims["story"] == story, [*names, *verdicts]]
        return own.rename(columns={"at_paper_steps": stop} | verdicts)
    table = pd.DataFrame({"claim": claims["in_short"], "of": claims["kind"]})
    if result.quick:
        for run in reversed(result.runs.studies):
            table[f"verdict of a full run, recipe {run.recipe}"] = find_recorded(claims, run)
        return table
    for column in _list_verdict_columns():
        reading, _, converged = column.removeprefix("verdict_").partition("_")
        where = "converged" if converged else stop.partition(",")[0]
        table[f"verdict, {COUNTED[reading]}, {where}"] = claims[column]
    return table.assign(**{"holds in": sort_by_reading(claims)})


def _list_roles(steps: pd.DataFrame) -> list[str]:
    names = map(str, steps.columns)
    return [name.removeprefix("mle_") for name in names if name.startswith("mle_")]


def _shape_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return other J, Δτ and ρ with a column for each Δτ, with τ in every cell."""
    if steps.empty:
        return steps
    index, roles = ["reading", "num_particles", "dropout_rate"], _list_roles(steps)
    keys = [*index, "step_size"]
    means = steps.groupby(keys, sort=False).mean().reset_index()
    cells = [
        "diverged" if row["diverged"] else " / ".join(f"{row[f'indicated_{r}']:.2g}" for r in roles)
        for row in means.to_dict("records")
    ]
    shown = means.assign(
        reading=means["reading"].map(COUNTED),
        cell=[f"{text} (τ = {time:.2g})" for text, time in zip(cells, means["time"], strict=True)],
        step="Δτ " + means["step_size"],
    )
    table = shown.pivot(index=index, columns="step", values="cell")[shown["step"].unique()]
    return table.rename_axis(index=["what N counts", "J", "ρ"])


def caption(name: str) -> Picture:
    """Return a figure with its caption; one of several of a kind is named in its title."""
    kind, _, which = name.partition("_")
    texts = WORDS["figures"]
    if name in texts:
        return Picture(name, texts[name])
    condition, _, estimate = which.rpartition("_")
    named = f"{condition}, {NAME_OF[estimate]}" if estimate in NAME_OF else which
    title, _, rest = texts[kind].partition(". ")
    return Picture(name, f"{title.rstrip('.')}: {named}. {rest}")


def list_appendix(result: StudyResult, pictures: list[Picture]) -> Iterator[Section]:
    """Yield the parts of the appendix."""
    tables, study, runs = dict(result.tables), result.study, result.runs
    notes = list(WORDS["notes"]["study"])
    done = WORDS["made"]["done"].format(
        stop=result.stop,
        items=len(study.stimuli.items),
        conditions=join_names(study.stimuli.conditions),
    )
    if "claims" in tables:
        notes += WORDS["notes"]["paper"]
    if result.beliefs.exact is not None:
        notes.append(WORDS["notes"]["exact"].format(**result.beliefs.exact.attrs))
    if result.beliefs.nuts is not None:
        notes.append(f"NUTS, for comparison: {result.beliefs.nuts.attrs['verdict']}")
    yield Section(title="What was done, and caveats", sentences=[done, *notes])
    if "claims" in tables and not result.quick:
        names = ["in_short", "where", "verdict", "why"]
        why = tables["claims"][names].rename(columns={"in_short": "claim"})
        yield Section(title="Why each verdict was given", table=why)
        depends = list(_compare_verdicts(result))
        yield Section(title="What verdicts depend on", sentences=depends)
        if runs.answer:
            source = f"This answer is not from this run: `{runs.match_command}`."
            title = "Does any specification that was searched give the paper's results?"
            yield Section(title=title, sentences=[*runs.answer, source])
    yield Section(title="More figures", pictures=pictures)
    for name, text in WORDS["tables"].items():
        if name in tables:
            table = tables[name].drop(columns=CELLS, errors="ignore")
            yield Section(title=f"tables/{name}.csv", sentences=[text], table=table)
    yield Section(title="Settings", text=tomli_w.dumps(study.settings.to_dict()))
    yield list_versions()
