"""The modules of the page in one script: what they share, and what is refused."""

import os
import re
import subprocess
import sys

import pytest

from equivocal.asking.page import STATIC, bundle_page, bundle_scripts
from needs import needs


def bundle(modules: dict[str, str]) -> str:
    return bundle_scripts(modules.__getitem__, "app.js")


def test_modules_keep_their_own_names() -> None:
    """Two modules with the same private name, one of them imported twice."""
    needs("node")
    script = bundle(
        {
            "a.js": "const SIZE = 1;\nlet calls = 0;\n"
            "export const count = () => (calls += SIZE);\n",
            "b.js": 'import { count } from "./a.js";\nconst SIZE = 10;\n'
            "export function twice() { return count() + count() * SIZE; }\n",
            "app.js": 'import { count } from "./a.js";\nimport {\n  twice,\n} from "./b.js";\n'
            "console.log(twice(), count());\n",
        }
    )
    printed = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert printed.stdout == "21 3\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export default 3;", "cannot be bundled: 'export default 3;'"),
        ('import * as b from "./b.js";', "cannot be bundled"),
        ('import { b as c } from "./b.js";', "cannot be bundled"),
        ('import { b } from "./app.js";', "modules import each other: app.js"),
    ],
)
def test_what_cannot_be_bundled_is_refused(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundle({"app.js": f"{line}\n", "b.js": "export const b = 1;\n"})


def test_page_holds_all_it_needs() -> None:
    page = bundle_page({"worlds": ["</script><b>"]})
    assert "static/" not in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "</script><b>" not in page
    for script in STATIC.iterdir():
        if script.name.endswith(".js"):
            # the first comment of a module says what it is for
            assert f"// {script.name}: " in page, f"{script.name} is not on the page"


def test_the_grammar_is_the_same_in_every_process() -> None:
    """Sets of words come in another order in each process."""
    code = (
        "import json; from equivocal.asking.page import describe_grammar; from equivocal.world "
        "import World; print(json.dumps(describe_grammar(World.load('paper'))))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
