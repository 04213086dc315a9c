"""Every accuracy against its definition, computed the slow way."""

import numpy as np
import pytest

from equivocal.gestalt import Run, score
from equivocal.gestalt.scoring import belief_scores, exact_match, exact_match_ceiling
from equivocal.world import World


def test_scores_agree_with_their_definitions(small_run: Run) -> None:
    """Sentence by sentence, question by question, over the held-out part."""
    world, network = small_run.world, small_run.networks[0]
    held_out = small_run.held_out
    units, zeros, exact, asked = 0.0, 0.0, 0.0, 0
    words = world.lexicon.words
    for text, event, count in zip(
        held_out.texts, held_out.derivations.fillers, held_out.counts, strict=True
    ):
        roles = [(r, words[f]) for r, f in zip(world.roles, event, strict=True) if f >= 0]
        if count == 0:
            continue
        answers = network.comprehend(text, probes=[name for pair in roles for name in pair])
        for index, (role, filler) in enumerate(roles):
            target = world.filler_units(filler) | np.isin(world.units, "role:" + role)
            for probe in (2 * index, 2 * index + 1):
                right = (answers.isel(probe=probe).to_numpy() > 0.5) == target
                units += count * right.mean(axis=1).sum()
                exact += count * right.all(axis=1).sum()
                zeros += count * len(right) * (~target).mean()
                asked += count * len(right)
    row = score(list(small_run.models), held_out).loc[0]
    assert row["unit_accuracy"] == pytest.approx(units / asked, abs=1e-6)
    assert row["all_zeros"] == pytest.approx(zeros / asked, abs=1e-6)
    assert row["exact_match"] == pytest.approx(exact / asked, abs=1e-6)


def test_belief_error_agrees_with_its_definition(small_run: Run) -> None:
    world, network = small_run.world, small_run.networks[1]
    seen: dict[tuple, float] = {}
    for sentence in world.sentences:
        utterance = world.parse(sentence.text)
        for size in range(1, len(utterance) + 1):
            key = utterance.tokens[:size]
            seen[key] = seen.get(key, 0.0) + sentence.probability
    total, weight = 0.0, 0.0
    right, certain = 0.0, 0.0
    node_of = {}
    for sentence in world.sentences:
        utterance = world.parse(sentence.text)
        for size in range(1, len(utterance) + 1):
            node_of.setdefault(utterance.tokens[:size], utterance.first(size))
    queries = world.all_derivations.queries
    tree = world.all_derivations.tree
    for begun in node_of.values():
        answers = network.comprehend(begun).isel(word=-1)
        node = tree.find([tuple(pair) for pair in world.encode(begun).tolist()])
        for number, role in enumerate(world.roles):
            pair = queries.find(node, number)
            if pair is None:
                continue
            truth = world.true_beliefs(begun, role).to_numpy()
            answer = answers.sel(probe=role).to_numpy()
            share = queries.weight[pair]
            possible = truth > 1e-9
            total += share * np.abs(answer - truth)[possible].sum()
            weight += share * possible.sum()
            if np.all((truth < 1e-9) | (truth > 1 - 1e-9)):
                certain += share
                right += share * np.all((answer > 0.5) == (truth > 0.5))
    row = small_run.scores.loc[1]
    assert row["belief_error"] == pytest.approx(total / weight, rel=1e-4)
    assert row["certain_right"] == pytest.approx(right / certain, abs=1e-6)


def test_the_truth_itself_scores_perfectly(paper: World) -> None:
    queries = paper.all_derivations.queries
    scores = belief_scores(queries.targets(), queries)
    assert scores["belief_error"] == pytest.approx(0, abs=1e-12)
    assert scores["certain_right"] == 1
    # what is open cannot be named without a mistake, so even the truth stays below one
    assert exact_match(queries.targets(), queries) < exact_match_ceiling(queries) < 0.95


def test_exact_match_ceiling_is_the_likeliest_answer(garden: World) -> None:
    """Question by question: the largest weight of any one answer."""
    queries = garden.all_derivations.queries
    best: dict[int, float] = {}
    for pair, weight in zip(queries.triple_pair.tolist(), queries.triple_weight, strict=True):
        best[pair] = max(best.get(pair, 0.0), weight)
    expected = sum(best.values()) / queries.weight.sum()
    assert exact_match_ceiling(queries) == pytest.approx(expected)
    assert 0.96 < expected < 0.97


def test_all_zeros_scores_high_and_says_nothing(paper: World) -> None:
    """The reason why unit accuracy is never reported alone."""
    queries = paper.all_derivations.queries
    nothing = np.zeros((len(queries), len(paper.units)))
    assert (1 - queries.targets()).mean() > 0.96
    assert exact_match(nothing, queries) == 0
    assert belief_scores(nothing, queries)["certain_right"] == 0
