"""The counting learner against brute force, by simulated worlds, and with many sentences."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from equivocal.world import World, find_role_reversals
from equivocal.world.corpus import Corpus
from equivocal.world.derivations import Derivations
from equivocal.world.grammar import NO_FILLER
from equivocal.world.learner import CountingLearner
from equivocal.world.learning import FormLearner, learn, map_rational_beliefs
from equivocal.world.queries import list_constituents
from lastlayer.errors import UserError

Array = NDArray[np.float64]

# Two actions, nouns that may act or be acted upon, an optional place, a passive, an exchange, a
# lost "by" and an added "was": every kind of choice that a grammar has.
TINY = """
name = "tiny"
roles = ["agent", "action", "patient", "place"]
[words.nouns]
dog = ["dog"]
cat = ["cat"]
[words.places]
lawn = ["lawn"]
[words.verbs]
chase = ["chase"]
see = ["see"]
[markers]
by = ["by"]
was = ["was"]
in = ["in"]
[actions.chase]
agent = { dog = 0.7, cat = 0.3 }
patient = [{ when = { agent = "dog" }, then = "cat" }, { then = "dog" }]
place = { lawn = 0.5, absent = 0.5 }
[actions.see]
agent = ["nouns"]
patient = ["nouns"]
[[constructions]]
name = "active"
order = ["agent", "action", "patient", "place"]
markers = { place = "in" }
mentioned = { place = 0.6 }
[[constructions]]
name = "passive"
probability = 0.3
order = ["patient", "action", "agent"]
markers = { action = "was", agent = "by" }
[noise.exchange]
exchange = ["agent", "patient"]
probability = 0.1
[noise.lost]
delete = "by"
probability = 0.05
[noise.added]
insert_markers = { action = "was" }
constructions = "active"
probability = 0.02
"""
PREFIXES = (
    "dog",
    "dog was chased",
    "dog chases",
    "dog was chased cat",
    "cat was chased",
    "dog sees dog",
)
PREFIXES += ("cat was chased by dog", "cat was see dog", "dog chases cat in lawn")


class Table:
    """Every derivation of a world, with fillers chosen freely, and the choices that make it."""

    def __init__(self, world: World, learner: CountingLearner) -> None:
        self.world, self.learner = world, learner
        grammar = world.grammar
        rows, self.keys = [], []
        events = product(*(learner.support[role].tolist() for role in learner.order))
        for event in events:
            fillers = np.full(len(world.roles), NO_FILLER)
            fillers[learner.order] = event
            chain = [("filler", event[:place], word) for place, word in enumerate(event)]
            fits = learner.count_constructions(event[0])[0]
            for meant in fits.tolist():
                construction = grammar.constructions[meant]
                optional = [r for r in construction.order if fillers[r] != NO_FILLER]
                for said in product([True, False], repeat=len(optional)):
                    spoken = dict(zip(optional, said, strict=True))
                    if any(construction.mentioned[r] == 1 and not s for r, s in spoken.items()):
                        continue
                    mask = np.array([spoken.get(r, False) for r in range(len(world.roles))])
                    keys = [*chain, ("construction", event[0], meant)]
                    keys += [
                        ("mention", (meant, r), s)
                        for r, s in spoken.items()
                        if construction.mentioned[r] < 1
                    ]
                    struck = [
                        each
                        for each in grammar.disturbances
                        if each.meant == meant
                        and all(mask[r] and words[fillers[r]] for r, words in each.needs)
                    ]
                    rows.append((fillers, meant, mask))
                    self.keys.append((keys, [(each.heard, False) for each in struck]))
                    for each in struck:
                        rows.append((fillers, each.heard, mask))
                        self.keys.append((keys, [(each.heard, True)]))
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        fillers, construction, said = columns
        self.derivations = Derivations(
            fillers.astype(np.int32), construction.astype(np.int32), said, np.ones(len(rows))
        )
        self.tokens = list_constituents(self.derivations, grammar)

    def weigh(self, chances: dict[tuple[object, ...], float]) -> Array:
        """Return the probability of every derivation; those of noise are by its name."""
        grammar, weights = self.world.grammar, []
        for keys, noise in self.keys:
            names = [(grammar.constructions[heard].noise, struck) for heard, struck in noise]
            weight = np.prod([chances[key] for key in keys])
            struck = [chances["noise", name] for name, is_struck in names if is_struck]
            left = 1 - sum(chances["noise", name] for name, is_struck in names)
            weights.append(weight * (struck[0] if struck else left))
        return np.array(weights)

    def answer(self, weight: Array, text: str, role: str) -> Array:
        """Return P(unit | text, role) by going through all derivations."""
        world, grammar = self.world, self.world.grammar
        pairs = world.encode(text)
        fits = (self.tokens[:, : len(pairs)] == pairs).all(axis=(1, 2))
        number = world.roles.index(role)
        fits &= self.derivations.fillers[:, number] != NO_FILLER
        words = self.derivations.fillers[fits, number]
        adds = [grammar.constructions[c].adds[number] for c in self.derivations.construction[fits]]
        meaning = (world.lexicon.features[words] | grammar.added_features[adds]).astype(float)
        meaning[:, number] = 1.0
        return weight[fits] @ meaning / weight[fits].sum()

    def list_choices(self) -> dict[tuple[object, ...], list[tuple[object, ...]]]:
        """Return the outcomes of every choice."""
        found: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
        for keys, _ in self.keys:
            for key in keys:
                outcomes = found.setdefault(key[:2], [])
                if key not in outcomes:
                    outcomes.append(key)
        return found


@pytest.fixture(scope="module")
def tiny() -> World:
    return World.from_toml(TINY)


@pytest.fixture(scope="module")
def table(tiny: World) -> Table:
    return Table(tiny, CountingLearner(tiny, tiny.sample(1)))


def find_means(table: Table, learner: CountingLearner) -> dict[tuple[object, ...], float]:
    """Posterior means, counted without the learner's tree."""
    rows, meant = learner.rows, learner._meant
    order, means = rows.fillers[:, learner.order], {}
    for outcomes in table.list_choices().values():
        counts = []
        for kind, given, outcome in outcomes:
            if kind == "filler":
                fits = (order[:, : len(given) + 1] == [*given, outcome]).all(axis=1)
            elif kind == "construction":
                fits = (order[:, 0] == given) & (meant == outcome)
            else:
                construction, role = given
                present = rows.fillers[:, role] != NO_FILLER
                fits = (meant == construction) & present & (rows.said[:, role] == outcome)
            counts.append(rows.weight[fits].sum() + learner.alpha / len(outcomes))
        means |= dict(zip(outcomes, np.array(counts) / sum(counts), strict=True))
    for name in table.world.file.noise:
        struck, spared = learner.count_noise(name)
        share = learner.alpha / (1 + len(table.world.file.noise))
        means["noise", name] = (struck + share) / (struck + spared + learner.alpha)
    return means


