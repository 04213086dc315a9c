"""`run_test`: the registered test from end to end, its figures and its report."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import pandas as pd
from matplotlib.figure import Figure

from equivocal.english.comprehenders import EXACT, TRAINED
from equivocal.english.findings import answer_questions
from equivocal.english.language_model import LanguageModel
from equivocal.english.registered_test import TestSettings, Trial, run_trial
from equivocal.english.sentences import DATA
from equivocal.figure_style import COLOURS, apply_style
from equivocal.report import Picture, Section
from equivocal.result import Result, describe_run
from equivocal.store import read_toml

TEXTS = read_toml(str(DATA / "report.toml"))
KINDS = ("impossible", "unlikely", "reversible")
NAMED = (TRAINED, EXACT, "ensemble of networks", "ensemble of posteriors")


@dataclass(frozen=True, kw_only=True, eq=False)
class EnglishTest(Result):
    """The outcome of the registered test."""

    trial: Trial
    title: ClassVar[str] = "Who understands sentences that no one would say?"
    question: ClassVar[str] = TEXTS["question"]

    def describe_figures(self) -> dict[str, str]:
        """Return what each figure shows, by name."""
        return dict(TEXTS["captions"])

    def list_sections(self, pictures: list[Picture]) -> list[Section]:
        """List the sections of the report: one for each registered question, and the pictures."""
        answers, sections = self.tables["answers"], []
        for number, question in TEXTS["questions"].items():
            own = answers[answers["question"] == number].drop(columns="question")
            named = own.rename(columns={"holds": "verdict"})
            sections.append(Section(title=f"{number}. {question}", table=named))
        return [*sections, *super().list_sections(pictures)]

    def draw(self) -> dict[str, Figure]:
        """Draw the figures of the report."""
        with apply_style():
            return {
                "loss": _draw_losses(self.trial.loss, TEXTS["figures"]["comprehenders"]),
                "constructions": _draw_constructions(self.trial.loss),
                "words": _draw_words(self.trial.words),
            }


def run_test(
    folder: str | Path, *, lm: str | Path | None = None, quick: bool = False
) -> EnglishTest:
    """Run the registered test; write tables, figures and the report.

    Parameters
    ----------
    folder : str or Path
        The folder of the results.
    lm : str or Path, optional
        The language model.
    quick : bool
        Whether only to check that it works.
    """
    began = perf_counter()
    model = LanguageModel(lm)
    settings = TestSettings()
    if quick or model.count_layers() <= max(settings.layers):
        top = model.choose_layer()
        settings = TestSettings(layers=(top,))
    if quick:  # only to see that the program ends
        small: dict[str, Any] = {"sentences": 150, "pool": 200, "held_out": 80, "items": 3}
        settings = replace(settings, seeds=2, shares=(0.5,), **small)
    trial = run_trial(model, settings)
    answers = answer_questions(trial)
    tables = {f.name: getattr(trial, f.name) for f in fields(trial) if f.name != "chosen_layer"}
    del tables["rows"], tables["sentences"]  # large, and summarised by the others
    result = EnglishTest(
        name="english",
        tables=tables | {"answers": answers},
        settings=describe_run(
            began, model=model.name, layer=trial.chosen_layer, quick=quick, sizes=str(settings)
        ),
        summary=summarize(trial, answers),
        trial=trial,
    )
    result.write(folder)
    return result


def summarize(trial: Trial, answers: pd.DataFrame) -> tuple[str, ...]:
    """Say what was found, one sentence for each question."""
    lines = []
    means = trial.loss.groupby(["kind", "comprehender"])["nll"].mean()
    for kind in ("impossible reversed", "impossible plausible"):
        each = [f"{means[kind, name]:.3f} ({name})" for name in NAMED]
        lines.append(f"Loss on {kind} sentences, in nats: {', '.join(each)}.")
    for number, question in TEXTS["questions"].items():
        held = answers[(answers["question"] == number) & answers["holds"].notna()]["holds"]
        yes, total = int(held.astype(bool).sum()), len(held)
        verdict = "Yes" if yes == total else "No"
        lines.append(f"{question} {verdict}: {yes} of {total} registered comparisons hold.")
    return tuple(lines)


def _draw_losses(loss: pd.DataFrame, names: list[str]) -> Figure:
    """A dot for every comprehender in every kind of sentence; a thin one for every seed."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    shown = [name for name in names if name in set(loss["comprehender"])]
    for axes, kind in zip(panels, KINDS, strict=True):
        for version, colour in (("plausible", COLOURS[0]), ("reversed", COLOURS[1])):
            part = loss[loss["kind"] == f"{kind} {version}"]
            each = part.pivot_table(index="seed", columns="comprehender", values="nll")[shown]
            rows = range(len(shown))
            axes.plot(each.T, rows, ".", color=colour, alpha=0.35, ms=5)
            axes.plot(each.mean(), rows, "o", color=colour, ms=7, label=version)
        right = 1.05 * axes.get_xlim()[1]  # room for whole dots
        axes.set(title=kind, xlabel="loss (nats per question)", xlim=(0, right))
        axes.set_yticks(range(len(shown)), shown)
        axes.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _draw_constructions(loss: pd.DataFrame) -> Figure:
    """The probability of the literal reading in every construction."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    part = loss[loss["comprehender"] == EXACT]
    table = part.pivot_table(index="construction", columns="kind", values="literal", sort=False)
    for kind, colour in zip(KINDS, COLOURS, strict=False):
        for version, look in (("plausible", "o:"), ("reversed", "s-")):
            name = f"{kind} {version}"
            axes.plot(table[name], look, color=colour, label=name)
    axes.axhline(0.5, color="0.7", lw=0.8, zorder=0)
    axes.set(ylabel="literal reading, exact posterior", ylim=(0.4, 1))
    axes.tick_params(axis="x", rotation=20)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_words(words: pd.DataFrame) -> Figure:
    """Belief in the literal role of the first noun, and doubt about it, after every word."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    names = list(dict.fromkeys(words["construction"]))
    panels = figure.subplots(2, len(names), sharex="col", sharey="row", squeeze=False)
    kinds = ("impossible plausible", "impossible reversed", "reversible reversed")
    for column, name in enumerate(names):
        for kind, colour in zip(kinds, COLOURS, strict=False):
            part = words[(words["construction"] == name) & (words["kind"] == kind)]
            for row, measure in enumerate(("literal", "information")):
                place = part["position"] + 1
                panels[row, column].plot(place, part[measure], "o-", color=colour, label=kind)
        panels[0, column].set(title=name, ylim=(0, 1.02))
        panels[1, column].set(xlabel="after word", ylim=(0, None))
    panels[0, 0].set_ylabel("literal role of noun 1")
    panels[1, 0].set_ylabel("epistemic (nats)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
