"""Previous words and lengths, by hand and through a join."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.people.designs import add_length, add_previous_words
from equivocal.people.join import join_files
from equivocal.people.trial_tables import Columns
from lastlayer.errors import UserError

MEASURES = pd.DataFrame(
    {
        "item": ["a"] * 3 + ["b"] * 3,
        "position": ["1", "2", "10", "3", "2", "1"],
        "word": ["Dogs", "eat", "x-rays", "man", "eats", "egg"],
        "surprise": [1.0, 2.0, 3.0, 6.0, 5.0, 4.0],
    }
)


def test_spillover_through_a_join(tmp_path: Path) -> None:
    """Previous words are found even if --where keeps one position; first words are left out."""
    MEASURES.to_csv(tmp_path / "m.csv", index=False)
    rows = [(p, i, k, 300.0) for p in "pq" for i in "ab" for k in (1, 2)]
    table = pd.DataFrame(rows, columns=["participant", "item", "region", "rt"])
    words = MEASURES.set_index(["item", "position"])["word"]
    table["word"] = [words[i, str(k)] for i, k in zip(table["item"], table["region"], strict=True)]
    table.to_csv(tmp_path / "d.csv", index=False)
    files, columns = (tmp_path / "d.csv", tmp_path / "m.csv"), Columns(position="region")
    joined = join_files(*files, columns, controls=["length"], spillover=1)
    assert joined.measures == ["surprise", "surprise_previous"]
    assert joined.controls == ["length", "length_previous"]
    assert joined.trials["surprise_previous"].tolist() == [1, 4, 1, 4]
    assert joined.trials["length_previous"].tolist() == [4, 3, 4, 3]
    assert set(joined.unmatched["reason"]) == {"surprise_previous is empty"}
    one = join_files(*files, columns, ["surprise"], where=["region=2"], spillover=1)
    assert one.trials["surprise_previous"].tolist() == [1, 4, 1, 4]
    assert one.measures == ["surprise", "surprise_previous"]


def test_previous_words_are_those_of_the_same_sentence() -> None:
    found = add_previous_words(MEASURES, 2, ["surprise"])
    nan = np.nan
    np.testing.assert_array_equal(found["surprise_previous"], [nan, 1, nan, 5, 4, nan])
    np.testing.assert_array_equal(found["surprise_previous_2"], [nan, nan, nan, 4, nan, nan])
    assert found["position"].tolist() == MEASURES["position"].tolist()
    networks = pd.concat([MEASURES.assign(network=0), MEASURES.assign(network=1, surprise=9.0)])
    lagged = add_previous_words(networks, 1, ["surprise"])["surprise_previous"]
    np.testing.assert_array_equal(lagged.iloc[[1, 7]], [1, 9])


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        (MEASURES.drop(columns="position"), "not every row has one that is a whole number"),
        (MEASURES.assign(position="verb"), "not every row has one that is a whole number"),
        (MEASURES.assign(surprise_previous=1.0), "has a column 'surprise_previous' of its own"),
    ],
)
def test_positions_that_cannot_be_counted_back_are_refused(measures, message: str) -> None:
    with pytest.raises(UserError, match=message):
        add_previous_words(measures, 1, ["surprise"])


def test_length_is_that_of_the_words_that_were_read(tmp_path: Path) -> None:
    """The constituent of the model is "in morning"; one participant read an article more."""
    assert add_length(MEASURES)["length"].tolist() == [4, 3, 5, 3, 4, 3]
    measures = "item,position,word,update\n1,1,in morning,1\n1,2,man,2\n2,1,dog,3\n2,2,eats,4\n"
    rows = "p,1,1,In the morning\np,1,2,the man\np,2,1,a dog\np,2,2,eats\n"
    rows += "q,1,1,In morning\nq,1,2,man\n"
    columns = "participant,item,position,word"
    trials = f"{columns},rt\n" + "".join(f"{row},300\n" for row in rows.splitlines())
    (tmp_path / "m.csv").write_text(measures)
    (tmp_path / "d.csv").write_text(trials)
    files = (tmp_path / "d.csv", tmp_path / "m.csv")
    found = join_files(*files, Columns(), controls=["length"])
    assert found.trials["length"].tolist() == [12, 6, 4, 4, 9, 3]
    assert found.notes == []
    lagged = join_files(*files, Columns(), controls=["length"], where=["position=2"], spillover=1)
    assert lagged.controls == ["length", "length_previous"]
    pairs = lagged.trials[["length", "length_previous"]].to_numpy().tolist()
    assert pairs == [[6, 12], [4, 4], [3, 9]]
    (tmp_path / "d.csv").write_text(trials.replace(",word,", ",text,"))
    with pytest.raises(UserError, match="the trials have no column word to count it from"):
        join_files(*files, Columns(), controls=["length"])
