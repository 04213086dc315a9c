"""The registered test (`data/registration.md`): who understands sentences that no one would say?

Training sentences, held-out sentences and items share no noun and no verb, and two constructions of
the items are never trained on. Every seed draws its sentences from a common pool, trains a query
network and gives it to every comprehender; layers are chosen by held-out sentences. What was asked,
and what would count against us, was written down before; `findings` answers it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from equivocal.english.comprehenders import (
    EXACT,
    TRAINED,
    Beliefs,
    SMOOTHING,
    Question,
    choose_variance,
    combine_members,
    compute_loss,
    list_comprehenders,
    sample_exactly,
)
from equivocal.english.language_model import LanguageModel, Reading
from equivocal.english.query_network import (
    Inputs,
    QueryNetwork,
    Rows,
    collect_rows,
    pick_inputs,
    train_network,
)
from equivocal.english.sentences import (
    OUTPUTS,
    ROLES,
    Sentence,
    TEST_CONSTRUCTIONS,
    Surface,
    TruthTable,
    draw_sentences,
    load_items,
    load_world,
    spell_items,
)
from equivocal.progress import progress

__all__ = ["MEASURES", "TestSettings", "Trial", "run_trial"]

MEASURES = ("nll", "information", "literal")
AGENT, PATIENT = OUTPUTS.index("agent"), OUTPUTS.index("patient")
TRUTH_SENTENCES = 300  # held-out sentences whose beliefs are compared with the exact ones
WORD_BY_WORD = ("active", "passive", "subject cleft", "object cleft")
HELD_ALIKE = (
    TRAINED,
    "temperature",
    "label smoothing",
    "ridge",
    "bagged ridge",
    "Gaussian posterior",
    EXACT,
)  # where like sentences are held out
CENTRAL = (TRAINED, EXACT)  # at other shares and layers


@dataclass(frozen=True, kw_only=True)
class TestSettings:
    """The sizes of the test; the registered ones are the defaults."""

    __test__ = False  # no test of pytest
    sentences: int = 4_000  # of each seed
    pool: int = 8_000  # from which they are drawn
    held_out: int = 1_500
    seeds: int = 5
    layers: tuple[int, ...] = (12, 16, 20, 24)
    implausible: float = 0.1  # share of impossible and unlikely events, half of each
    shares: tuple[float, ...] = (0.0, 0.25, 0.5)  # further ones
    items: int | None = None  # of each kind; None: all

    @classmethod
    def make_quick(cls, layers: tuple[int, ...]) -> "TestSettings":
        """Return settings that only check that the command works."""
        return cls(
            sentences=150, pool=200, held_out=80, seeds=2, layers=layers, shares=(0.5,), items=3
        )


@dataclass(frozen=True, eq=False)
class Trial:
    """The tables of a test, one row per comprehender, seed, kind and construction unless said."""

    loss: pd.DataFrame
    like_rows: pd.DataFrame  # the same, where like sentences were held out in place of others
    shares: pd.DataFrame  # the same, by share of implausible training sentences
    layers: pd.DataFrame
    sentences: pd.DataFrame  # of every sentence, the means over seeds, by hold-out
    rows: pd.DataFrame  # one row per question of the test, with the doubts about it
    words: pd.DataFrame  # word by word
    draws: pd.DataFrame  # doubt within and between readers, by kind and seed
    truth: pd.DataFrame  # the error of beliefs after each word, against the exact ones
    chosen_layer: int


@dataclass(frozen=True, eq=False)
class _Material:
    """Sentences with what the language model made of them."""

    sentences: list[Sentence]
    reading: Reading

    @classmethod
    def read(
        cls, model: LanguageModel, sentences: list[Sentence], layers: Sequence[int]
    ) -> "_Material":
        return cls(sentences, model.read([one.text for one in sentences], layers))

    def collect(self, layer: int, seed: int | None = None) -> Rows:
        return collect_rows(self.sentences, self.reading, layer, seed=seed)


Asked: TypeAlias = tuple[Question, dict[str, Beliefs]]


class _Laboratory:
    """Everything that the parts of the test share."""

    def __init__(self, model: LanguageModel, settings: TestSettings) -> None:
        self.model, self.settings = model, settings
        self.surface = Surface.load()
        items = load_items()
        if settings.items is not None:
            items = items.groupby("kind", sort=False).head(settings.items)
        self.items = items
        self.spelled = spell_items(items, self.surface)

    def draw(self, share: float, size: int, seed: int, lexicon: Any = "training") -> list[Sentence]:
        """Draw sentences of which a share is implausible."""
        world = load_world(impossible=share / 2, unlikely=share / 2)
        return draw_sentences(world, self.surface, size, seed, lexicon)

    @cached_property
    def pool(self) -> _Material:
        drawn = self.draw(self.settings.implausible, self.settings.pool, 1)
        return _Material.read(self.model, drawn, self.settings.layers)

    @cached_property
    def held_out(self) -> _Material:
        drawn = self.draw(self.settings.implausible, self.settings.held_out, 2, "held out")
        return _Material.read(self.model, drawn, self.settings.layers)

    @cached_property
    def test(self) -> _Material:
        return _Material.read(self.model, self.spelled, self.settings.layers)

    def choose_sentences(self, seed: int) -> np.ndarray:
        """Return which sentences of the pool are those of a seed."""
        size = min(self.settings.sentences, self.settings.pool)
        return np.random.default_rng(seed).permutation(self.settings.pool)[:size]

    def ask(self, fit: Rows, held_out: Rows, test: Rows, seed: int, *names: str) -> Asked:
        """Train the networks of a seed, and return what its comprehenders answer."""
        network = train_network(fit, held_out, seed)
        smoothed = network
        if not names or "label smoothing" in names:
            smoothed = train_network(fit, held_out, seed, smoothing=SMOOTHING)
        question = Question(network, smoothed, fit, held_out, test, seed)
        listed = list_comprehenders(question)
        return question, {name: listed[name]() for name in names or listed}

    def score(self, name: str, seed: Any, beliefs: Beliefs, test: Rows) -> pd.DataFrame:
        """Return the loss, the information and the literal reading of every sentence."""
        table = self.describe_rows(beliefs, test)
        keys = ["item", "kind", "construction"]
        means = table.groupby(keys, sort=False)[list(MEASURES)].mean().reset_index()
        return means.assign(comprehender=name, seed=str(seed))

    def describe_rows(self, beliefs: Beliefs, test: Rows) -> pd.DataFrame:
        """Return one row for each noun that was asked about, after the last word."""
        pair = [AGENT, PATIENT]
        said = [self.spelled[number] for number in test.sentence]
        p, targets = beliefs.probability[:, pair], test.targets[:, pair]
        literal = np.where(targets > 0.5, p, np.nan)
        return pd.DataFrame(
            {
                "item": test.sentence // (2 * len(TEST_CONSTRUCTIONS)),
                "kind": [one.kind for one in said],
                "construction": [one.construction for one in said],
                "nll": compute_loss(targets, p).mean(axis=1),
                "information": beliefs.information[:, pair].mean(axis=1),
                "entropy": compute_loss(p, p).mean(axis=1),
                "literal": np.nanmean(literal, axis=1),
                "wrong": ((p > 0.5) != (targets > 0.5)).any(axis=1).astype(float),
            }
        )


def run_trial(model: LanguageModel, settings: TestSettings) -> Trial:
    """Run the whole test.

    Parameters
    ----------
    model : LanguageModel
        The language model; what it reads is cached.
    settings : TestSettings
        The sizes.
    """
    lab = _Laboratory(model, settings)
    layer = _choose_layer(lab)
    seeds = range(settings.seeds)
    with progress("registered test") as advance:
        total = settings.seeds * (2 + len(settings.shares)) + len(settings.layers)
        done = 0

        def tick(what: str) -> None:
            nonlocal done
            done += 1
            advance(done, total, what)

        asked: list[Question] = []
        answers: dict[str, list[Beliefs]] = {}
        parts, like = [], []
        for seed in seeds:
            fit, test = _collect(lab, layer, seed)
            held_out = lab.held_out.collect(layer, seed=2)
            question, answered = lab.ask(fit, held_out, test, seed)
            asked.append(question)
            for name, beliefs in answered.items():
                answers.setdefault(name, []).append(beliefs)
                parts.append(lab.score(name, seed, beliefs, test))
            tick(f"seed {seed}")
            like.append(_compare_hold_outs(lab, fit, test, seed))
            tick(f"seed {seed}, like sentences held out")
        test = asked[0].test
        ensembles = {
            "ensemble of networks": combine_members([b.probability for b in answers[TRAINED]]),
            "ensemble of posteriors": _combine_posteriors(answers[EXACT]),
        }
        parts += [lab.score(name, "all", beliefs, test) for name, beliefs in ensembles.items()]
        shares = []
        for share in settings.shares:
            shares += [one.assign(share=share) for one in _run_share(lab, layer, share, tick)]
        layers = []
        for other in settings.layers:
            layers.append(_score_central(lab, other, 0).assign(layer=other))
            tick(f"layer {other}")
    said = pd.concat([one.assign(held_out="new words") for one in parts])
    said = pd.concat([said, *(one.assign(held_out="like sentences") for one in like)])
    central = pd.concat(parts).query("comprehender in @CENTRAL")
    shares.append(central.assign(share=settings.implausible))
    posteriors = [_sample(one) for one in asked]
    return Trial(
        loss=_average_items(pd.concat(parts)),
        like_rows=_average_items(pd.concat(like)),
        shares=_average_items(pd.concat(shares), "share"),
        layers=_average_items(pd.concat(layers), "layer"),
        sentences=_average_seeds(said),
        rows=_tabulate_doubts(lab, asked, answers, ensembles),
        words=_read_word_by_word(lab, layer, asked, posteriors),
        draws=_measure_readers(lab, asked, posteriors),
        truth=_compare_with_truth(lab, layer, asked, posteriors),
        chosen_layer=layer,
    )


def _average_items(sentences: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Average over items: one row for each comprehender, seed, kind and construction."""
    keys = ["comprehender", "seed", *more, "kind", "construction"]
    return sentences.groupby(keys, sort=False)[list(MEASURES)].mean().reset_index()


