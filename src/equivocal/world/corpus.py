"""A sampled corpus: sentences with the events behind them, and how often each occurred."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equivocal.store.files import write_text_atomically
from equivocal.world.derivations import Derivations, collapse
from equivocal.world.queries import (
    PrefixTree,
    Queries,
    build_prefix_tree,
    build_queries,
    list_constituents,
)

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.world.world import World


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Corpus:
    """Sentences of one world with the events behind them, one per row.

    A row stands for `weight` sentences; in `World.all_derivations` the weight is a probability.
    """

    world: "World"
    derivations: Derivations

    def __len__(self) -> int:
        return len(self.derivations)

    @property
    def weight(self) -> NDArray[np.float64]:
        """How often each row occurred, or its probability."""
        return self.derivations.weight

    def distinct(self) -> "Corpus":
        """Merge rows with the same words and event into one with a count.

        Returns
        -------
        Corpus
            Weights are summed over merged rows.
        """
        return Corpus(self.world, collapse(self.derivations))

    def split(self, held_out: NDArray[np.bool_]) -> tuple["Corpus", "Corpus"]:
        """Split the sentences into those to train on and those held out.

        Both parts have the same distinct rows: a sentence that occurs in one part only has count
        zero in the other, so that prefix trees and questions of the two have the same shape and
        numbering.

        Parameters
        ----------
        held_out : (rows,)
            A mask of the rows to hold out.

        Returns
        -------
        kept, held_out : Corpus
            The two parts.
        """
        kept, other = (
            Corpus(self.world, collapse(self.derivations.reweight(self.weight * part)))
            for part in (~held_out, held_out)
        )
        return kept, other

    def take(self, rows: NDArray[np.intp]) -> "Corpus":
        """Return some of the rows.

        Parameters
        ----------
        rows : (n,)
            Row numbers.

        Returns
        -------
        Corpus
            These rows, in this order.
        """
        return Corpus(self.world, self.derivations.take(rows))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The sentence of each row."""
        return self.world.spell(self.derivations)

    @cached_property
    def tree(self) -> PrefixTree:
        """All prefixes of these sentences."""
        return build_prefix_tree(list_constituents(self.derivations, self.world.grammar))

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """The input tokens of each node of `tree`, as text."""
        names = np.array([*self.world.tokens, ""], dtype=object)  # last: no marker is -1
        texts: list[str] = []
        for parent, (word, marker) in zip(self.tree.parent, self.tree.tokens, strict=True):
            before = texts[parent] if parent >= 0 else ""
            texts.append(" ".join(filter(None, [before, names[marker], names[word]])))
        return tuple(texts)

    @cached_property
    def queries(self) -> Queries:
        """What a network is asked about these sentences, with the mean answers."""
        world = self.world
        return build_queries(self.derivations, self.tree, world.grammar, world.lexicon)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return the sentences as a table.

        Returns
        -------
        pandas.DataFrame
            `sentence`, `construction`, a column for each role, and `count` or `probability`. In a
            world with noise, `noise` names the noise that affected the sentence, if any.
        """
        import pandas as pd

        words = np.array([*self.world.lexicon.words, ""], dtype=object)  # last: NO_FILLER is -1
        constructions = self.world.grammar.constructions
        names, noise = (
            np.array([getattr(c, what) for c in constructions], dtype=object)[
                self.derivations.construction
            ]
            for what in ("name", "noise")
        )
        roles = {
            role: words[self.derivations.fillers[:, index]]
            for index, role in enumerate(self.world.roles)
        }
        table = {"sentence": self.texts, "construction": names, **roles}
        if self.world.has_noise:
            table["noise"] = noise
        counts = self.weight.astype(np.int64)
        if np.array_equal(counts, self.weight):
            return pd.DataFrame({**table, "count": counts})
        return pd.DataFrame({**table, "probability": self.weight})

    def to_csv(self, path: str | Path) -> None:
        """Write `to_dataframe` as CSV.

        Parameters
        ----------
        path : str or Path
            The CSV file.
        """
        write_text_atomically(path, self.to_dataframe().to_csv(index=False))
