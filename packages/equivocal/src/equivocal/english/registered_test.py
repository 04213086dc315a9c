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
    Question,
    combine_members,
    compute_loss,
    list_comprehenders,
    predict_draws,
)
from equivocal.english.language_model import LanguageModel, Reading
from equivocal.english.query_network import Coverage, Inputs, Rows, collect_rows, pick_inputs
from equivocal.english.sentences import (
    OUTPUTS,
    TEST_CONSTRUCTIONS,
    Lexicon,
    Sentence,
    Surface,
    draw_sentences,
    load_items,
    load_world,
    spell_items,
)
from equivocal.progress import progress

MEASURES = ["nll", "information", "literal"]
PAIR = [OUTPUTS.index("agent"), OUTPUTS.index("patient")]
EVERY = 8  # of the draws, one is used where all readers are compared
WORD_BY_WORD = ("active", "passive", "subject cleft", "object cleft")
CENTRAL = (TRAINED, EXACT)  # at other shares and layers
SINGLE = ("temperature", "label smoothing", "ridge", "bagged ridge", "Gaussian posterior")
HELD_ALIKE = (*CENTRAL, *SINGLE)  # where like sentences are held out


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
    draws: pd.DataFrame  # doubt within and between readers, by network
    chosen_layer: int


Material: TypeAlias = tuple[list[Sentence], Reading]  # sentences, and how they are read