def _average_seeds(sentences: pd.DataFrame) -> pd.DataFrame:
    keys = ["comprehender", "held_out", "item", "kind", "construction"]
    return sentences.groupby(keys, sort=False)[list(MEASURES)].mean().reset_index()


def _collect(lab: _Laboratory, layer: int, seed: int) -> tuple[Rows, Rows]:
    """Return the rows of a seed's sentences, and those of the test."""
    rows = lab.pool.collect(layer, seed=1)
    return rows.take(np.isin(rows.sentence, lab.choose_sentences(seed))), lab.test.collect(layer)


def _choose_layer(lab: _Laboratory) -> int:
    """Choose the layer whose network has the least loss on held-out sentences."""
    losses = {}
    for layer in lab.settings.layers:
        rows = lab.pool.collect(layer, seed=1)
        fit = rows.take(np.isin(rows.sentence, lab.choose_sentences(0)))
        held_out = lab.held_out.collect(layer, seed=2)
        network = train_network(fit, held_out, 0)
        answered = network.predict(network.compute_features(held_out.inputs))
        losses[layer] = compute_loss(held_out.targets, answered).mean()
    return min(losses, key=lambda layer: losses[layer])


def _compare_hold_outs(lab: _Laboratory, fit: Rows, test: Rows, seed: int) -> pd.DataFrame:
    """Score the comprehenders where a sixth of the same sentences is held out."""
    held = np.isin(fit.sentence, np.unique(fit.sentence)[::6])
    _, answered = lab.ask(fit.take(~held), fit.take(held), test, seed, *HELD_ALIKE)
    return pd.concat([lab.score(name, seed, one, test) for name, one in answered.items()])


