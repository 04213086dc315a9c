"""The page that `equivocal page` writes, opened from a disk: it answers as Python does.

Every number of an answer is compared: all words, all candidates of all roles, each network.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from equivocal.asking.answer import Answer
from equivocal.asking.comprehender import Comprehender
from equivocal.asking.page import build_page
from equivocal.asking.shipped import list_shipped
from equivocal.asking.source import Source
from equivocal.cli import build_app
from lastlayer.errors import UserError

WORLDS = list(list_shipped())
EVERY = 100  # fillers of a role: all of them
CLOSE = 1e-4
MOST_BYTES = 12_000_000
# of the world, its reversal, words in a wrong order, an impossible event, and much repetition
SENTENCES = [
    "during dinner, the woman eats the pizza",
    "During dinner, the PIZZA ate the woman!",
    "woman pizza in the park likes",
    "on Sunday the rose plants the boy in the living room",
    "the girl",
    "during breakfast, the egg eats the egg",
]


@pytest.fixture(scope="module")
def tab(file: Path, browser: Any) -> Iterator[Any]:
    """The page in a browser without a network; what it says or fetches fails the tests."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("svg.picture")
    yield page
    context.close()
    assert said == []
    assert [url for url in fetched if not url.startswith((file.as_uri(), "data:", "blob:"))] == []


@pytest.fixture(scope="module")
def minds() -> dict[str, Comprehender]:
    return {world: Comprehender(Source.choose(world=world)) for world in WORLDS}


