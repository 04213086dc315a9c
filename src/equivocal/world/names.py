"""Looking up the names a world file uses: words, classes of words, and groups of either."""

from equivocal.errors import did_you_mean
from equivocal.world.schema import WorldFile

MOST_LEVELS = 100  # groups in groups


class UnknownNameError(Exception):
    """A name no table defines; the message says so and proposes the nearest one."""


class Names:
    """Every name of a world file and the words it stands for."""

    def __init__(self, file: WorldFile) -> None:
        self._groups = file.groups
        self._distributions = file.distributions
        self._classes = {name: tuple(words) for name, words in file.words.items()}
        # a dict used as an ordered set: worlds of thousands of words ask `in` all the time
        self.words = dict.fromkeys(word for words in file.words.values() for word in words)

    def is_collection(self, name: str) -> bool:
        """Tell whether the name is that of a class, a group or a distribution."""
        return name in self._classes or name in self._groups or name in self._distributions

    def expand(self, name: str, *, within: str = "") -> tuple[str, ...]:
        """Return the words of a word, class or group; `within` says where, if it is unknown."""
        words: dict[str, None] = {}
        self._expand(name, within, (), words, set())
        return tuple(words)

    def _expand(
        self, name: str, within: str, path: tuple[str, ...], words: dict[str, None], done: set[str]
    ) -> None:
        """Add the words of a name; a group that is `done` is there, else groups would explode."""
        if name in self.words:
            words[name] = None
            return
        if name in self._classes:
            words.update(dict.fromkeys(self._classes[name]))
            return
        if name not in self._groups:
            if name in self._distributions:
                raise UnknownNameError(f"{name!r} is a distribution{within}; use it on its own.")
            known = [*self.words, *self._classes, *self._groups]
            hint = did_you_mean(name, known) or "; add it to a [words] table or remove it here."
            raise UnknownNameError(f"unknown word {name!r}{within}{hint}")
        if name in path:
            circle = " → ".join([*path[path.index(name) :], name])
            raise UnknownNameError(f"group {name!r} contains itself ({circle}); break the circle.")
        if len(path) > MOST_LEVELS:
            raise UnknownNameError(
                f"group {path[0]!r} has more than {MOST_LEVELS} levels; use fewer."
            )
        if name not in done:
            for part in self._groups[name]:
                self._expand(part, within, (*path, name), words, done)
            done.add(name)