def _run_share(lab: _Laboratory, layer: int, share: float, tick: Any) -> list[pd.DataFrame]:
    """Score comprehenders that are trained with another share of implausible sentences."""
    drawn = lab.draw(share, lab.settings.sentences, 3)
    rows = _Material.read(lab.model, drawn, [layer]).collect(layer, seed=1)
    held_out, test = lab.held_out.collect(layer, seed=2), lab.test.collect(layer)
    parts = []
    for seed in range(lab.settings.seeds):
        _, answered = lab.ask(rows, held_out, test, seed, *CENTRAL)
        parts += [lab.score(name, seed, one, test) for name, one in answered.items()]
        tick(f"{share:.0%} implausible, seed {seed}")
    return parts


def _score_central(lab: _Laboratory, layer: int, seed: int) -> pd.DataFrame:
    fit, test = _collect(lab, layer, seed)
    held_out = lab.held_out.collect(layer, seed=2)
    _, answered = lab.ask(fit, held_out, test, seed, *CENTRAL)
    return pd.concat([lab.score(name, seed, one, test) for name, one in answered.items()])


def _combine_posteriors(answers: list[Beliefs]) -> Beliefs:
    """Average posteriors; the information is that of all their draws together."""
    between = combine_members([one.probability for one in answers])
    within = np.mean([one.information for one in answers], axis=0)
    return Beliefs(between.probability, between.information + within)


