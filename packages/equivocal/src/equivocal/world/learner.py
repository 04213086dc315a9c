"""How much doubt sentences warrant: a learner who counts what it heard, with the meaning.

The learner knows the roles, constructions and kinds of noise of a world, and none of its
probabilities. It chooses fillers role by role, the action first, each given all before it:

    P(event) = Π_r P(f_r | f_1 … f_{r−1}),   every factor with a Dirichlet prior of total α

spread evenly over the words that may fill the role at all, in any event: words that were never
heard there are among them. What agents and patients may be, they share, so that anything may act.
The construction given the action, whether a role is mentioned, and each noise have such priors too.
Counts of the corpus update them. Each choice is used at most once in a term (`world.hearing`), so
the expectation of a product is the product of posterior means, and predictions are exact; their
spread is that of the same sums for draws of all choices. Two approximations, in the spread alone:
a noise with several places in a sentence counts each, and where more than `MOST_DRAWS` numbers
would be needed, contexts that were never heard keep their means.
"""

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equivocal.world.corpus import Corpus
from equivocal.world.errors import ImpossibleSentenceError
from equivocal.world.grammar import NO_FILLER
from equivocal.world.hearing import SAID, SKIPPED, Term, list_terms
from equivocal.world.spelling import Utterance
from equivocal.world.world import World
from lastlayer.errors import check_known

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CountingLearner", "Learner"]

Array = NDArray[np.float64]
MOST_DRAWS = 200_000
FEWEST = 1e-300  # below the least gamma variate that counts


class Learner:
    """A listener with beliefs and their spread; `_draw` says how beliefs are drawn."""

    def __init__(self, world: World, *, draws: int = 400, seed: int = 0) -> None:
        self.world, self.draws, self.seed = world, draws, seed

    def beliefs(self, text: str | Utterance, role: str) -> "pd.Series[float]":
        """Return P(unit | words so far, role asked), averaged over what is not known for sure."""
        return self._label(self.believe(text, role, None).T, [role])[role]

    def members(self, text: str | Utterance, role: str) -> Array:
        """Return (draws, units): the beliefs of learners drawn from the posterior."""
        return self.believe(text, role, self.draws)

    def interval(self, text: str | Utterance, role: str, level: float = 0.9) -> "pd.DataFrame":
        """Return the central interval of each belief over the posterior: low, high."""
        return self._label(self.bound(text, role, level)[1:].T, ["low", "high"])

    def bound(self, text: str | Utterance, role: str, level: float = 0.9) -> Array:
        """Return (3, units): each belief, and the ends of its central interval."""
        ends = [(1 - level) / 2, (1 + level) / 2]
        drawn = self.believe(text, role, self.draws)
        return np.concatenate([self.believe(text, role, None), np.quantile(drawn, ends, axis=0)])

    def entropies(self, text: str | Utterance, role: str) -> "pd.DataFrame":
        """Return total, aleatoric and epistemic uncertainty of each unit, in nats."""
        from scipy.special import entr

        members = self.members(text, role)
        mean = members.mean(axis=0)
        total = entr(mean) + entr(1 - mean)
        within = (entr(members) + entr(1 - members)).mean(axis=0)
        parts = np.column_stack([total, within, total - within])
        return self._label(parts, ["total", "aleatoric", "epistemic"])

    def _label(self, values: Array, columns: list[str]) -> "pd.DataFrame":
        """Return values with a row for each unit as a table."""
        import pandas as pd

        return pd.DataFrame(values, pd.Index(self.world.units, name="unit"), columns)

    def believe(self, text: str | Utterance, role: str, draws: int | None) -> Array:
        """Return beliefs as (draws, units); without draws (1, units), of the posterior means."""
        check_known(role, self.world.roles, "role", f"world {self.world.name!r}: ")
        utterance = self.world.parse(text)
        units, total = self._weigh(utterance, self.world.roles.index(role), draws)
        if not (total > 0).all():
            raise ImpossibleSentenceError(
                f"no construction of world {self.world.name!r} begins with {str(utterance)!r} and "
                f"has a role {role!r}; ask for another role, or another sentence."
            )
        return np.asarray(units / total[:, None])

    def _weigh(self, text: Utterance, role: int, draws: int | None) -> tuple[Array, Array]:
        """Return the weight of each unit in the answer, and of all answers: P(words, answer)."""
        raise NotImplementedError


