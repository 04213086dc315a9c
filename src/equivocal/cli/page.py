"""`equivocal page`: the page as one file that needs no server and no network."""

from pathlib import Path
from typing import Annotated

import typer

from equivocal.cli.console import out
from equivocal.errors import UserError
from equivocal.store.files import write_text_atomically

__all__ = ["page"]

MEGABYTE = 1_000_000


def page(
    out_file: Annotated[
        Path, typer.Option("--out", help="The HTML file to write; an older one is replaced.")
    ],
    world: Annotated[
        list[str] | None,
        typer.Option("--world", help="A world whose networks come with the package [all of them]."),
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Write one HTML file that answers any sentence of its worlds in a browser, without a server.

    It opens from disk, on a laptop or a phone, and fetches nothing: it contains the networks.
    """
    from equivocal.web.page import build_page

    if out_file.suffix not in (".html", ".htm"):
        raise UserError(
            f"a page ends in .html, got {str(out_file)!r}; try {out_file / 'page.html'}."
            if out_file.is_dir()
            else f"a page ends in .html, got {str(out_file)!r}; try {str(out_file) + '.html'!r}."
        )
    text = build_page([*(world or []), *(more or [])] or None)
    folder = out_file.parent
    made = "" if folder.is_dir() else f" in the new folder {folder}"  # or a slip goes unnoticed
    write_text_atomically(out_file, text)
    size = len(text.encode()) / MEGABYTE
    out.print(f"wrote {out_file}{made} ({size:.1f} MB); open it in a browser", soft_wrap=True)
