"""Looking up the names a world file uses: words, classes of words, and groups of either."""

from equivocal.world.schema import WorldFile


class Names:
    """Every name of a world file and the words it stands for.

    Parameters
    ----------
    file : WorldFile
        Need not have been checked: unknown names stand for themselves, circles of groups for
        their words.
    """

    def __init__(self, file: WorldFile) -> None:
        # dicts, in order: worlds of thousands of words ask `in` all the time
        self.words = dict.fromkeys(word for words in file.words.values() for word in words)
        self.collections = {name: tuple(words) for name, words in file.words.items()} | file.groups
        self.distributions = file.distributions
        self.known = {**self.words, **self.collections}

    def find_inserted(
        self, words: str | tuple[str, ...] | dict[str, float] | None
    ) -> tuple[str, ...] | dict[str, float]:
        """Return the names that noise inserts: those of a distribution, where one is named."""
        if isinstance(words, str):
            return self.distributions.get(words, (words,))
        return words or ()

    def expand(self, name: str) -> tuple[str, ...]:
        """Return the words that a word, class or group stands for, each once."""
        words: dict[str, None] = {}
        seen, waiting = set[str](), [name]
        while waiting:
            part = waiting.pop()
            if part in self.words or part not in self.collections:
                words[part] = None
            elif part not in seen:
                seen.add(part)
                waiting += reversed(self.collections[part])
        return tuple(words)