class CountingLearner(Learner):
    """A learner with a Dirichlet prior of total `pseudo_count` for every choice."""

    def __init__(
        self,
        world: World,
        corpus: Corpus,
        *,
        pseudo_count: float = 1.0,
        noise: float | None = None,  # a known probability of each kind of noise
        **options: Any,
    ) -> None:
        super().__init__(world, **options)
        self.alpha, self.known_noise = pseudo_count, noise
        action = world.grammar.action_role
        others = [role for role in range(len(world.roles)) if role != action]
        self.order = [action, *others]
        rows = corpus.distinct().derivations
        self.rows = rows.take(np.flatnonzero(rows.weight > 0))
        self._text: Utterance | None = None  # asked last, and its choices by the number of draws
        self._choices: dict[int | None, _Choices] = {}
        # fillers of the roles so far: counts of those of the next role
        self.heard: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        fillers = self.rows.fillers[:, self.order].tolist()
        for event, weight in zip(map(tuple, fillers), self.rows.weight.tolist(), strict=True):
            for place, word in enumerate(event):
                self.heard[event[:place]][word] += weight

    @cached_property
    def support(self) -> list[NDArray[np.intp]]:
        """The words that may fill each role, in any event; -1 where the event may lack it."""
        grammar, roles = self.world.grammar, self.world.roles
        support = [grammar.collect_fillers(role) for role in range(len(roles))]
        nouns = [roles.index(role) for role in ("agent", "patient") if role in roles]
        for role in range(len(roles)):
            for other in range(len(roles)):
                if support[role] & support[other] or {role, other} <= set(nouns):
                    support[role] = support[other] = support[role] | support[other]
        for role in range(len(roles)):
            rules = [dict(action.choices).get(role) for action in grammar.actions]
            absent = any(
                choices is None or any(NO_FILLER in choice.fillers for choice in choices)
                for choices in rules
            )
            if role != grammar.action_role and absent:
                support[role] = support[role] | {NO_FILLER}
        return [np.array(sorted(words), dtype=np.intp) for words in support]

    # ---- choices other than fillers: a Beta or Dirichlet each

    @cached_property
    def _meant(self) -> NDArray[np.int32]:
        """The construction in which each row was meant."""
        meant = self.rows.construction.copy()
        for each in self.world.grammar.disturbances:
            meant[self.rows.construction == each.heard] = each.meant
        return meant

    def count_mentions(self, construction: int, role: int) -> tuple[float, float] | float:
        """Count how often a role was said and left unsaid; a fixed probability is returned."""
        known = float(self.world.grammar.constructions[construction].mentioned[role])
        if known in (0.0, 1.0):
            return known
        rows = (self._meant == construction) & (self.rows.fillers[:, role] != NO_FILLER)
        said = float(self.rows.weight[rows & self.rows.said[:, role]].sum())
        return said, float(self.rows.weight[rows].sum()) - said

    def count_noise(self, name: str) -> tuple[float, float]:
        """Count the sentences that a noise struck, and those that it could have."""
        grammar, struck, possible = self.world.grammar, 0.0, 0.0
        for each in grammar.disturbances:
            if grammar.constructions[each.heard].noise == name:
                fits = self._meant == each.meant
                for role, words in each.needs:
                    fits &= self.rows.said[:, role] & words[self.rows.fillers[:, role]]
                possible += float(self.rows.weight[fits].sum())
                heard = self.rows.construction == each.heard
                struck += float(self.rows.weight[heard].sum())
        return struck, possible - struck

    def count_constructions(self, action: int) -> tuple[NDArray[np.intp], Array]:
        """Return the constructions that an action may have, and how often it had each."""
        grammar = self.world.grammar
        shares = [each.shares for each in grammar.actions if each.word == action]
        fits = np.flatnonzero(np.sum(shares, axis=0) > 0)
        rows = self.rows.fillers[:, grammar.action_role] == action
        heard = np.bincount(self._meant[rows], self.rows.weight[rows], len(grammar.constructions))
        return fits, heard[fits].astype(np.float64)

    def count_fillers(self, place: int, path: tuple[int, ...]) -> Array:
        """Count each word of the support of a place of the order, after the fillers in `path`."""
        counts = self.heard.get(path, Counter())
        return np.array([counts[word] for word in self.support[self.order[place]].tolist()], float)

    # ---- sums over what may have been meant

    def choose_fillers(self, choices: "_Choices", path: tuple[int, ...], counts: Array) -> Array:
        """Return (draws, words of the support): the role after those in `path`, heard so often."""
        return choices.dirichlet((4, *path), counts + self.alpha / len(counts))

    def _weigh(self, text: Utterance, role: int, draws: int | None) -> tuple[Array, Array]:
        world, grammar = self.world, self.world.grammar
        if self._text != text:
            self._text, self._choices = text, {}
        choices = self._choices.setdefault(draws, _Choices(self, draws))  # as for other roles
        shape = 1 if draws is None else draws
        units, total = np.zeros((shape, len(world.units))), np.zeros(shape)
        for term in list_terms(grammar, world.encode(text)):
            by_filler = _Sum(self, choices, term, role).compute()  # (draws, words + 1)
            if term.noise:
                by_filler = by_filler * choices.noise(term.noise)[:, None]
            construction = grammar.constructions[term.construction]
            meaning = world.lexicon.features | grammar.added_features[construction.adds[role]]
            weight = term.factor * by_filler[:, :-1]  # whoever lacks the role is not asked for it
            units += weight @ meaning.astype(float)
            total += weight.sum(axis=1)
        units[:, role] = total
        return units, total


