"""Three learners of a world's probabilities: by counts, with pooled rates, and of known form.

They form a ladder of what is known beforehand, between the networks, which know nothing of the
world, and the truth, which knows everything: *counts* (`equivocal.world.learner`) knows roles,
constructions and kinds of noise; *pooled* also expects that what is usually acted upon acts about
as seldom with one action as with another; *form* knows the file of the world and infers the values
of its declared parameters alone, so that nobody could do better. `learn` chooses one.

`map_rational_beliefs` asks a counting learner about what it never heard: its belief then depends on
two numbers, how much it expects that anything may act, and how often it expects that speakers slip.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaln, expit, gammaln, logit

from equivocal.world.corpus import Corpus
from equivocal.world.derivations import enumerate_derivations
from equivocal.world.errors import ImpossibleSentenceError, require_exact
from equivocal.world.grammar import NO_FILLER, build_grammar
from equivocal.world.learner import Array, CountingLearner, Learner
from equivocal.world.loading import parse_whole_world, validate_world
from equivocal.world.noise import add_noise
from equivocal.world.queries import NO_NODE
from equivocal.world.world import World
from lastlayer.errors import UserError, check_known

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.world.learner import _Choices
    from equivocal.world.spelling import Utterance

__all__ = ["FormLearner", "PooledLearner", "learn", "map_rational_beliefs"]

FORM_DRAWS = 48  # each computes the probabilities of all derivations
STEP = 0.02  # of finite differences, on the logit scale
COLUMNS = ("fillers", "construction", "said")  # of derivations


class PooledLearner(CountingLearner):
    """A learner whose rates of rare agents are shared between actions by hierarchical priors.

    Rare agents of an action are the words heard more often as its patient than as its agent. They
    act in a share ρ_a of its events, ρ_a ~ Beta(κ μ, κ (1 − μ)); among them the shares are
    Dirichlet(κ′ / n); and their patients are Dirichlet(κ″ times the shares among all rare events).
    μ and the three κ are drawn from their posterior on a grid, each draw with its own.
    """

    GRID = np.geomspace(0.3, 3_000, 15)  # of κ, κ′ and κ″
    RATES = np.geomspace(1e-4, 0.5, 40)  # of μ

    @cached_property
    def _nouns(self) -> tuple[NDArray[np.intp], Array]:
        """The words of agents, and (actions, words, 2): counts as agent and as patient of each."""
        words = self.support[self.order[1]]
        tables = []
        for action in self.support[self.order[0]].tolist():
            rows = self.rows.take(np.flatnonzero(self.rows.fillers[:, self.order[0]] == action))
            agent, patient = (
                np.bincount(
                    rows.fillers[:, self.world.roles.index(role)] + 1,
                    rows.weight,
                    len(self.world.lexicon.words) + 1,
                )[words + 1]
                for role in ("agent", "patient")
            )
            tables.append(np.stack([agent, patient], axis=1))
        return words, np.array(tables)

    @cached_property
    def _rare(self) -> NDArray[np.bool_]:
        """(actions, words): heard more often as patient than as agent of the action."""
        words, counts = self._nouns
        rare: NDArray[np.bool_] = (counts[:, :, 1] > counts[:, :, 0]) & (words != NO_FILLER)
        return rare

    @cached_property
    def _rare_patients(self) -> list[Array]:
        """(patients,) for each action and rare agent that was heard acting: counts of patients."""
        actions, words = self.support[self.order[0]], self._nouns[0]
        paths = [(int(actions[row]), int(words[at])) for row, at in np.argwhere(self._rare)]
        return [self.count_fillers(2, path) for path in paths if path in self.heard]

    @cached_property
    def _base(self) -> Array:
        """Shares of patients among all events in which a rare agent acts."""
        size = len(self.support[self.order[2]])
        share = sum(self._rare_patients, np.zeros(size)) + self.alpha / size
        return np.asarray(share / share.sum())

    @cached_property
    def _hyper(self) -> dict[str, Array]:
        """Draws of μ, κ, κ′ and κ″ from their posterior on the grid, flat on it."""
        rng = np.random.default_rng([self.seed, 11])
        acting = self._nouns[1][:, :, 0]
        rare = (acting * self._rare).sum(axis=1)
        usual = acting.sum(axis=1) - rare
        mu, kappa = (grid.ravel() for grid in np.meshgrid(self.RATES, self.GRID))
        a, b = kappa * mu, kappa * (1 - mu)
        fit = (betaln(rare[:, None] + a, usual[:, None] + b) - betaln(a, b)).sum(axis=0)
        picked = _pick(fit, self.draws, rng)
        within = [counts[rows] for counts, rows in zip(acting, self._rare, strict=True)]
        within = [counts for counts in within if len(counts)]
        even = [np.full(len(counts), 1 / len(counts)) for counts in within]
        shares = _weigh_concentrations(within, even, self.GRID)
        heard = self._rare_patients
        patients = _weigh_concentrations(heard, [self._base] * len(heard), self.GRID)
        return {
            "rate": mu[picked],
            "spread": kappa[picked],
            "agents": self.GRID[_pick(shares, self.draws, rng)],
            "patients": self.GRID[_pick(patients, self.draws, rng)],
        }

    def _weigh(self, text: "Utterance", role: int, draws: int | None) -> tuple[Array, Array]:
        """Average over the draws; the mean is their mean, for there is no closed form."""
        units, total = super()._weigh(text, role, self.draws)
        if draws is None:
            return units.mean(axis=0, keepdims=True), total.mean(keepdims=True)
        return units, total

    def choose_fillers(self, choices: "_Choices", path: tuple[int, ...], counts: Array) -> Array:
        """Share the rates of rare agents, and what they act upon."""
        actions = self.support[self.order[0]].tolist()
        if not 1 <= len(path) <= 2 or "patient" not in self.world.roles:
            return super().choose_fillers(choices, path, counts)
        rare, hyper = self._rare[actions.index(path[0])], self._hyper
        if len(path) == 2:
            words = self._nouns[0].tolist()
            if self.world.roles[self.order[2]] != "patient" or not rare[words.index(path[1])]:
                return super().choose_fillers(choices, path, counts)
            alpha = counts + hyper["patients"][:, None] * self._base
            return choices.dirichlet((4, *path), np.maximum(alpha, 1e-9))
        if not rare.any() or rare.all() or self.world.roles[self.order[1]] != "agent":
            return super().choose_fillers(choices, path, counts)
        acting, a = counts[rare].sum(), hyper["spread"] * hyper["rate"]
        split = np.stack([a + acting, hyper["spread"] - a + counts.sum() - acting], axis=1)
        rate = choices.dirichlet((6, *path), split)
        chance = np.empty((self.draws, len(counts)))
        within = counts[rare] + hyper["agents"][:, None] / rare.sum()
        chance[:, rare] = rate[:, :1] * choices.dirichlet((7, *path), within)
        outside = counts[~rare] + self.alpha / (~rare).sum()
        chance[:, ~rare] = rate[:, 1:] * choices.dirichlet((8, *path), outside)
        return chance


def _weigh_concentrations(counts: list[Array], bases: list[Array], grid: Array) -> Array:
    """Return (grid,): log P(counts) where shares are Dirichlet(κ base), for each κ of a grid."""
    total = np.zeros(len(grid))
    for count, base in zip(counts, bases, strict=True):
        alpha = grid[:, None] * base
        total += gammaln(grid) - gammaln(grid + count.sum())
        total += (gammaln(alpha + count) - gammaln(alpha)).sum(axis=1)
    return total


def _pick(log_weight: Array, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    weight = np.exp(log_weight - log_weight.max())
    return rng.choice(len(weight), size, p=weight / weight.sum())


class FormLearner(Learner):
    """A learner who knows the file of the world, and infers the values of its parameters.

    Other values change how often something happens or is misheard, but not what is possible, so
    they are new weights of the same derivations. The posterior of the values, with a flat prior on
    their ranges, is sampled by importance: a Gaussian at its mode, on the logit scale, whose draws
    are weighted and drawn again.
    """

    def __init__(self, world: World, corpus: Corpus, **options: Any) -> None:
        super().__init__(world, **options)
        require_exact(world, "its probabilities cannot be recomputed")
        specs = world.file.parameters.values()
        if not specs:
            raise UserError(
                f"world {world.name!r} has no parameters to vary; use a world that declares some, "
                "such as `both_ways`, or add [parameters] to its file."
            )
        self._least = np.array([spec.least for spec in specs])
        self._width = np.array([spec.most for spec in specs]) - self._least
        self._tables = parse_whole_world(world.text, world.source)
        share = (np.array([*world.parameters.values()]) - self._least) / self._width
        # at the ends of the ranges some derivations have probability 0
        self._start = np.clip(logit(share), -8, 8)
        given = self._name_values(self._start)
        self._all = World.from_toml(world.text, world.source, given).all_derivations
        self._counts = _join_counts(corpus, self._all)

    @cached_property
    def values(self) -> tuple[Array, Array]:
        """Draws of the parameters, (draws, parameters), and the weights of all derivations."""
        mode = minimize(self._score, self._start, method="BFGS", options={"gtol": 1e-2}).x
        spread = np.linalg.cholesky(np.linalg.inv(_compute_hessian(self._score, mode)))
        rng = np.random.default_rng([self.seed, 12])
        noise = rng.standard_normal((FORM_DRAWS, len(mode)))
        places = mode + noise @ spread.T
        weights = np.array([self._compute_weights(place) for place in places])
        fit = np.array([-self._score(*both) for both in zip(places, weights, strict=True)])
        picked = _pick(fit + 0.5 * (noise**2).sum(axis=1), self.draws, rng)
        return self._least + self._width * expit(places[picked]), weights[picked]

    def _name_values(self, place: Array) -> dict[str, float]:
        values = self._least + self._width * expit(np.clip(place, -20, 20))
        return dict(zip(self.world.parameters, values.tolist(), strict=True))

    def _compute_weights(self, place: Array) -> Array:
        """Compute the probability of every derivation under other values of the parameters."""
        file = validate_world(self._tables, self.world.source, self._name_values(place))[0]
        grammar = build_grammar(file, self.world.lexicon, self.world.source)
        rows, same = enumerate_derivations(add_noise(grammar, file)), self._all.derivations
        if not all(np.array_equal(getattr(rows, n), getattr(same, n)) for n in COLUMNS):
            raise UserError(
                f"what can be said in world {self.world.name!r} depends on its parameters; keep "
                "all probabilities above zero."
            )
        return rows.weight

    def _score(self, place: Array, weights: Array | None = None) -> float:
        """Return −log P(corpus, values) on the logit scale."""
        weights = self._compute_weights(place) if weights is None else weights
        heard = self._counts > 0
        fit = self._counts[heard] @ np.log(weights[heard])
        return float(-fit - np.log(expit(place)).sum() - np.log(expit(-place)).sum())

    def _weigh(self, text: "Utterance", role: int, draws: int | None) -> tuple[Array, Array]:
        world, rows, tree = self.world, self._all.derivations, self._all.tree
        pairs = world.encode(text)
        node = tree.find(pairs)
        if node == NO_NODE:
            raise ImpossibleSentenceError(
                f"nothing that can happen in world {world.name!r} begins with {str(text)!r}, "
                'whatever its parameters are; a learner with prior="counts" has a belief.'
            )
        fits = (tree.node_of[:, len(pairs) - 1] == node) & (rows.fillers[:, role] != NO_FILLER)
        heard = rows.take(np.flatnonzero(fits))
        adds = np.array([each.adds[role] for each in world.grammar.constructions])
        meaning = world.lexicon.features[heard.fillers[:, role]].astype(float)
        meaning = np.maximum(meaning, world.grammar.added_features[adds[heard.construction]])
        meaning[:, role] = 1.0
        weights = self.values[1][:, fits]
        if draws is None:
            weights = weights.mean(axis=0, keepdims=True)
        return weights @ meaning, weights.sum(axis=1)


def _join_counts(corpus: Corpus, everything: Corpus) -> Array:
    """Return how often each derivation of a world occurs in a corpus."""
    known, heard = everything.derivations, corpus.distinct().derivations
    tables = [
        np.column_stack([rows.construction, rows.fillers, rows.said]) for rows in (known, heard)
    ]
    _, group = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    group = group.ravel()
    place = np.full(group.max() + 1, -1)
    place[group[: len(known)]] = np.arange(len(known))
    places = place[group[len(known) :]]
    if (heard.weight[places < 0] > 0).any():
        raise UserError("the corpus has sentences that this world cannot have; give its own world.")
    return np.bincount(places, heard.weight, len(known)).astype(np.float64)


def _compute_hessian(function: Callable[[Array], float], at: Array) -> Array:
    """Compute second derivatives by central differences, with a floor on the curvature."""
    size = len(at)
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    result = np.empty((size, size))
    for i, j in np.ndindex(size, size):
        one, other = STEP * np.eye(size)[[i, j]]
        corners = [a * b * function(at + a * one + b * other) for a, b in signs]
        result[i, j] = sum(corners) / (4 * STEP**2)
    values, vectors = np.linalg.eigh(result)
    return np.asarray((vectors * np.maximum(values, 0.05)) @ vectors.T)


def learn(
    world: World,
    corpus: Corpus,
    prior: Literal["counts", "pooled", "form"] = "counts",
    pseudo_count: float = 1.0,
    *,
    draws: int = 400,
    seed: int = 0,
) -> Learner:
    """Learn the probabilities of a world from sentences with their events.

    Parameters
    ----------
    world : World
        Whose roles, constructions and kinds of noise are known beforehand.
    corpus : Corpus
        Sentences of this world, as `World.sample` draws them.
    prior : {"counts", "pooled", "form"}
        What else is known: nothing; that rare agents are about as rare with one action as with
        another; or the file of the world, but for the values of its parameters.
    pseudo_count : float
        α, the total weight of the prior of each choice, in sentences.
    draws, seed : int
        How many learners are drawn for intervals, members and entropies, and from which seed.

    Returns
    -------
    Learner
        With `beliefs(text, role)`, `interval`, `members` and `entropies`.

    Raises
    ------
    UserError
        Where the prior is unknown, α is not above 0, or the world has no parameters to infer.
    """
    check_known(prior, ("counts", "pooled", "form"), "prior", "learn: ")
    if not pseudo_count > 0:
        raise UserError(f"pseudo_count must be above 0, got {pseudo_count!r}.")
    if prior == "form":
        return FormLearner(world, corpus, draws=draws, seed=seed)
    kind = PooledLearner if prior == "pooled" else CountingLearner
    return kind(world, corpus, pseudo_count=pseudo_count, draws=draws, seed=seed)


def map_rational_beliefs(
    world: World,
    corpus: Corpus,
    text: str,
    role: str,
    filler: str,
    *,
    pseudo_counts: Sequence[float],
    slips: Sequence[float],
) -> "pd.DataFrame":
    """Compute a belief for every weight of the prior and every probability of noise.

    Parameters
    ----------
    world : World
        With the noise that the listener reckons with; `slips` with `rare=0` is `paper` with slips.
    corpus : Corpus
        What the listener has heard, in this world or one with the same words and constructions.
    text, role, filler : str
        The belief: that `filler` has this role, after these words.
    pseudo_counts : sequence of float
        Values of α: how many sentences the expectation is worth that anything may act.
    slips : sequence of float
        Probabilities of noise, known to the listener.

    Returns
    -------
    DataFrame
        Columns pseudo_count, slip, belief.
    """
    import pandas as pd

    heard = Corpus(world, corpus.derivations)
    utterance, number = world.parse(text), world.roles.index(role)
    unit, rows = world.units.index(filler), []
    for alpha in pseudo_counts:
        # the weight of what was meant is linear in the probability of noise
        ends = [
            CountingLearner(world, heard, pseudo_count=alpha, noise=noise) for noise in (0.0, 1.0)
        ]
        (units0, total0), (units1, total1) = (
            learner._weigh(utterance, number, None) for learner in ends
        )
        for slip in slips:
            belief = (1 - slip) * units0[0, unit] + slip * units1[0, unit]
            rows.append((alpha, slip, belief / ((1 - slip) * total0[0] + slip * total1[0])))
    return pd.DataFrame(rows, columns=["pseudo_count", "slip", "belief"])
