"""Answers as JSON, written word by word; the text of a prefix is cached.

The text is that of `Answer.to_dict`; a test compares the two.
"""

from collections import OrderedDict
from typing import Any

from pydantic_core import to_json

from equivocal.asking import Answer
from equivocal.asking.rendering import list_heading, list_words

__all__ = ["Writer"]

MOST_WORDS = 4096  # that are kept, some 12 kB each where three networks answer


class Writer:
    """Writes answers, and keeps what it wrote about the latest words.

    Parameters
    ----------
    most : int
        The number of words that are kept.
    """

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[Any, ...], tuple[bytes, ...]] = OrderedDict()

    def write(self, answer: Answer, top: int) -> bytes:
        """Return an answer as JSON with `top` fillers for each role."""
        keys = [_identify(answer, position, top) for position in range(len(answer.heard))]
        new = [position for position, key in enumerate(keys) if key not in self._kept]
        if new:
            for position, voices in zip(new, list_words(answer, top, new), strict=True):
                summary = voices[0]["summary"]
                written = [to_json(part, inf_nan_mode="null") for part in (summary, *voices)]
                self._kept[keys[position]] = tuple(written)
        words = [self._kept[key] for key in keys]
        for key in keys:
            self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return _join(answer, words)


def _identify(answer: Answer, position: int, top: int) -> tuple[Any, ...]:
    """Return all that a word's part of an answer depends on."""
    heard = answer.heard.constituents[: position + 1]
    said = answer.said[position]
    # the rest of the sentence decides which construction it is, and so what word order says
    indicated = [pair for pair in answer.indicated.items() if pair[1] in said]
    spoken = tuple((part.word, part.marker) for part in heard)
    chosen = answer.world, answer.prior_variance, answer.step, top
    return *chosen, heard[-1].text, spoken, tuple(indicated)


def _join(answer: Answer, words: list[tuple[bytes, ...]]) -> bytes:
    summaries, together, *alone = zip(*words, strict=True)
    networks = [
        b"%b,%b}" % (to_json({"network": one.network, "time": one.time})[:-1], _list(said))
        for one, said in zip(answer.networks, alone, strict=True)
    ]
    return b'%b,%b,"indicated":%b,"summary":%b,"networks":[%b]}' % (
        to_json(list_heading(answer))[:-1],
        _list(together),
        to_json(answer.indicated),
        summaries[-1],
        b",".join(networks),
    )


def _list(words: tuple[bytes, ...]) -> bytes:
    return b'"words":[%b]' % b",".join(words)