class _Choices:
    """Posterior means of all choices, or draws of them, the same whenever they are asked for."""

    def __init__(self, learner: CountingLearner, draws: int | None) -> None:
        self.learner, self.draws = learner, draws
        self.made: dict[tuple[int, ...], Array] = {}

    def dirichlet(self, key: tuple[int, ...], alpha: Array, inner: tuple[int, ...] = ()) -> Array:
        """Return (draws, *inner, n), by key; α may differ between draws."""
        if self.draws is None:
            mean = alpha / alpha.sum(axis=-1, keepdims=True)
            return np.broadcast_to(np.atleast_2d(mean), (1, *inner, alpha.shape[-1]))
        if key not in self.made:
            entropy = [self.learner.seed, *(part + 1 for part in key)]  # NO_FILLER is -1
            rng = np.random.default_rng(entropy)
            size = (self.draws, *inner, alpha.shape[-1])
            drawn = rng.standard_gamma(alpha, size) + FEWEST
            self.made[key] = drawn / drawn.sum(axis=-1, keepdims=True)
        return self.made[key]

    def beta(self, key: tuple[int, ...], yes: float, no: float, outcomes: int = 2) -> Array:
        """Return (draws,): the first outcome's probability, with pseudo-counts of α / outcomes."""
        share = self.learner.alpha / outcomes
        return self.dirichlet(key, np.array([yes + share, no + share * (outcomes - 1)]))[:, 0]

    def noise(self, name: str) -> Array:
        """Return the probability of a noise; in draws, those of all noises sum to at most 1."""
        if self.learner.known_noise is not None:
            return np.array([self.learner.known_noise])
        names = [*self.learner.world.file.noise]
        outcomes = 1 + len(names)  # one noise, or none
        drawn = {
            each: self.beta((1, *each.encode()), *self.learner.count_noise(each), outcomes)
            for each in names
        }
        return np.asarray(drawn[name] / np.maximum(1.0, sum(drawn.values())))

    def mention(self, construction: int, role: int) -> Array | float:
        """Return the probability that a role is put into words."""
        counts = self.learner.count_mentions(construction, role)
        if isinstance(counts, float):
            return counts
        return self.beta((2, construction, role), *counts)

    def construction(self, action: int, number: int) -> Array | float:
        """Return the probability of a construction, given the action."""
        fits, counts = self.learner.count_constructions(action)
        if number not in fits:
            return 0.0
        alpha = counts + self.learner.alpha / len(fits)
        return self.dirichlet((3, action), alpha)[:, int(np.searchsorted(fits, number))]


