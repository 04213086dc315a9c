"""The page as one HTML file that answers by itself: its style, its scripts, worlds and networks.

The scripts of `static/` read the JSON that is embedded here: spellings, constructions and truth
(`parsing.js`), networks (`tensors.js`). When you add a key to an object here, make the script named
beside it read the key.

The sources are those that `equivocal serve` sends (`static/`). Each ES module becomes a function
that returns what the module exports, in an order in which every module follows those it imports:

    const dom = (() => { …; return { byId, html }; })();
    const form = (() => { const { byId } = dom; …; return { setUpForm }; })();

Only simple imports and exports are bundled, and anything else is refused: lines that begin with
`import { a, b } from "./c.js";`, and `export` before a declaration.
"""

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter
from importlib import resources
from typing import Any

import numpy as np

from equivocal.asking import summary
from equivocal.asking.answer import NOTABLE, TOP
from equivocal.asking.comprehender import MOST_WORDS, Comprehender
from equivocal.asking.description import MOST_CHARACTERS, describe_world
from equivocal.asking.shipped import list_shipped
from equivocal.asking.source import DEFAULT_WORLD, Source
from equivocal.asking.vocabulary import Vocabulary
from equivocal.world import World
from lastlayer.errors import UserError, join_names

__all__ = ["build_page", "bundle_page", "bundle_scripts"]

