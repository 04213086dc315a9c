"""`run_test`: the registered test from end to end, and its report as one page.

The report says what was asked, what was found with every answer as it came out.
"""

import html
import io
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter

import pandas as pd
from matplotlib.figure import Figure

from equivocal.english.comprehenders import EXACT, TRAINED
from equivocal.english.figures import draw_figures
from equivocal.english.findings import answer_questions
from equivocal.english.language_model import LanguageModel
from equivocal.english.registered_test import TestSettings, Trial, run_trial
from equivocal.english.sentences import DATA
from equivocal.result import Result, describe_run
from equivocal.store import read_toml
from equivocal.store.files import write_text_atomically

TEXTS = read_toml(str(DATA / "report.toml"))


NAMED = (TRAINED, EXACT, "ensemble of networks", "ensemble of posteriors")


@dataclass(frozen=True, kw_only=True, eq=False)
class EnglishTest(Result):
    """The outcome of the registered test."""

    trial: Trial

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
    write_text_atomically(Path(folder) / "report.html", write_report(result))
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


def write_report(result: EnglishTest) -> str:
    """Return the report as one page that fetches nothing."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>English, a registered test</title><style>{TEXTS['style']}</style>",
        "<h1>Who understands sentences that no one would say?</h1>",
        "<p>A frozen language model reads English; a query network asks its states who does what; "
        "the last layer of that network gets a posterior. Everything below was asked before the "
        "test was run, in <code>registration.md</code> of the package.</p>",
        "".join(f"<p>{html.escape(line)}</p>" for line in result.summary),
    ]
    for name, figure in result.draw().items():
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        svg = text.getvalue()
        caption = html.escape(TEXTS["captions"][name])
        parts.append(
            f"<figure>{svg[svg.index('<svg') :]}<figcaption>{caption}</figcaption></figure>"
        )
    answers = result.tables["answers"]
    for number, question in TEXTS["questions"].items():
        table = answers[answers["question"] == number].drop(columns="question")
        cells = table.to_html(index=False, na_rep="", float_format="%.3f", border=0)
        parts.append(f"<h2>{number}. {html.escape(question)}</h2>{cells}")
    parts.append(
        "<h2>What this is not</h2><p>A probe of a language model is not a person. The sentences "
        "are templates, the labels of plausibility our own, and truth is what the words say.</p>"
    )
    return "\n".join(parts)
