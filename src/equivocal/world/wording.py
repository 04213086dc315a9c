"""Derivations put into words, in sentences that `parsing` reads back."""

import numpy as np

from equivocal.world.derivations import Derivations
from equivocal.world.grammar import NO_FILLER, Construction, Grammar
from equivocal.world.lexicon import Lexicon
from equivocal.world.schema import WorldFile
from equivocal.world.spelling import verb_form

__all__ = ["spell"]


def spell(
    derivations: Derivations, file: WorldFile, grammar: Grammar, lexicon: Lexicon
) -> tuple[str, ...]:
    """The sentence of each row."""
    pieces = [
        _pieces(construction, file, grammar, lexicon) for construction in grammar.constructions
    ]
    columns = (derivations.fillers, derivations.said, derivations.construction)
    return tuple(
        " ".join(words[filler[role]] for role, words in pieces[number] if said[role])
        for filler, said, number in zip(*(column.tolist() for column in columns), strict=True)
    )


def _pieces(
    construction: Construction, file: WorldFile, grammar: Grammar, lexicon: Lexicon
) -> list[tuple[int, list[str]]]:
    """(role, the text of every word in that role) in the construction's order."""
    pieces = []
    for role in construction.order:
        words = list(lexicon.words)
        if role == grammar.action_role:
            form = construction.verb_form
            words = [verb_form(word, form, file.verbs.get(word)) for word in words]
        every = np.arange(len(words), dtype=np.int32)
        for number, token in enumerate(construction.marker_of(role, every).tolist()):
            if token != NO_FILLER:
                words[number] = f"{file.markers[lexicon.tokens[token]][0]} {words[number]}"
        pieces.append((role, words))
    return pieces