class _Sum:
    """The sum of one term over all events, by the filler of the role that is asked for."""

    def __init__(self, learner: CountingLearner, choices: _Choices, term: Term, asked: int) -> None:
        self.learner, self.choices, self.term = learner, choices, term
        self.asked = learner.order.index(asked)
        self.size = len(learner.world.lexicon.words) + 1
        self.shape = 1 if choices.draws is None else choices.draws
        self.factors = [self._build_factor(role) for role in learner.order]
        relevant = [place for place, factor in enumerate(self.factors) if factor is not None]
        self.last = max([*relevant, self.asked])

    def _build_factor(self, role: int) -> Array | None:
        """Return (draws or 1, words + 1): what each filler of a role contributes; None for 1."""
        world, action = self.learner.world, self.learner.world.grammar.action_role
        kind, words = self.term.roles.get(role, ("", np.ones(self.size - 1, dtype=bool)))
        factor: Array | None = None
        if kind:
            mention = np.atleast_1d(self.choices.mention(self.term.construction, role))[:, None]
            present = mention * words if kind == SAID else (1 - mention) * words
            absent = np.full((len(mention), 1), 1.0 if kind == SKIPPED else 0.0)
            factor = np.concatenate([present, absent], axis=1)
        if role == action and len(world.grammar.plain_constructions) > 1:
            shares = np.zeros((self.shape, self.size))
            for word in self.learner.support[role]:
                shares[:, word] = self.choices.construction(int(word), self.term.construction)
            factor = shares if factor is None else factor * shares
        return factor

    def compute(self) -> Array:
        """Return (draws, words + 1); the last is for events without the role."""
        return np.broadcast_to(self._visit(0, ()), (self.shape, self.size))

    def _visit(self, place: int, path: tuple[int, ...]) -> Array:
        """Return the sum over roles from a place of the order on, after the fillers in `path`."""
        if place > self.last:
            return np.ones((self.shape, 1))
        support = self.learner.support[self.learner.order[place]]
        counts = self.learner.count_fillers(place, path)
        chance = self.learner.choose_fillers(self.choices, path, counts)
        factor = self.factors[place]
        weight = chance if factor is None else chance * factor[:, support]
        total = np.zeros((self.shape, self.size if place <= self.asked else 1))
        unheard = np.ones(len(support), dtype=bool)
        for position, word in enumerate(support.tolist()):
            if (*path, word) in self.learner.heard and weight[:, position].any():
                unheard[position] = False
                value = weight[:, position, None] * self._visit(place + 1, (*path, word))
                total[:, [word] if place == self.asked else slice(None)] += value
        unheard &= weight.any(axis=0)
        if not unheard.any():
            return total
        if unheard.sum() == 1:
            word = int(support[unheard][0])
            rest = self._visit(place + 1, (*path, word))[:, None]
        else:
            rest = self._visit_unheard(place + 1, path, (len(support),))
            rest = rest[:, unheard] if rest.shape[1] > 1 else rest
        if place == self.asked:
            total[:, support[unheard]] += weight[:, unheard] * rest[..., 0]
        else:
            total += (weight[:, unheard, None] * rest).sum(axis=1)
        return total

    def _visit_unheard(
        self, place: int, path: tuple[int, ...], inner: tuple[int, ...], alike: bool = False
    ) -> Array:
        """Return (draws, *inner, …): the same in contexts that were never heard, many at once.

        Where they keep their means, they are alike and `inner` becomes ones.
        """
        if place > self.last:
            return np.ones((1, *(1 for _ in inner), 1))
        support = self.learner.support[self.learner.order[place]]
        alpha = np.full(len(support), self.learner.alpha / len(support))
        many = bool(self.shape * np.prod(inner) * len(support) > MOST_DRAWS)
        alike = alike or many or self.choices.draws is None
        if alike:
            inner = tuple(1 for _ in inner)
            chance = np.broadcast_to(alpha / alpha.sum(), (1, *inner, len(support)))
        else:
            chance = self.choices.dirichlet((5, len(inner), *path), alpha, inner)
        factor = self.factors[place]
        if factor is not None:
            middle = (1,) * len(inner)
            chance = chance * factor[:, support].reshape(len(factor), *middle, len(support))
        rest = self._visit_unheard(place + 1, path, (*inner, len(support)), alike)
        both = chance[..., None] * rest
        if place != self.asked:
            return np.asarray(both.sum(axis=-2))
        placed = np.zeros((*both.shape[:-2], self.size))
        placed[..., support] = both[..., 0]
        return placed
