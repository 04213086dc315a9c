"""The page as one HTML file that answers by itself: its style, its scripts, worlds and networks.

`static/index.html` is filled in with the style sheet, the ES modules and one element of data for
each world. Modules import each other by name (`import { html } from "dom"`): an import map gives
for each name its source as a data URL, so no server is needed and the browser keeps them apart. A
policy in the page forbids it to fetch anything.

A world's element holds base64 of a deflated block: the size of the arrays in bytes (4 bytes, little
end first), the arrays, then JSON. An array is {"array": [type, offset, length]} in the JSON. The
module `engine` reads it. Its entries, and the modules of `static/` that read them:

    name, roles, words, examples …   what a reader can choose from      `app`
    grammar, truth                   spellings, constructions, prefixes `parsing`
    vocabulary                       the words that answer each role    `engine`
    networks                         weights, ensembles at each stop    `network`
    learner                          counts of the sentences heard      `learner`
    rules                            bounds of lists and summaries      `summary`

Change the two together. The page has the default prior variance alone. Of the paper's sampler, it
has the steps that come with the package; for other networks only the prior, step 0, so that nothing
is sampled beside the posterior.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from equivocal.asking import summary
from equivocal.asking.answer import NOTABLE, TOP
from equivocal.asking.ensembles import LastLayers
from equivocal.asking.listeners import MOST_WORDS, Listeners
from equivocal.asking.source import (
    CONVERGED,
    DEFAULT_WORLD,
    PAPER_STEP,
    Source,
    list_shipped,
)
from equivocal.asking.vocabulary import Vocabulary, find_examples
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER

__all__ = ["build_page", "describe_truth", "describe_world", "pack_data"]

STATIC = resources.files("equivocal.asking") / "static"
KINDS = {"f4": "Float32", "i2": "Int16", "u4": "Uint32"}  # NumPy's names, and JavaScript's
ALIGNED = 4  # bytes
LARGEST = 32_767  # of int16
LEAST_LOSS = 1e-5  # share of the prior's variance; smaller losses change no answer by 1e-4
RULES = {
    "top": TOP,
    "notable": NOTABLE,
    "rival": summary.RIVAL,
    "early": summary.EARLY,
    "settled": summary.SETTLED,
}


def build_page(sources: Sequence[Source] = ()) -> str:
    """Build the page of some networks.

    Parameters
    ----------
    sources : sequence of Source
        The networks, of a different world each; those that come with the package unless given.

    Returns
    -------
    str
        HTML that needs no other file.
    """
    shipped = sorted(list_shipped(), key=lambda name: name != DEFAULT_WORLD)  # the default first
    chosen = sources or [Source.choose(world=name) for name in shipped]
    worlds = (describe_world(Listeners(source)) for source in chosen)
    elements = "\n".join(
        f'<script type="text/plain" class="world">{pack_data(world)}</script>' for world in worlds
    )
    scripts = sorted(path for path in Path(str(STATIC)).glob("*.js"))
    # the names appear where the browser reports an error
    modules = {
        path.stem: _encode(path.read_bytes() + f"//# sourceURL={path.name}\n".encode())
        for path in scripts
    }
    imports = {name: f"data:text/javascript;base64,{text}" for name, text in modules.items()}
    filled = {
        "ICON": f"data:image/svg+xml;base64,{_encode((STATIC / 'favicon.svg').read_bytes())}",
        "STYLE": (STATIC / "style.css").read_text(encoding="utf-8"),
        "MODULES": json.dumps({"imports": imports}),
        "WORLDS": elements,
    }
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    for name, text in filled.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    return page


def pack_data(data: dict[str, Any]) -> str:
    """Pack JSON values, with arrays among them, as text that the module `engine` can read."""
    arrays = bytearray()

    def add_array(array: np.ndarray) -> dict[str, Any]:
        kind, offset = KINDS[array.dtype.str[1:]], len(arrays)
        arrays.extend(array.astype(array.dtype.newbyteorder("<")).tobytes())
        arrays.extend(bytes(-len(arrays) % ALIGNED))
        return {"array": [kind, offset, array.size]}

    text = json.dumps(data, default=add_array).encode()
    block = len(arrays).to_bytes(ALIGNED, "little") + arrays + text
    return _encode(zlib.compress(block))


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def describe_world(listeners: Listeners) -> dict[str, Any]:
    """Return everything that the page needs to answer in one world."""
    world, source = listeners.world, listeners.source
    steps = list(listeners.steps) if source.shipped else [0]
    return {
        "name": world.name,
        "description": world.file.description,
        "network": source.name,
        "member_names": source.member_names,
        "prior_variance": listeners.settings.prior_variance,
        "steps": [*steps, CONVERGED],
        "paper_step": PAPER_STEP,
        "roles": world.roles,
        "words": list_words(world),
        "examples": [example._asdict() for example in find_examples(world)],
        "grammar": describe_grammar(world),
        "vocabulary": describe_vocabulary(listeners.vocabulary),
        "truth": describe_truth(world),
        "networks": describe_networks(listeners, steps[1:]),
        "learner": listeners.warrant.describe(),
        "rules": RULES,
    }


def describe_networks(listeners: Listeners, steps: list[int]) -> list[dict[str, Any]]:
    """Return the weights of each network, and its ensembles at some steps and at convergence."""
    variance = listeners.settings.prior_variance
    wanted: list[int | str] = [*steps, CONVERGED]
    stops = {step: listeners.load_layers(variance, step) for step in wanted}
    return [
        {
            "weights": {
                name: values.astype(np.float32) for name, values in member.network.weights.items()
            },
            "stops": {str(step): describe_layers(each[n]) for step, each in stops.items()},
        }
        for n, member in enumerate(listeners.members)
    ]


def describe_layers(layers: LastLayers) -> dict[str, Any]:
    """Return an ensemble with R = I − Σ a u uᵀ for each unit, where v R² is the covariance.

    Rounding the directions u to 16 bits can then change no variance to a negative one.
    """
    weights, directions = [], []
    for loss, given in zip(layers.loss, layers.directions, strict=True):
        basis, triangle = np.linalg.qr(given.T)  # the given directions need not be orthogonal
        values, vectors = np.linalg.eigh(triangle * loss @ triangle.T)
        kept = np.abs(values) > LEAST_LOSS
        unit = (basis @ vectors[:, kept]).T
        scale = np.abs(unit).max(axis=1, initial=0) / LARGEST
        weights.append((1 - np.sqrt(np.maximum(1 - values[kept], 0))) * scale**2)
        directions.append(np.round(unit / scale[:, None]).astype(np.int16))
    return {
        "time": layers.time,
        "shift": layers.shift.astype(np.float32),
        "starts": np.cumsum([0, *map(len, weights)]).astype(np.uint32),
        "weight": np.concatenate(weights).astype(np.float32),
        "directions": np.concatenate(directions),
    }


def list_words(world: World) -> dict[str, list[str]]:
    """List the words of each class as sentences have them: verbs inflected, others with markers."""
    construction = world.grammar.constructions[0]
    said = {word: [verb] for word, verb in Vocabulary.from_world(world).verbs.items()}
    for role in (each for each in construction.order if each != world.grammar.action_role):
        fillers = np.array(sorted(world.grammar.collect_fillers(role)))
        for number, marker in zip(fillers, construction.find_markers(role, fillers), strict=True):
            if marker != NO_FILLER:
                word = world.lexicon.words[number]
                text = f"{world.file.markers[world.tokens[marker]][0]} {word}"
                said[word] = list(dict.fromkeys([*said.get(word, []), text]))
    return {
        name: [text for word in words for text in said.get(word, [word])]
        for name, words in world.file.words.items()
    }


def describe_grammar(world: World) -> dict[str, Any]:
    """Return the spellings of a world and the order of its constructions."""
    grammar, words = world.grammar, np.arange(len(world.lexicon.words), dtype=np.int32)
    spellings = world.list_spellings()
    return {
        "name": world.name,
        "tokens": list(world.tokens),
        "spellings": spellings.words,
        "markers": spellings.markers,
        "usual": {marker: sorted(usual) for marker, usual in spellings.usual_words.items()},
        "limits": {
            "words": MOST_WORDS,
            "phrase": spellings.longest,
        },
        "actions": sorted(grammar.collect_fillers(grammar.action_role)),
        "plain": len(grammar.plain_constructions),
        "constructions": [
            {
                "order": list(construction.order),
                "required": [bool(share == 1) for share in construction.mentioned],
                "markers": [
                    construction.find_markers(role, words).tolist()
                    for role in range(len(world.roles))
                ],
                "action": grammar.action_role,
            }
            for construction in grammar.constructions
        ],
    }


def describe_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the words that answer each role."""
    return {
        "fillers": vocabulary.fillers,
        "places": vocabulary.places.tolist(),
        "participants": vocabulary.participants,
        "verbs": vocabulary.verbs,
        "article": vocabulary.article,
        "candidates": [np.flatnonzero(row).tolist() for row in vocabulary.candidates],
    }


