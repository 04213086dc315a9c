"""The page as one HTML file: its style, its scripts and the networks inside it.

The sources are those that `equivocal serve` sends (`static/`). Each ES module becomes a function
that returns what the module exports, in an order in which every module follows those it imports:

    const dom = (() => { …; return { byId, html }; })();
    const form = (() => { const { byId } = dom; …; return { setUpForm }; })();

What the scripts may use is kept simple, and anything else is refused: lines that begin with
`import { a, b } from "./c.js";`, and `export` before a declaration.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from importlib import resources
from typing import Any

__all__ = ["bundle_page", "bundle_scripts"]

STATIC = resources.files("equivocal.web") / "static"
ENTRY = "app.js"
IMPORT = re.compile(r'^import \{([\w\s,]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
RENAMED = re.compile(r"^const \{.*\bas\b.*\} = module_.*", re.MULTILINE)
DATA = "equivocal-data"  # id of the element that engine.js reads


def bundle_page(data: dict[str, Any]) -> str:
    """Return the page with these data inside it.

    Parameters
    ----------
    data : dict
        What `engine.js` reads, as JSON has it.
    """
    page = _read("index.html")
    icon = base64.b64encode(_read("favicon.svg").encode()).decode()
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    style = f"\n{_read('style.css')}"
    theme, scripts = (
        "\n" + code.replace("</script", "<\\/script")
        for code in (_read("theme.js"), bundle_scripts(_read, ENTRY))
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
            f'content="{_restrict(style, theme, scripts)}">\n'
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
    """Return one script that does what a module and all that it imports do.

    Parameters
    ----------
    read : callable
        Gives the text of a module by its file name.
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
    exported = EXPORT.findall(source)
    body = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_name(found[2])};\n", source)
    body = EXPORT.sub("", body)
    left = LEFT_OVER.search(body) or RENAMED.search(body)
    if left:
        raise ValueError(f"{name} has a line that cannot be bundled: {left[0]!r}.")
    return f"const {_name(name)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"


def _name(file: str) -> str:
    return f"module_{file.removesuffix('.js').replace('.', '_')}"


def _restrict(style: str, *scripts: str) -> str:
    """Return a content security policy: nothing from elsewhere, and no scripts but these."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    policy = (
        f"default-src 'none'; style-src {digest(style)}; "
        f"script-src {' '.join(map(digest, scripts))}; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    return html.escape(policy, quote=False)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
