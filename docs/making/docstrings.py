"""Docstrings as Markdown: they are written to be read in an editor, where columns and `>>>` show.

An extension of Griffe, which reads them for the reference (mkdocs.yml). What is indented is a block
of code already, and examples in a section of their own are known to Griffe.
"""

import re
from typing import Any

import griffe

__all__ = ["AsMarkdown"]

EXAMPLE = re.compile(r"^>>> .*(?:\n\S.*)*", re.MULTILINE)  # up to a blank line
COLUMNS = re.compile(r"^\S+ {2,}\S.*(?:\n\S+ {2,}\S.*)+", re.MULTILINE)  # two lines or more


class AsMarkdown(griffe.Extension):
    """A fence around every example and every table that is made of spaces."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring and "Examples\n---" not in obj.docstring.value:
            text = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = COLUMNS.sub(r"```text\n\g<0>\n```", text)