# the 91 printable characters that JSON in HTML need not escape; 13 bits are two of them, 91² > 2¹³
ALPHABET = np.array([code for code in range(33, 127) if chr(code) not in '"\\<'], np.uint8)
BITS = 13
STATIC = resources.files("equivocal.asking") / "static"
ENTRY = "app.js"
IMPORT = re.compile(r'^import \{([\w\s,]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
RENAMED = re.compile(r"^const \{.*\bas\b.*\} = module_.*", re.MULTILINE)
DATA = "equivocal-data"  # id of the element that engine.js reads
RULES = {
    "top": TOP,
    "notable": NOTABLE,
    "rival": summary.RIVAL,
    "early": summary.EARLY,
    "settled": summary.SETTLED,
}


def build_page(worlds: Sequence[str] | None = None) -> str:
    """Build the page of some worlds, each with the networks that come with the package.

    Parameters
    ----------
    worlds : sequence of str, optional
        Their names; all worlds that have networks unless given.

    Returns
    -------
    str
        HTML that needs no other file.

    Raises
    ------
    UserError
        Where a world has no networks in the package.
    """
    names = dict.fromkeys(worlds or list_shipped())
    worlds = sorted(names, key=lambda name: name != DEFAULT_WORLD)  # of a link that names none
    return bundle_page({"worlds": [_embed_world(name) for name in worlds], "rules": RULES})


def _embed_world(name: str) -> dict[str, Any]:
    """Return everything that the page needs to answer in one world, as JSON values."""
    source = Source.choose(world=name)
    if source.shipped is None:
        raise UserError(
            f"no networks of world {name!r} come with the package; choose from "
            f"{join_names(list_shipped())}, or use `equivocal serve --world {name}`."
        )
    world = source.world
    return {
        "description": describe_world(Comprehender(source)).model_dump(),
        "grammar": describe_grammar(world),
        "vocabulary": describe_vocabulary(world),
        "truth": pack_bytes(json.dumps(describe_truth(world)).encode()),
        "networks": pack_bytes(source.shipped.read_bytes()),
    }


def pack_bytes(content: bytes) -> dict[str, Any]:
    """Deflate bytes and write them as text, 15 % longer than the networks' files (base64: 33 %).

    Returns
    -------
    dict
        The `text`, which `unpack` of `tensors.js` reads, and the `size` of the content.
    """
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(content) + deflate.flush()
    return {"size": len(content), "text": _write_digits(packed)}


def _write_digits(content: bytes) -> str:
    """Write 13 bits as two characters.

    >>> _write_digits(bytes(13)) == "!" * 16
    True
    """
    bits = np.unpackbits(np.frombuffer(content, np.uint8))
    groups = np.zeros((-(-len(bits) // BITS), 16), np.uint8)  # BITS of 16, big end first
    padded = np.zeros(len(groups) * BITS, np.uint8)
    padded[: len(bits)] = bits
    groups[:, 16 - BITS :] = padded.reshape(-1, BITS)
    values = np.packbits(groups, axis=1).view(">u2").ravel()
    pairs = np.stack(np.divmod(values, len(ALPHABET)), axis=1)
    return str(ALPHABET[pairs].tobytes(), "ascii")


def describe_grammar(world: World) -> dict[str, Any]:
    """Return the spellings of a world and the order of its constructions, for `parsing.js`."""
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
            "characters": MOST_CHARACTERS,
            "phrase": spellings.longest,
        },
        "actions": sorted(grammar.collect_fillers(grammar.action_role)),
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
            for construction in grammar.plain_constructions
        ],
    }


def describe_vocabulary(world: World) -> dict[str, Any]:
    """Return the words that answer each role."""
    vocabulary = Vocabulary.from_world(world)
    return {
        "fillers": list(vocabulary.fillers),
        "places": vocabulary.places.tolist(),
        "participants": list(vocabulary.participants),
        "verbs": vocabulary.verbs,
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


def bundle_page(data: dict[str, Any]) -> str:
    """Return the page with data embedded in it.

    Parameters
    ----------
    data : dict
        What `engine.js` reads, as JSON values.
    """
    page = _read_static("index.html")
    icon = base64.b64encode(_read_static("favicon.svg").encode()).decode()
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    style = f"\n{_read_static('style.css')}"
    theme, scripts = (
        "\n" + code.replace("</script", "<\\/script")
        for code in (_read_static("theme.js"), bundle_scripts(_read_static, ENTRY))
    )
    replaced = {
        'href="static/favicon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        '<link rel="stylesheet" href="static/style.css">': f"<style>{style}</style>",
        '<script src="static/theme.js"></script>': f"<script>{theme}</script>",
        '<script type="module" src="static/app.js"></script>': (
            f'<script type="application/json" id="{DATA}">{embedded}</script>\n'
            f'  <script type="module">{scripts}</script>'
        ),
        '<meta name="color-scheme"': (
            '<meta http-equiv="Content-Security-Policy" '
            f'content="{_make_policy(style, theme, scripts)}">\n'
            '  <meta name="color-scheme"'
        ),
    }
    for old, new in replaced.items():
        if page.count(old) != 1:
            raise ValueError(
                f"index.html has {old!r} {page.count(old)} times, and must have it once."
            )
        page = page.replace(old, new)
    return page


def bundle_scripts(read: Callable[[str], str], entry: str) -> str:
    """Return a module and everything that it imports as one script.

    Parameters
    ----------
    read : callable
        Returns the text of a module by its file name.
    entry : str
        The module to begin with.

    Raises
    ------
    ValueError
        Where modules import each other in a circle, or a line cannot be bundled.
    """
    sources: dict[str, str] = {}
    imports: dict[str, list[str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = read(name)
            imports[name] = [found[2] for found in IMPORT.finditer(sources[name])]
            waiting += imports[name]
    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other: {' → '.join(error.args[1])}.") from None
    return "\n".join(_wrap_module(name, sources[name]) for name in order)


def _wrap_module(name: str, source: str) -> str:
    """Return a module as a function that returns its exports, assigned to a constant."""
    exported = ", ".join(EXPORT.findall(source))
    body = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_name_module(found[2])};\n", source)
    body = EXPORT.sub("", body)
    left = LEFT_OVER.search(body) or RENAMED.search(body)
    if left:
        raise ValueError(f"{name} has a line that cannot be bundled: {left[0]!r}.")
    return f"const {_name_module(name)} = (() => {{\n{body}return {{ {exported} }};\n}})();"


def _name_module(file: str) -> str:
    return f"module_{file.removesuffix('.js').replace('.', '_')}"


def _make_policy(style: str, *scripts: str) -> str:
    """Return a content security policy that allows this style and these scripts only."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    policy = (
        f"default-src 'none'; style-src {digest(style)}; "
        f"script-src {' '.join(map(digest, scripts))}; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    return html.escape(policy, quote=False)


def _read_static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
