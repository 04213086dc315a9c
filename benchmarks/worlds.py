"""World files of any size, made up at random: `write_large_world` returns the text of one.

The words are arbitrary, but the world is structured like one written by hand. Words are grouped
into kinds (a class each), with features for their sort, their kind and themselves. Every action has
agents of its own kinds, patients that depend on the agent, places that depend on the patient, a
situation that is often not mentioned, and two constructions, an active and a passive one. Each kind
is used by some action, so every word can occur.

Needs numpy only; the same arguments always give the same text.
"""

import json

import numpy as np

__all__ = ["write_large_world"]

Kinds = list[list[str]]  # the words of one sort, by kind

# sort of word: one in how many words that are not verbs (0: all that are left), words per kind
SORTS = {"agent": (6, 30), "place": (18, 8), "situation": (18, 8), "object": (0, 13)}
UNITS = 10_000  # probabilities are whole ten-thousandths, so that written sums are exactly one

HEAD = """\
name = "made up, {num_words} words"
description = "Nothing in particular, at random (seed {seed})."
roles = ["agent", "action", "patient", "place", "situation"]
"""

TAIL = """
[markers]
during = ["during"]
in = ["in"]
by = ["by"]

[[constructions]]
name = "active"
order = ["situation", "agent", "action", "patient", "place"]
mentioned = { situation = 0.5 }
markers = { situation = "during", place = "in" }

[[constructions]]
name = "passive"
probability = 0.2
order = ["patient", "action", "agent", "place"]
mentioned = { agent = 0.6 }
markers = { agent = "by", place = "in" }
adds = { patient = "affected" }
form = "participle"
"""


def write_large_world(num_words: int = 2000, num_actions: int = 200, seed: int = 0) -> str:
    """Return the text of a world file with `num_words` words, `num_actions` of them verbs."""
    if num_actions < 1 or num_words < num_actions + len(SORTS):
        raise ValueError(
            f"num_words must be at least num_actions + {len(SORTS)}, a word for each role, and "
            f"num_actions at least 1: got num_words={num_words}, num_actions={num_actions}."
        )
    rng = np.random.default_rng(seed)
    verbs = _make_names("verb", num_actions)
    kinds = _make_kinds(num_words - num_actions, num_actions)
    parts = [HEAD.format(num_words=num_words, seed=seed)]
    parts += [
        _write_words(f"{sort}s{number}", sort, number, words)
        for sort, groups in kinds.items()
        for number, words in enumerate(groups)
    ]
    parts.append(_write_words("verbs", "action", 0, verbs))
    parts += [_write_action(number, verb, kinds, rng) for number, verb in enumerate(verbs)]
    return "\n".join(parts) + TAIL


def _make_names(sort: str, size: int) -> list[str]:
    return [f"{sort}{number:04d}" for number in range(size)]


def _make_kinds(size: int, num_actions: int) -> dict[str, Kinds]:
    """Return all words except verbs by sort and kind.

    There are at most `num_actions` kinds of a sort, so that an action can use each.
    """
    sizes = {sort: max(1, size // share) if share else 0 for sort, (share, _) in SORTS.items()}
    sizes["object"] = size - sum(sizes.values())
    return {
        sort: [
            part.tolist()
            for part in np.array_split(
                _make_names(sort, sizes[sort]), min(num_actions, max(1, sizes[sort] // in_kind))
            )
        ]
        for sort, (_, in_kind) in SORTS.items()
    }


def _write_words(name: str, sort: str, kind: int, words: list[str]) -> str:
    """Return a [words] table; features of a word are its sort, its kind and the word itself."""
    lines = (f'{word} = ["{sort}", "{sort} kind {kind}", "{word}"]' for word in words)
    return "\n".join([f"[words.{name}]", *lines, ""])


def _write_action(number: int, verb: str, kinds: dict[str, Kinds], rng: np.random.Generator) -> str:
    """Return an action that uses the kinds `number` modulo their count, and others at random."""
    own = {sort: number % len(groups) for sort, groups in kinds.items()}
    agents, objects, places = (kinds[sort][own[sort]] for sort in ("agent", "object", "place"))
    # the class names of the action's own kind and of a random one
    both = {
        sort: [f"{sort}s{own[sort]}", f"{sort}s{rng.integers(len(groups))}"]
        for sort, groups in kinds.items()
    }
    some_agents = _write_list(agents[: max(1, len(agents) // 3)])
    some_objects = _write_list(objects[: max(1, len(objects) // 2)])
    return f"""\
[actions.{verb}]
weight = {rng.integers(1, 10)}
agent = {_write_list(both["agent"])}
patient = [
    {{ when = {{ agent = {some_agents} }}, then = {_draw_chances(objects, rng)} }},
    {{ when = {{ agent = "{both["agent"][0]}" }}, then = "{both["object"][0]}" }},
    {{ then = {_write_list(both["object"])} }},
]
place = [
    {{ when = {{ patient = {some_objects} }}, then = {_draw_chances([*places, "absent"], rng)} }},
    {{ then = {_write_list(both["place"])} }},
]
situation = {_write_list(both["situation"])}
"""


def _write_list(names: list[str]) -> str:
    """Return a TOML array of strings without duplicates."""
    return json.dumps(list(dict.fromkeys(names)))


def _draw_chances(words: list[str], rng: np.random.Generator) -> str:
    """Return a TOML table of random probabilities, none of them zero."""
    shares = 1 + rng.multinomial(UNITS - len(words), rng.dirichlet(np.ones(len(words))))
    pairs = (f"{word} = {share / UNITS:.4f}" for word, share in zip(words, shares, strict=True))
    return f"{{ {', '.join(pairs)} }}"
