"""The page in a browser answers as Python does: every number, every summary, every refusal."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from equivocal.asking.answer import Answer
from equivocal.asking.listeners import Listeners
from equivocal.asking.page import build_page
from equivocal.asking.source import Source, list_shipped
from tests.asking.browsing import PAIR, visit
from tests.asking.conftest import TINY
from tests.cli.commands import run

EVERY = 100  # fillers of a role: all of them
CLOSE = 1e-4
MOST_BYTES = 12_000_000
# of the world, words in a wrong order, an impossible event, and much repetition
SENTENCES = [
    *PAIR,
    "During dinner, the PIZZA ate the woman!",
    "woman pizza in the park likes",
    "on Sunday the rose plants the boy in the living room",
    "the girl",
    "during breakfast, the egg eats the egg",
    "egg " * 27,
]
# every number of an answer in one list, candidates by name, and all its summaries
FLATTEN = """async ([texts, options]) => JSON.stringify(await Promise.all(texts.map(async (text) =>
{
  const answer = await window.equivocal.ask(text, options);
  const numbers = [];
  for (const one of [answer, ...answer.networks]) {
    for (const { roles, semantic_update, entropy, epistemic } of one.words) {
      numbers.push(semantic_update, entropy, epistemic);
      for (const beliefs of Object.values(roles)) {
        beliefs.sort((a, b) => (a.filler < b.filler ? -1 : 1));
        for (const { mle, bayes, low, high, truth } of beliefs) {
          numbers.push(mle, bayes, low, high, truth ?? -1);
        }
      }
    }
  }
  return [numbers, answer.words.map(({ summary }) => summary)];
})))"""


@pytest.fixture(scope="module")
def tab(browser: Any, file: Path) -> Iterator[Any]:
    with visit(browser, file) as opened:
        yield opened


@pytest.fixture(scope="module")
def shipped() -> dict[str, Listeners]:
    return {world: Listeners(Source.choose(world=world)) for world in list_shipped()}


def flatten(answer: Answer) -> NDArray[np.float64]:
    """Return what `FLATTEN` makes of the same answer."""
    numbers: list[NDArray[np.float64]] = []
    for one in (answer, *answer.networks):
        truth = np.where(np.isnan(one.truth), -1, one.truth)
        beliefs = np.stack([one.mle, one.bayes, one.low, one.high, truth], axis=-1)
        order = np.argsort(np.array(one.fillers))
        measures = np.stack(
            [one.semantic_update, one.uncertainty, one.epistemic.mean(axis=1)], axis=1
        )
        for word, row in zip(beliefs, measures, strict=True):
            numbers.append(row)
            numbers += [word[r, order][one.candidates[r, order]].ravel() for r in range(len(word))]
    return np.concatenate(numbers)


def find_difference(tab: Any, python: Listeners, texts: list[str], step: int | str) -> float:
    """Return the largest difference in answers to all these texts, whose summaries must agree."""
    asked = {"world": python.world.name, "top": EVERY, "step": step}
    worst = 0.0
    for text, (numbers, summaries) in zip(
        texts, json.loads(tab.evaluate(FLATTEN, [texts, asked])), strict=True
    ):
        answer = python.answer(text, step=step)
        worst = max(worst, float(np.abs(np.array(numbers) - flatten(answer)).max()))
        for at, summary in enumerate(summaries):
            assert say_the_same(summary, answer.summarise(at)), (text, summary)
    return worst


def say_the_same(one: str, other: str) -> bool:
    """Whether texts are equal, but for a last digit: 73.5 % less a millionth is 73 % or 74 %."""
    spread = re.compile(r" \([^()]* to [^()]*\)")  # of what is warranted: other draws
    one, other = (spread.sub("", text) for text in (one, other))
    number = re.compile(r"\d+(?:\.\d+)?")
    pairs = zip(number.findall(one), number.findall(other), strict=False)
    near = all(abs(float(a) - float(b)) <= 1.001 / 10 ** len(a.partition(".")[2]) for a, b in pairs)
    return near and number.sub("#", one) == number.sub("#", other)


def compare(found: Any, expected: Any, where: str = "") -> float:
    """Return the largest difference between numbers; anything else must be equal."""
    if where.endswith(".warranted") and expected is not None:
        return abs(found[0] - expected[0])  # the interval is one of other draws
    if where.endswith(".summary"):
        assert say_the_same(found, expected), where
        return 0.0
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        return max((compare(found[k], expected[k], f"{where}.{k}") for k in expected), default=0.0)
    if isinstance(expected, list):
        assert len(found) == len(expected), where
        return max(map(compare, found, expected, [where] * len(found)), default=0.0)
    if isinstance(expected, bool | str | None):
        assert found == expected, where
        return 0.0
    return abs(found - expected)


@pytest.mark.parametrize("world", list_shipped())
def test_answers_are_those_of_python(tab: Any, shipped: dict[str, Listeners], world: str) -> None:
    python = shipped[world]
    assert find_difference(tab, python, SENTENCES, "converged") < CLOSE
    for step in python.steps:
        assert find_difference(tab, python, SENTENCES[:2], step) < CLOSE


@pytest.mark.longer
@pytest.mark.parametrize("world", list_shipped())
def test_sentences_of_all_kinds_are_answered_as_by_python(
    tab: Any, shipped: dict[str, Listeners], world: str
) -> None:
    """Every tenth sentence with its beginnings, every role and unit, every step of the slider."""
    python = shipped[world]
    sentences = [sentence.text for sentence in python.world.sentences[::10]]
    for step in (*python.steps, "converged"):
        assert find_difference(tab, python, sentences, step) < CLOSE


@pytest.mark.parametrize("world", list_shipped())
def test_what_is_warranted_is_that_of_python(
    tab: Any, shipped: dict[str, Listeners], world: str
) -> None:
    """Where noise and rare events matter, and where the world has no truth."""
    python = shipped[world]
    learner = python.warrant.learner
    assert learner is not None
    for text in (PAIR[1], "the pizza eats", "the rose plants the boy", "woman pizza likes"):
        found = tab.evaluate("([text, world]) => equivocal.ask(text, { world })", [text, world])
        answer = python.answer(text)
        for role, listed in found["words"][-1]["roles"].items():
            for belief in listed:
                own = answer.belief(-1, role, belief["filler"]).warranted
                if own is None:
                    assert belief["warranted"] is None
                    continue
                mean, *ends = belief["warranted"]
                assert mean == pytest.approx(own[0], abs=CLOSE)
                unit = python.world.lexicon.find_word_unit(belief["filler"])
                drawn = learner.members(answer.heard, role)[:, unit]
                for end, level in zip(ends, (0.05, 0.95), strict=True):
                    # 5 standard errors of a 5 % quantile's level, for 200 draws of each
                    error = 5 * np.sqrt(0.05 * 0.95 * 2 / 200)
                    assert (drawn < end - CLOSE).mean() - error < level
                    assert level < (drawn <= end + CLOSE).mean() + error


def test_without_options_it_is_what_the_command_prints(tab: Any) -> None:
    for text in ("the boy plays chess", PAIR[1]):
        printed = run("ask", text, "--json").stdout
        found = tab.evaluate("text => equivocal.ask(text)", text)
        assert compare(found, json.loads(printed)) < CLOSE


def test_networks_of_ones_own_answer_as_in_python(
    browser: Any, saved_run: Path, cache: Path, tmp_path: Path
) -> None:
    """Their posteriors are not packed as those of the package are; they have no other steps."""
    source = Source.choose(run=saved_run, settings=TINY)
    page = tmp_path / "garden.html"
    page.write_text(build_page([source]), encoding="utf-8")
    texts = ["the cat chases the mouse", "the mouse chases the cat on the lawn"]
    with visit(browser, page) as tab:
        assert tab.locator("#story").is_hidden()  # it is about the package's networks
        assert tab.locator("#slider").get_attribute("max") == "1"
        for step in (0, "converged"):
            assert find_difference(tab, Listeners(source), texts, step) < CLOSE


@pytest.mark.parametrize(
    ("sentence", "options", "message"),
    [
        ("the piza", {}, "Unknown word “piza”. Did you mean “pizza”?"),
        ("the egg is eaten by the man", {}, "sg2018"),
        ("", {}, "The sentence is empty"),
        ("egg " * 31, {}, "31 words, at most 30"),
        ("egg\x07", {}, "U+0007"),
        ("during", {}, "“during” is the last word"),
        ("egg", {"step": 2}, "no step 2; choose from 0, 1"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    tab: Any, sentence: str, options: dict[str, Any], message: str
) -> None:
    said = tab.evaluate(
        "([text, options]) => equivocal.ask(text, options).then(() => 'answered', String)",
        [sentence, options],
    )
    assert message in said


def test_the_file_is_small_and_names_no_other(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert "http:" not in text
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert "{{" not in text