class _Laboratory:
    """The sentences of the test, as the language model reads them, and scores of answers."""

    def __init__(self, model: LanguageModel, settings: TestSettings) -> None:
        self.model, self.settings = model, settings
        self.surface = Surface.load()
        self.layer = 0  # until it is chosen

    def read(self, sentences: list[Sentence], *layers: int) -> Material:
        texts = [one.text for one in sentences]
        return sentences, self.model.read(texts, layers or self.settings.layers)

    def draw(
        self, share: float, size: int, seed: int, lexicon: Lexicon = "training"
    ) -> list[Sentence]:
        """Draw sentences of which a share is implausible."""
        world = load_world(impossible=share / 2, unlikely=share / 2)
        return draw_sentences(world, self.surface, size, seed, lexicon)

    @cached_property
    def pool(self) -> Material:
        return self.read(self.draw(self.settings.implausible, self.settings.pool, 1))

    @cached_property
    def held_out(self) -> Material:
        size = self.settings.held_out
        return self.read(self.draw(self.settings.implausible, size, 2, "held out"))

    @cached_property
    def test(self) -> Material:
        items = load_items()
        if self.settings.items is not None:
            items = items.groupby("kind", sort=False).head(self.settings.items)
        return self.read(spell_items(items, self.surface))

    def ask(self, seed: int, layer: int | None = None, fit: Rows | None = None) -> Question:
        """Return the question of a seed: its sentences of the pool, or other rows."""
        layer = layer or self.layer
        if fit is None:
            size = min(self.settings.sentences, self.settings.pool)
            chosen = np.random.default_rng(seed).permutation(self.settings.pool)[:size]
            rows = collect_rows(*self.pool, layer, seed=1)
            fit = rows.take(np.isin(rows.sentence, chosen))
        test = self.test_rows if layer == self.layer else collect_rows(*self.test, layer)
        return Question(fit, collect_rows(*self.held_out, layer, seed=2), test, seed)

    def choose_layer(self) -> None:
        """Choose the layer whose network has the least loss on held-out sentences."""
        losses = {}
        for layer in self.settings.layers:
            asked = self.ask(0, layer)
            answered = asked.network.predict(asked.features[1])
            losses[layer] = float(compute_loss(asked.held_out.targets, answered).mean())
        self.layer = min(losses, key=lambda layer: losses[layer])

    def score(self, asked: Question, names: Sequence[str]) -> pd.DataFrame:
        """Score some comprehenders of a question."""
        listed = list_comprehenders(asked)
        return pd.concat([self.tabulate(name, asked.seed, listed[name]()) for name in names])

    def tabulate(self, name: str, seed: Any, beliefs: Beliefs) -> pd.DataFrame:
        """Return the loss, the information and the literal reading of every sentence."""
        table = self.describe_rows(beliefs)
        means = table.groupby(["item", "kind", "construction"], sort=False)[MEASURES].mean()
        return means.reset_index().assign(comprehender=name, seed=str(seed))

    @cached_property
    def test_rows(self) -> Rows:
        return collect_rows(*self.test, self.layer)

    def describe_rows(self, beliefs: Beliefs) -> pd.DataFrame:
        """Return one row for each noun that was asked about, after the last word."""
        test = self.test_rows
        said = [self.test[0][number] for number in test.sentence]
        p, targets = beliefs.probability[:, PAIR], test.targets[:, PAIR]
        return pd.DataFrame(
            {
                "item": test.sentence // (2 * len(TEST_CONSTRUCTIONS)),
                "kind": [one.kind for one in said],
                "construction": [one.construction for one in said],
                "nll": compute_loss(targets, p).mean(axis=1),
                "information": beliefs.information[:, PAIR].mean(axis=1),
                "entropy": compute_loss(p, p).mean(axis=1),
                "literal": (p * targets).sum(axis=1),
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
    lab.choose_layer()
    drawn = {s: lab.read(lab.draw(s, settings.sentences, 3), lab.layer) for s in settings.shares}
    asked = [lab.ask(seed) for seed in range(settings.seeds)]
    answers: dict[str, list[Beliefs]] = {}
    like, shares = [], []
    with progress("registered test") as advance:
        for done, question in enumerate(asked, start=1):
            for name, answer in list_comprehenders(question).items():
                answers.setdefault(name, []).append(answer())
            like.append(lab.score(_hold_out_alike(question), HELD_ALIKE))
            for share, material in drawn.items():
                rows = collect_rows(*material, lab.layer, seed=1)
                scored = lab.score(lab.ask(question.seed, fit=rows), CENTRAL)
                shares.append(scored.assign(share=share))
            advance(done, settings.seeds, "seeds")
    layers = [lab.score(lab.ask(0, one), CENTRAL).assign(layer=one) for one in settings.layers]
    ensembles = {
        "ensemble of networks": combine_members([one.probability for one in answers[TRAINED]]),
        "ensemble of posteriors": _combine_posteriors(answers[EXACT]),
    }
    tables = [
        lab.tabulate(name, seed, beliefs)
        for name, each in answers.items()
        for seed, beliefs in enumerate(each)
    ]
    tables += [lab.tabulate(name, "all", beliefs) for name, beliefs in ensembles.items()]
    main = pd.concat(tables)
    alike = pd.concat(like)
    central = main[main["comprehender"].isin(CENTRAL)].assign(share=settings.implausible)
    held = [main.assign(held_out="new words"), alike.assign(held_out="like sentences")]
    return Trial(
        loss=_average(main, "seed"),
        like_rows=_average(alike, "seed"),
        shares=_average(pd.concat([*shares, central]), "seed", "share"),
        layers=_average(pd.concat(layers), "seed", "layer"),
        sentences=_average(pd.concat(held), "held_out", "item"),
        rows=_tabulate_doubts(lab, asked, answers),
        words=_read_word_by_word(lab, asked),
        draws=_measure_readers(asked),
        chosen_layer=lab.layer,
    )


def _average(sentences: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Average over everything but these columns, the comprehender, the kind and construction."""
    keys = ["comprehender", *more, "kind", "construction"]
    return sentences.groupby(keys, sort=False)[MEASURES].mean().reset_index()


def _hold_out_alike(asked: Question) -> Question:
    """Return the question where a sixth of its own sentences is held out."""
    held = np.isin(asked.fit.sentence, np.unique(asked.fit.sentence)[::6])
    return Question(asked.fit.take(~held), asked.fit.take(held), asked.test, asked.seed)


def _combine_posteriors(answers: list[Beliefs]) -> Beliefs:
    """Average posteriors; the information is that of all their draws together."""
    between = combine_members([one.probability for one in answers])
    within = np.mean([one.information for one in answers], axis=0)
    return Beliefs(between.probability, between.information + within)


def _tabulate_doubts(
    lab: _Laboratory, asked: list[Question], answers: dict[str, list[Beliefs]]
) -> pd.DataFrame:
    """Return one row per question and seed: was the posterior wrong, and what doubted it?"""
    between = combine_members([one.probability for one in answers[TRAINED]])
    parts = []
    for number, question in enumerate(asked):
        network = question.network
        coverage = Coverage.fit(network.project(question.fit.inputs))
        table = lab.describe_rows(answers[EXACT][number]).assign(
            seed=question.seed,
            distance=coverage.measure(network.project(question.test.inputs)),
            ensemble=between.information[:, PAIR].mean(axis=1),
            bagged=answers["bagged ridge"][number].information[:, PAIR].mean(axis=1),
        )
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _predict(question: Question, inputs: Inputs) -> np.ndarray:
    """Return the probabilities by some draws of the exact posterior, (J, N, K)."""
    particles = question.exact.particles[:, ::EVERY]
    return predict_draws(particles, question.network.compute_features(inputs))


def _measure_readers(asked: list[Question]) -> pd.DataFrame:
    """Measure how often two answers of one reader differ (w), and those of two readers (b).

    A reader is a draw of the posterior of a network; readers are those of all networks together.
    """
    every = {f"readers of network {q.seed}": _predict(q, q.test.inputs) for q in asked}
    every["readers of all networks"] = np.concatenate(list(every.values()))
    rows = []
    for name, p in every.items():
        mean = p[..., PAIR].mean(axis=0)
        w, b = ((2 * one * (1 - one)).mean() for one in (p[..., PAIR], mean))
        rows.append({"readers": name, "w": w, "b": b, "ratio": w / b})
    return pd.DataFrame(rows)


def _read_word_by_word(lab: _Laboratory, asked: list[Question]) -> pd.DataFrame:
    """Ask about the first noun after every word, averaged over items and seeds."""
    about = []
    sentences, reading = lab.test
    for number, sentence in enumerate(sentences):
        if sentence.construction in WORD_BY_WORD:
            first, begins = min(sentence.roles), int(reading.edges[number])
            role = OUTPUTS.index(sentence.roles[first])
            for after in range(first, len(sentence.words)):
                keys = sentence.kind, sentence.construction, after
                about.append((*keys, role, begins + after, begins + first))
    columns = ["kind", "construction", "position", "role", "place", "probe"]
    table = pd.DataFrame(about, columns=columns)
    places = table["place"].tolist(), table["probe"].tolist()
    inputs = pick_inputs(reading, lab.layer, *places)
    rows, parts = np.arange(len(table)), []
    for question in asked:
        beliefs = combine_members(list(_predict(question, inputs)))
        parts.append(
            table.assign(
                literal=beliefs.probability[rows, table["role"]],
                information=beliefs.information[:, PAIR].mean(axis=1),
            )
        )
    by = ["kind", "construction", "position"]
    means = pd.concat(parts).groupby(by, sort=False)[["literal", "information"]].mean()
    return means.reset_index()
