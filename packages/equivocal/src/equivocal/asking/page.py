"""The page as one HTML file that answers by itself: its style, its scripts, worlds and networks.

`static/index.html` is filled in with the style sheet, the ES modules and one element of data for
each world. Modules import each other by name (`import { html } from "dom"`): an import map gives
for each name its source as a data URL, so no server is needed and the browser keeps them apart. A
policy in the page forbids it to fetch anything.

A world's element holds base64 of a deflated block: the size of the arrays in bytes (4 bytes, little
end first), the arrays, then JSON. An array is {"array": [type, offset, length]} in the JSON. The
module `engine` reads it; `page_data` says what it contains.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from equivocal.asking.listeners import Listeners
from equivocal.asking.page_data import describe_world
from equivocal.asking.shipped import list_shipped
from equivocal.asking.source import DEFAULT_WORLD, Source

__all__ = ["build_page", "pack_data"]

STATIC = resources.files("equivocal.asking") / "static"
KINDS = {"f4": "Float32", "i2": "Int16", "u4": "Uint32"}  # NumPy's names, and JavaScript's
ALIGNED = 4  # bytes


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
