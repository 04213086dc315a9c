"""What a package exports is documented in NumPy style: parameters, returns and errors."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

NOTHING = {None, "None", inspect.Signature.empty}


def test_public_names_document_parameters_returns_and_errors() -> None:
    """Those that the two packages export, and the classes' public methods."""
    lacking = {
        name: gaps
        for package in ("equivocal", "lastlayer")
        for name, call in list_exported(package)
        if (gaps := find_gaps(call))
    }
    assert not lacking


def test_gaps_are_found() -> None:
    def call(first: int, *others: int, last: int = 0, **options: int) -> int:  # noqa: D417
        """Do something.

        Parameters
        ----------
        first, last : int
            Two.
        *others : int
            More: `options` are not listed here.
        """
        if not options:
            raise ValueError
        return first + last + sum(others)

    assert find_gaps(call) == ["Parameters: options", "Returns", "Raises"]


def list_exported(package: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """List functions and public methods; generated ones, properties and other values are not."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                method = inspect.unwrap(getattr(member, "__func__", member))
                if not attribute.startswith("_") and is_ours(method):
                    yield f"{name}.{attribute}", method
        elif is_ours(function := inspect.unwrap(value) if callable(value) else None):
            yield name, function


def is_ours(value: object) -> bool:
    return inspect.isfunction(value) and value.__module__.split(".")[0] in {
        "equivocal",
        "lastlayer",
    }


def find_gaps(call: Callable[..., Any]) -> list[str]:
    """Find what a docstring lacks: parameters by name, and sections."""
    sections = split_sections(inspect.getdoc(call) or "")
    signature = inspect.signature(call)
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    listed = re.findall(r"^\*{0,2}(\w.*)$", sections.get("Parameters", ""), re.MULTILINE)
    documented = {part.strip(" *") for line in listed for part in line.split(" : ")[0].split(",")}
    gaps = [f"Parameters: {name}" for name in names if name not in documented]
    if signature.return_annotation not in NOTHING and not {"Returns", "Yields"} & set(sections):
        gaps.append("Returns")
    if raises_itself(call) and "Raises" not in sections:
        gaps.append("Raises")
    return gaps


def split_sections(text: str) -> dict[str, str]:
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def raises_itself(call: Callable[..., Any]) -> bool:
    """Whether there is a `raise` with an error in the body; `raise` alone passes one on."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(call)))
    return any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))