def _sample(question: Question) -> tuple[QueryNetwork, np.ndarray]:
    """Return a network with the draws of its exact posterior, (K, J, D)."""
    network = question.network
    psi, held = (network.compute_features(r.inputs) for r in (question.fit, question.held_out))
    variance = choose_variance(psi, question.fit.targets, held, question.held_out.targets)
    return network, sample_exactly(psi, question.fit.targets, variance, question.seed).particles


def _draw_beliefs(posterior: tuple[QueryNetwork, np.ndarray], inputs: Inputs) -> np.ndarray:
    """Return the probabilities by every draw, (J, N, K)."""
    network, particles = posterior
    logits = np.einsum("kjd,nd->jnk", particles, network.compute_features(inputs), optimize=True)
    p: np.ndarray = 1 / (1 + np.exp(-logits))
    return p


def measure_distance(network: QueryNetwork, fit: Inputs, inputs: Inputs) -> np.ndarray:
    """Return the Mahalanobis distance of the states from those of the fit, (N,)."""
    x, new = network.projection.apply(fit), network.projection.apply(inputs)
    mean = x.mean(axis=0)
    covariance = np.cov(x.T) + 0.01 * np.eye(x.shape[1])
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (new - mean).T)
    distance: np.ndarray = np.sqrt((whitened**2).mean(axis=0))
    return distance


def _tabulate_doubts(
    lab: _Laboratory,
    asked: list[Question],
    answers: dict[str, list[Beliefs]],
    ensembles: dict[str, Beliefs],
) -> pd.DataFrame:
    """Return one row per question and seed: was the posterior wrong, and what doubted it?"""
    parts = []
    between = ensembles["ensemble of networks"].information[:, [AGENT, PATIENT]].mean(axis=1)
    for question, exact, bagged in zip(
        asked, answers[EXACT], answers["bagged ridge"], strict=True
    ):
        distance = measure_distance(question.network, question.fit.inputs, question.test.inputs)
        table = lab.describe_rows(exact, question.test).assign(
            seed=question.seed,
            distance=distance,
            ensemble=between,
            bagged=bagged.information[:, [AGENT, PATIENT]].mean(axis=1),
        )
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _measure_readers(
    lab: _Laboratory, asked: list[Question], posteriors: list[tuple[QueryNetwork, np.ndarray]]
) -> pd.DataFrame:
    """Measure how often two answers of one reader differ (w), and those of two readers (b).

    A reader is a draw of the posterior of a network; readers are those of all networks together.
    """
    test = asked[0].test
    kinds = np.array([lab.spelled[number].kind for number in test.sentence])
    every = [_draw_beliefs(p, q.test.inputs)[::8] for p, q in zip(posteriors, asked, strict=True)]
    parts = {f"readers of network {q.seed}": p for q, p in zip(asked, every, strict=True)}
    parts["readers of all networks"] = np.concatenate(every)
    rows = []
    for name, p in parts.items():
        pair = p[..., [AGENT, PATIENT]]
        within = (2 * pair * (1 - pair)).mean(axis=(0, 2))
        mean = pair.mean(axis=0)
        between = (2 * mean * (1 - mean)).mean(axis=1)
        for kind in dict.fromkeys(kinds):
            w, b = within[kinds == kind].mean(), between[kinds == kind].mean()
            rows.append({"readers": name, "kind": kind, "w": w, "b": b, "ratio": w / b})
        w, b = within.mean(), between.mean()
        rows.append({"readers": name, "kind": "all", "w": w, "b": b, "ratio": w / b})
    return pd.DataFrame(rows)