def describe_truth(world: World) -> dict[str, Any] | None:
    """Return the exact beliefs after every sentence prefix, or None if they are unknown.

    Returns
    -------
    dict or None
        `next` maps "node word marker" to the node after that constituent, from node -1; `beliefs`
        has for each node, by role, a flat list of filler, probability, filler, probability, ….
        `parents` has the node before each; `events`, for what may be meant by whole sentences, the
        node of the end, a filler for each role of the world (-1: none) and the probability.
    """
    if not world.is_exact:
        return None
    everything, units = world.all_derivations, Vocabulary.from_world(world).units
    tree, queries = everything.tree, everything.queries
    heard = zip(tree.parent.tolist(), tree.tokens.tolist(), strict=True)
    beliefs: list[dict[str, list[float]]] = [{} for _ in tree.parent]
    asked = np.flatnonzero(queries.find_role_probes())
    targets = queries.targets()[asked][:, units]
    for row, pair in zip(targets, asked, strict=True):
        flat: list[float] = []
        for filler in np.flatnonzero(row).tolist():
            flat += [filler, float(row[filler])]
        beliefs[queries.node[pair]][str(queries.probe[pair])] = flat
    return {
        "next": {
            f"{parent} {word} {marker}": node for node, (parent, (word, marker)) in enumerate(heard)
        },
        "beliefs": beliefs,
        "parents": tree.parent.tolist(),
        "events": [
            [end, *fillers, weight]
            for end, fillers, weight in zip(
                tree.ends.tolist(),
                everything.derivations.fillers.tolist(),
                everything.weight.tolist(),
                strict=True,
            )
        ],
    }