@pytest.mark.parametrize(("sentences", "alpha"), [(1, 1.0), (60, 1.0), (60, 0.1)])
def test_predictions_equal_brute_force(
    sentences: int, alpha: float, tiny: World, table: Table
) -> None:
    learner = CountingLearner(tiny, tiny.sample(sentences, seed=3), pseudo_count=alpha)
    weight = table.weigh(find_means(table, learner))
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    for text, role in product(PREFIXES, tiny.roles):
        expected = table.answer(weight, text, role)
        np.testing.assert_allclose(learner.beliefs(text, role), expected, rtol=0, atol=1e-10)


def draw_world(table: Table, learner: CountingLearner, rng: np.random.Generator) -> Array:
    """Draw every choice from the learner's prior; return the probability of every derivation."""
    chances: dict[tuple[object, ...], float] = {}
    for outcomes in table.list_choices().values():
        drawn = rng.dirichlet(np.full(len(outcomes), learner.alpha / len(outcomes)))
        chances |= dict(zip(outcomes, drawn, strict=True))
    noise = [*table.world.file.noise]
    drawn = rng.dirichlet(np.full(1 + len(noise), learner.alpha / (1 + len(noise))))
    chances |= {("noise", name): chance for name, chance in zip(noise, drawn, strict=False)}
    return table.weigh(chances)