def _read_word_by_word(
    lab: _Laboratory,
    layer: int,
    asked: list[Question],
    posteriors: list[tuple[QueryNetwork, np.ndarray]],
) -> pd.DataFrame:
    """Ask about the first noun after every word, averaged over items and seeds."""
    place, probe, about = [], [], []
    for number, sentence in enumerate(lab.spelled):
        if sentence.construction not in WORD_BY_WORD:
            continue
        first = min(sentence.roles)
        begins = int(lab.test.reading.edges[number])
        for after in range(first, len(sentence.words)):
            place.append(begins + after)
            probe.append(begins + first)
            role = OUTPUTS.index(sentence.roles[first])
            about.append((sentence.kind, sentence.construction, after, role))
    inputs = pick_inputs(lab.test.reading, layer, place, probe)
    table = pd.DataFrame(about, columns=["kind", "construction", "position", "role"])
    rows = np.arange(len(table))
    parts = []
    for question, posterior in zip(asked, posteriors, strict=True):
        beliefs = combine_members(list(_draw_beliefs(posterior, inputs)[::8]))
        trained = question.network.predict(question.network.compute_features(inputs))
        parts.append(
            table.assign(
                literal=beliefs.probability[rows, table["role"]],
                trained=trained[rows, table["role"]],
                information=beliefs.information[:, [AGENT, PATIENT]].mean(axis=1),
                surprisal=lab.test.reading.surprisal[place],
            )
        )
    keys = ["kind", "construction", "position"]
    means = pd.concat(parts).groupby(keys, sort=False).mean().drop(columns="role")
    return means.reset_index()


def _compare_with_truth(
    lab: _Laboratory,
    layer: int,
    asked: list[Question],
    posteriors: list[tuple[QueryNetwork, np.ndarray]],
) -> pd.DataFrame:
    """Compare beliefs after each word of held-out sentences with the exact ones of the world."""
    share = lab.settings.implausible / 2
    truth = TruthTable(load_world(impossible=share, unlikely=share), lab.surface)
    place, probe, rows = [], [], []
    for number, sentence in enumerate(lab.held_out.sentences[:TRUTH_SENTENCES]):
        begins = int(lab.held_out.reading.edges[number])
        names = [name for name in sentence.parts if name]
        same = any(name.endswith("participle") for name in names)
        for after in range(min(sentence.roles), len(sentence.parts)):
            heard = [name for name in sentence.parts[: after + 1] if name]
            beliefs = truth.compute_beliefs(heard, same_forms=same).to_numpy()
            at = [k for k, name in enumerate(sentence.parts[: after + 1]) if name]
            for word in (word for word in sentence.roles if word <= after):
                place.append(begins + after)
                probe.append(begins + word)
                ends = after == len(sentence.parts) - 1
                rows.append((ends, len(sentence.parts) - 1 - after, *beliefs[at.index(word)]))
    exact = np.array(rows, float)
    inputs = pick_inputs(lab.held_out.reading, layer, place, probe)
    known = np.isfinite(exact).all(axis=1)
    parts = []
    for question, posterior in zip(asked, posteriors, strict=True):
        network = question.network
        answered = {
            TRAINED: network.predict(network.compute_features(inputs)),
            EXACT: _draw_beliefs(posterior, inputs).mean(axis=0),
        }
        for name, p in answered.items():
            belief = p[:, : len(ROLES)]
            extra = compute_loss(exact[:, 2:], belief) - compute_loss(exact[:, 2:], exact[:, 2:])
            table = pd.DataFrame(
                {
                    "when": np.where(exact[:, 0] > 0, "after the last word", "before"),
                    "error": extra.mean(axis=1),
                    "distance": np.abs(belief - exact[:, 2:]).mean(axis=1),
                }
            )[known]
            means = table.groupby("when").mean().reset_index()
            parts.append(means.assign(comprehender=name, seed=question.seed))
    return pd.concat(parts, ignore_index=True)[
        ["comprehender", "seed", "when", "error", "distance"]
    ]
