"""Every accuracy against its definition, computed the slow way."""

import numpy as np
import pytest

from equivocal.network import Run
from equivocal.network.probing import compute_exact_match_ceiling, score
from equivocal.world import World


def test_scores_agree_with_their_definitions(small_run: Run) -> None:
    """Sentence by sentence, question by question, over the held-out part."""
    world, network = small_run.world, small_run.networks[0]
    held_out = small_run.held_out
    units, zeros, exact, asked = 0.0, 0.0, 0.0, 0
    words = world.lexicon.words
    for text, event, count in zip(
        held_out.texts, held_out.derivations.fillers, held_out.weight, strict=True
    ):
        roles = [(r, words[f]) for r, f in zip(world.roles, event, strict=True) if f >= 0]
        if count == 0:
            continue
        answers = network.comprehend(text, probes=[name for pair in roles for name in pair])
        for index, (role, filler) in enumerate(roles):
            target = world.find_filler_units(filler) | np.isin(world.units, "role:" + role)
            for probe in (2 * index, 2 * index + 1):
                right = (answers.isel(probe=probe).to_numpy() > 0.5) == target
                units += count * right.mean(axis=1).sum()
                exact += count * right.all(axis=1).sum()
                zeros += count * len(right) * (~target).mean()
                asked += count * len(right)
    row = score(small_run.models, held_out).loc[0]
    assert row["unit_accuracy"] == pytest.approx(units / asked, abs=1e-6)
    assert row["all_zeros"] == pytest.approx(zeros / asked, abs=1e-6)
    assert row["exact_match"] == pytest.approx(exact / asked, abs=1e-6)


def test_belief_error_agrees_with_its_definition(small_run: Run) -> None:
    """Weights from the list of sentences: how often a beginning is heard with each role asked."""
    world, network = small_run.world, small_run.networks[1]
    everything = world.all_derivations
    asked: dict[tuple[str, str], float] = {}  # (beginning, role): probability
    for text, event, probability in zip(
        everything.texts, everything.derivations.fillers, everything.weight, strict=True
    ):
        utterance = world.parse(text)
        for size in range(1, len(utterance) + 1):
            for role, filler in zip(world.roles, event, strict=True):
                if filler >= 0:
                    key = (str(utterance.first(size)), role)
                    asked[key] = asked.get(key, 0.0) + probability
    total, weight, right, certain = 0.0, 0.0, 0.0, 0.0
    for (begun, role), share in asked.items():
        truth = world.true_beliefs(begun, role).to_numpy()
        answer = network.comprehend(begun, role).isel(word=-1, probe=0).to_numpy()
        possible = truth > 0
        total += share * np.abs(answer - truth)[possible].sum()
        weight += share * possible.sum()
        if np.all((truth == 0) | (truth == 1)):
            certain += share
            right += share * np.all((answer > 0.5) == (truth > 0.5))
    row = small_run.scores.loc[1]
    # float32 activations against the same ones computed in another order: 1e-6 of about 0.03
    assert row["belief_error"] == pytest.approx(total / weight, rel=1e-4)
    assert row["certain_right"] == pytest.approx(right / certain, abs=1e-9)


def test_exact_match_ceiling_is_the_likeliest_answer(garden: World) -> None:
    """Question by question: the largest weight of any one answer."""
    queries = garden.all_derivations.queries
    best: dict[int, float] = {}
    for pair, weight in zip(queries.triple_pair.tolist(), queries.triple_weight, strict=True):
        best[pair] = max(best.get(pair, 0.0), weight)
    expected = sum(best.values()) / queries.weight.sum()
    assert compute_exact_match_ceiling(queries) == pytest.approx(expected)
    assert 0.96 < expected < 0.97
