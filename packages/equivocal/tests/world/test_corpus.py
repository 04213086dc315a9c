"""Sampling: reproducible, faithful to the probabilities, collapsible, exportable, large."""

import csv
from collections import Counter

import numpy as np
import pytest
from benchmarks.worlds import write_large_world
from scipy import stats

from equivocal.world import ImpossibleSentenceError, World, WorldSizeWarning
from lastlayer.errors import UserError


def test_same_seed_same_corpus(paper: World) -> None:
    """And a longer sample begins with the shorter one."""
    assert paper.sample(500, seed=3).texts != paper.sample(500, seed=4).texts
    assert paper.sample(500, seed=3).texts[:200] == paper.sample(200, seed=3).texts


def test_sampled_frequencies_fit_the_exact_probabilities(paper: World) -> None:
    """χ² over all 448 sentences of 100,000 draws; P(p < 1e-6) is one in a million by design.

    Sampling `like` with the usual agents instead of equal ones gives p < 1e-300.
    """
    counts = Counter(paper.sample(100_000, seed=5).texts)
    expected = np.array([sentence.probability for sentence in paper.sentences]) * 100_000
    observed = [counts[sentence.text] for sentence in paper.sentences]
    assert sum(observed) == 100_000
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_split_parts_share_rows_and_add_up(paper: World) -> None:
    corpus = paper.sample(300, seed=1)
    held_out = np.arange(300) < 50
    kept, other = corpus.split(held_out)
    assert (kept.weight.sum(), other.weight.sum()) == (250, 50)
    assert kept.texts == other.texts
    np.testing.assert_array_equal(kept.queries.node, other.queries.node)
    np.testing.assert_array_equal(kept.queries.probe, other.queries.probe)
    total = kept.queries.weight + other.queries.weight
    np.testing.assert_allclose(total, corpus.queries.weight)


def test_csv_has_a_sentence_per_line_and_roles_in_columns(paper: World, tmp_path) -> None:
    paper.sample(50, seed=0).to_csv(tmp_path / "corpus.csv")
    rows = list(csv.DictReader((tmp_path / "corpus.csv").read_text().splitlines()))
    assert len(rows) == 50
    assert list(rows[0]) == ["sentence", "construction", *paper.roles, "count"]
    for row in rows:
        assert row["count"] == "1"
        assert row["agent"] in row["sentence"]
        assert row["patient"] in row["sentence"]


@pytest.mark.parametrize(
    ("n", "seed", "name"), [(0, 0, "n"), (2.5, 0, "n"), (10**18, 0, "n"), (3, -1, "seed")]
)
def test_bad_sizes_and_seeds_are_refused(paper: World, n: object, seed: int, name: str) -> None:
    with pytest.raises(UserError, match=f"{name} must be a whole number"):
        paper.sample(n, seed=seed)


def test_large_world_is_sampled_and_says_that_it_is_not_enumerated() -> None:
    world = World.from_toml(write_large_world(num_words=2_000, num_actions=200))
    assert len(world.lexicon.words) == 2_000
    assert not world.is_exact
    assert len(world.sample(20_000, seed=0)) == 20_000
    with pytest.warns(WorldSizeWarning, match="too many to enumerate"):
        sentences = world.sentences
    assert sum(sentence.probability for sentence in sentences) == pytest.approx(1)
    # the first word of the most probable sentence was sampled often, with almost any action
    beliefs = world.true_beliefs(world.parse(sentences[0].text).first(1), "action")
    assert beliefs[list(world.file.words["verbs"])].sum() == pytest.approx(1)
    with pytest.raises(ImpossibleSentenceError, match="so its probabilities are not known"):
        world.true_beliefs(" ".join(list(world.lexicon.words)[:6]), "action")
