"""Trials of simulated participants: comprehenders that answer who did what, several times each.

    answers.toml: data.csv, measures.csv, readings.csv

`data.csv` has a row for each answer and `measures.csv` one for each sentence; `equivocal compare`
and R read both directly. `readings.csv` has the shares of readings, w, b and w/b by condition.
Answers, participants, w and b are defined in `equivocal.people`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equivocal.errors import format_number
from equivocal.people.drawn_answers import (
    Estimate,
    choose_likeliest,
    count_answers,
    draw_answers,
    summarise_answers,
)
from equivocal.people.participants import believe_answers, open_comprehenders
from equivocal.people.questions import READINGS, Question, list_questions
from equivocal.people.run_comparison import TrialsResult, hash_inputs
from equivocal.progress import progress
from equivocal.store import hash_files
from equivocal.store.folders import NETWORKS, open_run
from lastlayer.errors import UserError
from lastlayer.machine import collect_versions
from lastlayer.seeds import Seed, choose_seed

__all__ = ["ALL", "READERS", "format_share", "simulate_answers"]

READERS = ("draw", "argmax")
ALL = "all conditions"
MOST_ANSWERS = 1_000


def simulate_answers(
    source: str | Path,
    out: str | Path = "runs/simulated",
    *,
    answers: int = 3,
    reader: str = "draw",
    beliefs: str | None = None,
    participants: int | None = None,
    sampler: str | None = None,
    prior_variance: float | None = None,
    sentences: str | Path | None = None,
    seed: Seed = 0,
) -> TrialsResult:
    """Let trained networks, or particles of their posteriors, answer questions as participants do.

    Parameters
    ----------
    source : str or Path
        The folder of a training run or a study.
    out : str or Path
        Folder for the results.
    answers : int
        How many times each participant answers each question; at least two.
    reader : {"draw", "argmax"}
        Draw each answer from the participant's beliefs, or always give the likeliest answer.
    beliefs : {"trained", "posterior"}, optional
        Whether a participant is a trained network or a particle of its posterior; by default a
        particle if the study has posteriors.
    participants : int, optional
        The number of participants; by default every network, or five particles of each.
    sampler : str, optional
        The sampler whose posteriors are used; by default the study's first.
    prior_variance : float, optional
        The prior variance of the posterior; by default the central one.
    sentences : str or Path, optional
        A CSV file of sentences; by default those of the study, or the shipped ones.
    seed : int or numpy.random.Generator
        The same seed gives the same answers.

    Returns
    -------
    TrialsResult
        Tables "data", "measures" and "readings", already written to `out`.

    Raises
    ------
    UserError
        If there are no networks, sentences or posteriors, or a user's file would be overwritten.
    """
    _check_arguments(reader, answers)
    seed = choose_seed(seed)
    source, out, path = Path(source), Path(out), None if sentences is None else Path(sentences)
    with progress("participants") as advance:
        who = open_comprehenders(source, path)
        questions = list_questions(who.items, who.run.world)
        names, believed, about = believe_answers(
            who,
            questions,
            beliefs=beliefs,
            participants=participants,
            sampler=sampler,
            variance=prior_variance,
            seed=seed,
            advance=advance,
        )
    codes = _give_readings(believed, questions, answers, reader, seed)
    readings = _tabulate_readings(codes, questions, seed, [_find_network(name) for name in names])
    settings: dict[str, Any] = {
        "from": str(source),
        "run": hash_files(*open_run(who.place).find(NETWORKS) or ()),
        "sentences": who.source if path is None else str(path),
        "inputs": hash_inputs(sentences=path),
        **about,
        "participants": len(names),
        "answers": answers,
        "reader": reader,
        "seed": seed,
    }
    return TrialsResult(
        name="answers",
        tables={
            "data": _tabulate_answers(codes, questions, names),
            "measures": _tabulate_sentences(questions),
            "readings": readings,
        },
        settings=settings | {"versions": collect_versions()},
        summary=_summarise(names, questions, answers, readings, who.source, about),
    ).save(out)


def _check_arguments(reader: str, answers: int) -> None:
    """Reject an unknown reader, and too few or too many answers."""
    if reader not in READERS:
        raise UserError(f"reader (--reader) must be {' or '.join(READERS)}, got {reader!r:.80}.")
    if not 2 <= answers <= MOST_ANSWERS:
        raise UserError(f"answers (--answers) must be from 2 to {MOST_ANSWERS}, got {answers}.")


def _give_readings(
    believed: np.ndarray, questions: Sequence[Question], answers: int, reader: str, seed: int
) -> np.ndarray:
    """Return the reading that each participant gives in each answer, as an index of `READINGS`.

    A rival of the literal reading that the world does not favour counts as an other reading.
    """
    if reader == "draw":
        given = draw_answers(believed, answers, np.random.default_rng([seed, 1]))
    else:
        given = choose_likeliest(believed, answers)
    plausible = np.array([question.plausible for question in questions])[None, :, None]
    return np.where((given == 1) & ~plausible, 2, given)


def _tabulate_readings(
    codes: np.ndarray, questions: Sequence[Question], seed: int, networks: Sequence[str]
) -> pd.DataFrame:
    """Tabulate shares of readings, w, b and w/b, for each condition and for all together.

    The share of the plausible reading is taken over the questions in which it differs from the
    literal one; it is NaN if there are none.

    Parameters
    ----------
    codes : ndarray of shape (participants, questions, answers)
        Indices of `READINGS`.
    questions : sequence of Question
        The questions that were answered.
    seed : int
        The seed of the bootstrap.
    networks : sequence of str
        The network of each participant.
    """

    def estimate(chosen: Sequence[int]) -> dict[str, Estimate]:
        answered = count_answers(codes[:, chosen], len(READINGS))
        items = [questions[n].item for n in chosen]
        return summarise_answers(answered, items, READINGS, groups=networks, seed=seed)

    conditions = list(dict.fromkeys(question.condition for question in questions))
    rows = []
    for condition in [*conditions, *([ALL] if len(conditions) > 1 else [])]:
        chosen = [n for n, q in enumerate(questions) if condition in (ALL, q.condition)]
        defined = [n for n in chosen if questions[n].plausible]
        items = {questions[n].item for n in chosen}
        sizes = {"participants": len(codes), "items": len(items), "questions": len(chosen)}
        found = estimate(chosen)
        missing = Estimate(np.nan, np.nan, np.nan)
        found["plausible"] = estimate(defined)["plausible"] if defined else missing
        for name, each in found.items():
            rows.append({"condition": condition, "measure": name, **each._asdict(), **sizes})
    return pd.DataFrame(rows)


def _find_network(participant: str) -> str:
    """Return the network's part of a participant's name, such as n00 of n00p03."""
    return participant.partition("p")[0]


def _tabulate_answers(
    codes: np.ndarray, questions: Sequence[Question], names: Sequence[str]
) -> pd.DataFrame:
    """Return a row for each answer."""
    who, which, repetition = np.indices(codes.shape).reshape(3, -1)
    asked = [questions[number] for number in which]
    return pd.DataFrame(
        {
            "participant": np.array(names)[who],
            "item": [question.item for question in asked],
            "condition": [question.condition for question in asked],
            "question": [question.probe for question in asked],
            "repetition": repetition + 1,
            "answer": np.array(READINGS)[codes.ravel()],
        }
    )


def _tabulate_sentences(questions: Sequence[Question]) -> pd.DataFrame:
    """Return a row for each sentence, with the measures that `equivocal compare` can test."""
    rows = {
        (q.item, q.condition): {
            "item": q.item,
            "condition": q.condition,
            "implausible": int(q.plausible),
            "words": len(q.utterance),
        }
        for q in questions
    }
    return pd.DataFrame(rows.values())


def _summarise(
    names: Sequence[str],
    questions: Sequence[Question],
    answers: int,
    readings: pd.DataFrame,
    source: str,
    about: Mapping[str, object],
) -> tuple[str, ...]:
    """Describe how sentences were read, who answered, and how often answers differ."""
    last = readings["condition"].iloc[-1]
    found = readings[readings["condition"] == last].set_index("measure")
    rows = found[["value", "low", "high"]].to_dict("index")
    spans = {name: format_estimate(**row) for name, row in rows.items()}
    if about["beliefs"] == "trained":
        who = "a participant is a trained network"
    else:
        networks = len({_find_network(name) for name in names})
        who = f"a participant is a particle of a posterior; they are of {networks} networks"
    differ = ", ".join(f"{name} {spans[name]}" for name in ("w", "b", "w/b"))
    favoured = ""
    if not np.isnan(rows["plausible"]["value"]):
        share = spans["plausible"]
        favoured = f"; where the world favours another reading, the share of that one is {share}"
    return (
        f"Of all readings a share of {spans['literal']} is literal{favoured}.",
        f"{len(names) * len(questions) * answers} answers of {len(names)} participants to "
        f"{len(questions)} questions about {source}; {who}",
        f"two answers of one participant differ with w, of two with b: {differ}",
    )


def format_share(value: float) -> str:
    """Format a share of answers by significant digits; round-off is zero, without a sign.

    Parameters
    ----------
    value : float
        A number of about the size of a share, or NaN.

    Returns
    -------
    str
        As `format_number` gives it.

    >>> format_share(4e-7), format_share(-1e-17)
    ('4.00 × 10⁻⁷', '0')
    """
    return format_number(round(value, 12))


def format_estimate(value: float, low: float = np.nan, high: float = np.nan) -> str:
    """Format a share and its interval.

    >>> format_estimate(-0.00021, -1e-17, 0.0312), format_estimate(0.0), format_estimate(np.nan)
    ('−2.10 × 10⁻⁴ (0 to 0.0312)', '0 (–)', '–')
    """
    shown, least, most = map(format_share, (value, low, high))
    if np.isnan(value):
        return shown
    return f"{shown} ({least})" if np.isnan(low) else f"{shown} ({least} to {most})"