def ask_page(tab: Any, questions: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    answers: list[Any] = json.loads(
        tab.evaluate(
            "questions => JSON.stringify(questions.map(([text, options]) =>"
            " window.equivocal.ask(text, options)))",
            questions,
        )
    )
    return answers


def compare(found: Any, expected: Any, where: str = "") -> float:
    """Return the largest difference between numbers; anything else must be equal."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        pairs = [(found[key], expected[key], f"{where}.{key}") for key in expected]
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        pairs = [
            (*both, f"{where}[{n}]") for n, both in enumerate(zip(found, expected, strict=True))
        ]
    elif isinstance(expected, bool | str | None):
        assert found == expected, where
        return 0.0
    else:
        return abs(found - expected)
    return max((compare(*pair) for pair in pairs), default=0.0)


# every number of an answer in one list, candidates by name, and all its summaries
FLATTEN = """([texts, options]) => JSON.stringify(texts.map((text) => {
  const answer = window.equivocal.ask(text, options);
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
}))"""


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


def find_difference(tab: Any, mind: Comprehender, texts: list[str], **options: Any) -> float:
    """Return the largest difference in answers to all these texts, whose summaries must agree."""
    asked = {"world": mind.world.name, "top": EVERY, **options}
    worst = 0.0
    for text, (numbers, summaries) in zip(
        texts, json.loads(tab.evaluate(FLATTEN, [texts, asked])), strict=True
    ):
        answer = mind.answer(
            text, prior_variance=options.get("prior"), step=options.get("step", "converged")
        )
        worst = max(worst, float(np.abs(np.array(numbers) - flatten(answer)).max()))
        for at, summary in enumerate(summaries):
            assert say_the_same(summary, answer.summarise(at)), (
                text,
                summary,
                answer.summarise(at),
            )
    return worst


def say_the_same(one: str, other: str) -> bool:
    """Whether texts are equal, but for a last digit: 73.5 % less a millionth is 73 % or 74 %."""
    number = re.compile(r"\d+(?:\.\d+)?")
    pairs = zip(number.findall(one), number.findall(other), strict=False)
    near = all(abs(float(a) - float(b)) <= 1.001 / 10 ** len(a.partition(".")[2]) for a, b in pairs)
    return near and number.sub("#", one) == number.sub("#", other)


@pytest.mark.parametrize("world", WORLDS)
def test_answers_are_those_of_python(tab: Any, minds: dict[str, Comprehender], world: str) -> None:
    mind = minds[world]
    assert find_difference(tab, mind, SENTENCES) < CLOSE
    for step in (*mind.steps, "converged"):
        assert find_difference(tab, mind, SENTENCES[:2], step=step) < CLOSE
    for prior in mind.settings.prior_variances:
        assert find_difference(tab, mind, SENTENCES[1:2], prior=prior) < CLOSE
    assert find_difference(tab, mind, ["egg " * 27]) < CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_all_sentences_are_answered_as_by_python(
    tab: Any, minds: dict[str, Comprehender], world: str
) -> None:
    """Every sentence and beginning, every role and unit, every step of the slider."""
    mind = minds[world]
    sentences = [sentence.text for sentence in mind.world.sentences]
    for step in (*mind.steps, "converged"):
        for start in range(0, len(sentences), 100):
            part = sentences[start : start + 100]
            assert find_difference(tab, mind, part, step=step) < CLOSE


@pytest.mark.parametrize("sentence", SENTENCES)
def test_objects_have_the_same_keys_and_texts(
    tab: Any, minds: dict[str, Comprehender], sentence: str
) -> None:
    (found,) = ask_page(tab, [(sentence, {"world": "slips", "step": 17, "prior": 5})])
    expected = minds["slips"].answer(sentence, prior_variance=5.0, step=17).to_dict()
    assert compare(found, json.loads(json.dumps(expected))) < CLOSE


def test_without_options_it_is_what_the_command_prints(tab: Any) -> None:
    sentence = "the boy plays chess"
    printed = CliRunner().invoke(build_app(), ["ask", sentence, "--json"])
    (found,) = ask_page(tab, [(sentence, {})])
    assert compare(found, json.loads(printed.output)) < CLOSE


@pytest.mark.parametrize(
    ("sentence", "options", "message"),
    [
        ("the piza", {}, "Unknown word “piza”. Did you mean “pizza”?"),
        ("the egg is eaten by the man", {}, "sg2018"),
        ("", {}, "The sentence is empty"),
        ("word " * 100, {}, "at most 300"),
        ("egg " * 31, {}, "31 words, at most 30"),
        ("egg \N{SLICE OF PIZZA}", {}, "not a word of this world"),
        ("egg\x07", {}, "U+0007"),
        ("during", {}, "“during” is the last word"),
        ("egg", {"step": 2}, "no step 2; choose from 0, 1"),
        ("egg", {"prior": 2}, "no prior variance 2; choose from 0.01, 1, 5"),
        ("egg", {"world": "nowhere"}, "no world “nowhere” here; choose from slips, paper"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    tab: Any, sentence: str, options: dict[str, Any], message: str
) -> None:
    told = tab.evaluate(
        "([text, options]) => { try { window.equivocal.ask(text, options); return 'answered'; }"
        " catch (problem) { return problem.message; } }",
        [sentence, options],
    )
    assert message in told


def test_a_link_without_a_world_asks_the_default(tab: Any) -> None:
    tab.goto(tab.url.partition("#")[0] + "#sentence=the boy plays chess")
    tab.reload()
    tab.wait_for_selector("svg.picture")
    printed = CliRunner().invoke(build_app(), ["ask", "the boy plays chess", "--json"])
    assert tab.input_value("#world") == json.loads(printed.output)["world"] == "slips"


def test_table_is_that_of_python(tab: Any, minds: dict[str, Comprehender], tmp_path: Path) -> None:
    tab.goto(tab.url.partition("#")[0] + "#world=paper&sentence=the man eats the egg&step=17")
    tab.reload()
    tab.wait_for_selector("svg.picture")
    with tab.expect_download() as waiting:
        tab.click("#export-csv")
    waiting.value.save_as(tmp_path / "table.csv")
    found = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    expected = minds["paper"].answer("the man eats the egg", step=17).to_dataframe()
    assert found[0].split(",") == list(expected.columns)
    rows = [line.split(",") for line in found[1:]]
    assert [row[:4] for row in rows] == expected.iloc[:, :4].astype(str).to_numpy().tolist()
    numbers = expected.iloc[:, 4:].to_numpy()
    for row, truth in zip(rows, numbers, strict=True):
        assert [float(cell or "nan") for cell in row[4:]] == pytest.approx(
            truth.tolist(), abs=CLOSE, nan_ok=True
        )


def test_file_is_small_and_names_no_other(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_world_without_networks_is_refused() -> None:
    with pytest.raises(UserError, match="no networks of world 'sg2018' come with the package"):
        build_page(["sg2018"])