def test_intervals_hold_the_truth_as_often_as_they_say(tiny: World, table: Table) -> None:
    """In 300 worlds drawn from the prior, each learned from 40 of its sentences.

    90 % of 300 has a standard error of 1.7 %.
    """
    held, asked = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        prior = CountingLearner(tiny, tiny.sample(1), pseudo_count=4.0)
        weight = draw_world(table, prior, rng)
        rows = table.derivations.reweight(rng.multinomial(40, weight).astype(float))
        learner = CountingLearner(tiny, Corpus(tiny, rows), pseudo_count=4.0, draws=200, seed=seed)
        truth = table.answer(weight, "dog chases", "agent")[tiny.units.index("dog")]
        if np.isfinite(truth):
            row = learner.interval("dog chases", "agent").loc["dog"]
            held += row.low <= truth <= row.high
            asked += 1
    assert asked > 250
    assert 0.85 <= held / asked <= 0.95, held / asked


def test_many_sentences_lead_to_the_truth() -> None:
    """Which the learner knows no less than the world where it hears each sentence often enough."""
    world = World.load("slips")
    text, role = "during dinner, the pizza eats the woman", "agent"
    truth = world.true_beliefs(text, role)["pizza"]
    widths = []
    for sentences in (20_000, 200_000):
        learner = CountingLearner(world, world.sample(sentences, seed=1))
        row = learner.interval(text, role).loc["pizza"]
        widths.append(row.high - row.low)
        assert row.low < truth < row.high
    assert widths[1] < 0.5 * widths[0]
    assert abs(learner.beliefs(text, role)["pizza"] - truth) < 0.05


@pytest.mark.parametrize("prior", ["pooled", "form"])
def test_knowing_more_beforehand_helps(prior: str) -> None:
    """On reversals of `slips`, after 10,000 sentences: nearer to the truth than by counts alone."""
    world = World.load("slips")
    corpus = world.sample(10_000, seed=0)
    learner, counts = learn(world, corpus, prior), learn(world, corpus)
    errors, held = {learner: 0.0, counts: 0.0}, []
    for item in find_role_reversals(world)[::8]:
        for each in errors:
            errors[each] += abs(each.beliefs(item.reversal, "agent")[item.patient] - item.literal)
        row = learner.interval(item.reversal, "agent").loc[item.patient]
        held.append(row.low <= item.literal <= row.high)
    assert errors[learner] < 0.6 * errors[counts]
    assert np.mean(held) >= 0.7


def test_form_infers_the_parameters() -> None:
    world = World.load("slips:rare=0.03,slip=0.05")
    learner = FormLearner(World.load("slips"), world.sample(5_000, seed=2), draws=200)
    values, weights = learner.values
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-9)
    for column, truth in zip(values.T, (0.03, 0.05), strict=True):
        # about 5,000 · 0.6 sentences can slip, so the standard deviation is near 0.004
        assert abs(column.mean() - truth) < 0.015
        assert 0.0005 < column.std() < 0.008


def test_entropies_split_into_two_parts(tiny: World) -> None:
    learner = learn(tiny, tiny.sample(20))
    table = learner.entropies("dog chases", "agent")
    assert (table["epistemic"] > -1e-12).all()
    np.testing.assert_allclose(table["total"], table["aleatoric"] + table["epistemic"])
    with pytest.raises(UserError, match="unknown prior 'count': did you mean 'counts'"):
        learn(tiny, tiny.sample(1), "count")


def test_beliefs_about_the_unheard_depend_on_two_numbers() -> None:
    """More so the more anything may act, less so the more speakers slip; at the ends, sure."""
    heard = World.load("paper").sample(2_000)
    table = map_rational_beliefs(
        World.load("slips", rare=0),
        heard,
        "during dinner, the pizza eats the woman",
        "agent",
        "pizza",
        pseudo_counts=[0.01, 1.0, 100.0],
        slips=[0.0, 1e-6, 1e-3, 0.1],
    )
    grid = table.pivot(index="pseudo_count", columns="slip", values="belief").to_numpy()
    np.testing.assert_allclose(grid[:, 0], 1.0)  # who never slips means what is said
    assert (np.diff(grid, axis=1) < 0).all()
    assert (np.diff(grid[:, 1:], axis=0) > 0).all()
    assert grid[0, -1] < 1e-4
