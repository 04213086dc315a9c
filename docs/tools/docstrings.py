"""Turn docstrings into Markdown: they are written for an editor, where columns and `>>>` show.

An extension of Griffe, which reads the docstrings for the reference (properdocs.yml). Indented text
is a code block already, and Griffe itself recognises examples in a section of their own.
"""

import re
from typing import Any

import griffe

__all__ = ["ConvertToMarkdown"]

EXAMPLE = re.compile(r"^>>> .*(?:\n\S.*)*", re.MULTILINE)  # up to a blank line
COLUMNS = re.compile(r"^\S+ {2,}\S.*(?:\n\S+ {2,}\S.*)+", re.MULTILINE)  # two lines or more


class ConvertToMarkdown(griffe.Extension):
    """Put a fence around every example and every table that is made of spaces."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of one module, class, function or attribute."""
        if obj.docstring and "Examples\n---" not in obj.docstring.value:
            text = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = COLUMNS.sub(r"```text\n\g<0>\n```", text)
