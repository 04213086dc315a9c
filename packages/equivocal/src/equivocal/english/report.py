"""`run_test`: the registered test from end to end, and its report."""

from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from equivocal.english.comprehenders import EXACT, TRAINED
from equivocal.english.figures import draw_figures
from equivocal.english.findings import answer_questions
from equivocal.english.language_model import LanguageModel
from equivocal.english.registered_test import TestSettings, Trial, run_trial
from equivocal.english.sentences import DATA
from equivocal.report import Picture, Section
from equivocal.result import Result, describe_run
from equivocal.store import read_toml

TEXTS = read_toml(str(DATA / "report.toml"))


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
        return draw_figures(self.trial, TEXTS["figures"]["comprehenders"])


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
        settings = TestSettings.make_quick((top,)) if quick else TestSettings(layers=(top,))
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
