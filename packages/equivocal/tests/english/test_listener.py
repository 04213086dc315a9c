"""Listeners answer in the promised columns, learn labels, and say what they do not cover."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.english import EnglishListener, fit_english
from equivocal.english.measures import describe_reading, find_doubt, measure_sentences, read_items
from lastlayer.errors import UserError
from needs import needs

COLUMNS = [
    "position",
    "word",
    "probe",
    "role",
    "trained",
    "posterior",
    "low",
    "high",
    "epistemic",
    "surprisal",
]


@pytest.fixture(scope="module")
def listener(tiny_model: Path, drawn) -> EnglishListener:
    """Fitted to a question that a model of letters can answer: does the word end in r?"""
    sentences, words, ends = [], [], []
    for one in drawn[:220]:
        number = min(one.roles)
        sentences.append(one.text)
        words.append(number + 1)
        ends.append(int(one.words[number].strip(".?").endswith("r")))
    return fit_english(sentences, {"r": ends}, words=words, lm=tiny_model)


def test_a_question_of_ones_own_is_learned(listener: EnglishListener) -> None:
    table = listener.ask("The dog saw the baker.")
    assert list(table.columns) == COLUMNS
    assert set(table["role"]) == {"r"}
    last = table[table["position"] == 5].set_index("probe")["posterior"]
    assert last["baker"] > last["dog"] + 0.3
    assert (table["low"] <= table["high"]).all()
    assert (table["epistemic"] >= 0).all()
    assert describe_reading(table) == ""  # nobody asked who acts


def test_one_word_at_most_fills_a_role(listener: EnglishListener) -> None:
    text = "The dog saw the baker."
    words, filled = listener.ask(text), listener.ask(text, "r")
    assert list(filled.columns) == COLUMNS
    assert np.allclose(filled.groupby("position")[["trained", "posterior"]].sum(), 1, atol=1e-5)
    last = filled[filled["position"] == 5].set_index("probe")["trained"]
    assert list(last.index) == ["dog", "saw", "baker", "no word"]
    odds = (
        words[words["position"] == 5].set_index("probe")["trained"].transform(lambda p: p / (1 - p))
    )
    assert np.isclose(last["baker"], odds["baker"] / (1 + odds.sum()), rtol=1e-3)
    with pytest.raises(UserError, match="no role 'subject'"):
        listener.ask(text, "subject")


def test_a_saved_listener_answers_alike(
    listener: EnglishListener, tiny_model: Path, tmp_path: Path
) -> None:
    listener.save(tmp_path / "mine.safetensors")
    again = EnglishListener.load(tiny_model, path=tmp_path / "mine.safetensors")
    text = "The singer slept."
    pd.testing.assert_frame_equal(listener.ask(text), again.ask(text), atol=0.02, rtol=0.02)


def test_a_listener_of_another_model_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UserError, match="was fitted to SmolLM2"):
        EnglishListener.load(tiny_model)


def test_far_states_are_not_covered(listener: EnglishListener) -> None:
    near = listener.ask("The singer hugged the poet.").attrs["distance"]
    far = listener.ask("xq zzz qqqq jjjjx vvvv").attrs["distance"]
    assert max(far.values()) > max(near.values())


def test_measures_are_about_every_word(listener: EnglishListener) -> None:
    items = pd.DataFrame(
        {"sentence": ["The poet slept.", "A dog bit the baker."], "item": "1", "condition": "c"}
    )
    words = measure_sentences(listener, items)
    assert words["word"].tolist() == ["The", "poet", "slept", "A", "dog", "bit", "the", "baker"]
    assert words["position"].tolist() == [1, 2, 3, 1, 2, 3, 4, 5]
    first = words[words["position"] == 1]
    assert first["uncertainty"].isna().all()  # nothing has been heard that could be asked about
    assert (words["semantic_update"] > 0).all()
    surprise = words["bayesian_surprise"].dropna()
    assert len(surprise)
    assert (surprise >= 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence\n", "has no rows"),
        ("text\nDogs bite.\n", "sentence is missing"),
        ("sentence,item\nDogs bite.,1\n  ,2\n", "row 3 has no sentence"),
        ("sentence,critical_word\nDogs bite.,barked\n", "row 2 has a critical word that is not"),
        ("sentence,item\nDogs bite.,1\nCats bite.,1\n", "row 3 is the second of item '1'"),
    ],
)
def test_tables_of_items_are_checked(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        read_items(tmp_path / "items.csv")


def test_long_sentences_are_refused(listener: EnglishListener) -> None:
    with pytest.raises(UserError, match="more than 100 words"):
        listener.ask("word " * 101)


def test_doubt_is_raised_by_the_word_after_which_beliefs_are_nearest_a_half() -> None:
    posterior = [0.9, 0.5, 0.95]
    table = pd.DataFrame(
        {"position": [1, 2, 3], "word": list("abc"), "probe": "a", "role": "agent"}
    ).assign(posterior=posterior)
    word, rise = find_doubt(table)
    assert word == "b"
    assert np.isclose(rise, np.log(2) + 0.9 * np.log(0.9) + 0.1 * np.log(0.1))


def test_labels_that_do_not_fit_are_refused(tiny_model: Path) -> None:
    for labels in ({"x": [1, 0]}, {"x": ["yes"]}, {"x": [""]}, {}):
        with pytest.raises(UserError, match="one for each sentence"):
            fit_english(["A dog slept."], labels, lm=tiny_model)
    with pytest.raises(UserError, match="a sentence is empty"):
        fit_english([" "], {"x": [1]}, lm=tiny_model)
    with pytest.raises(UserError, match="is not in"):
        fit_english(["A dog slept."], {"x": [1]}, words=["cat"], lm=tiny_model)


def test_without_a_model_one_sentence_and_exit_code_2() -> None:
    code = (
        "import sys; sys.argv = ['equivocal', 'ask', '--english', 'Dogs bite.', '--lm', 'none']; "
    )
    code += "from equivocal.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_default_listener_knows_who_was_eaten(tmp_path: Path) -> None:
    """The real model, once: an impossible passive that the listener understands as it is said."""
    needs("language model")
    table = EnglishListener.load().ask("The mouse was eaten by the cheese.")
    last = table[table["position"] == 7].set_index(["probe", "role"])["posterior"]
    assert last["mouse", "patient"] > 0.9
    assert last["cheese", "agent"] > 0.9
    assert last["cheese", "patient"] < 0.1
    assert describe_reading(table).startswith("agent 'cheese' 1.00 (")
