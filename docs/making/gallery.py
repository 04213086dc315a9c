"""Renew the pictures of docs/gallery.md by the commands that stand below them.

    python docs/making/gallery.py            run every command, then take its pictures over
    python docs/making/gallery.py --copy     take over what the commands wrote before
    python docs/making/gallery.py people     only the commands that hold this word

A block of commands belongs to the pictures above it, up to the block before. It ends with a comment
that names a folder, `# runs/paper/figures/`: picture images/…/NAME.png is that folder's NAME.png. A
block without one, such as a page in a browser, is for hands. Commands run at the top of the
repository, and take up what is finished.
"""

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

__all__ = ["ROOT", "Entry", "commands_of", "entries", "main", "take_over"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PARTS = re.compile(r"!\[[^\]]*\]\(([^)]+)\)|^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
COLOURS = 256  # of a palette; figures have few, and such files are a third as large
WIDEST = 1800  # pixels


@dataclass(frozen=True)
class Entry:
    """Pictures and the block that makes them."""

    images: list[Path]  # in docs/
    block: str

    @property
    def folder(self) -> Path | None:
        """Where the commands leave the pictures."""
        found = re.search(r"  # (\S+)/$", self.block, re.MULTILINE)
        return ROOT / found[1] if found else None


def entries(text: str) -> list[Entry]:
    """All blocks of the page that have pictures above them."""
    found, images = [], []
    for image, block in PARTS.findall(text):
        if image:
            images.append(ROOT / "docs" / image)
        elif images:
            found.append(Entry(images, block))
            images = []
    return found


def commands_of(block: str) -> list[list[str]]:
    """Each command of a block as a list of words."""
    joined = block.replace("\\\n", " ")
    lines = re.findall(r"^\$ (.*)$", joined, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def take_over(source: Path, image: Path) -> None:
    """A smaller copy with the same look."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDEST:
        size = (WIDEST, round(picture.height * WIDEST / picture.width))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    image.parent.mkdir(parents=True, exist_ok=True)
    palette = picture.quantize(COLOURS, dither=Image.Dither.NONE)
    palette.save(image, optimize=True)


def main(arguments: list[str]) -> None:
    """Run what was asked for."""
    wanted = [word for word in arguments if word != "--copy"]
    chosen = [
        (entry, entry.folder)
        for entry in entries(PAGE.read_text(encoding="utf-8"))
        if entry.folder is not None and all(word in entry.block for word in wanted)
    ]
    python = {"python": [sys.executable], "equivocal": [sys.executable, "-m", "equivocal"]}
    blocks = {entry.block: folder for entry, folder in chosen if "--copy" not in arguments}
    for block, folder in blocks.items():
        folder.mkdir(parents=True, exist_ok=True)
        for program, *rest in commands_of(block):
            subprocess.run([*python[program], *rest], cwd=ROOT, check=True)
    for entry, folder in chosen:
        for image in entry.images:
            take_over(folder / image.name, image)


if __name__ == "__main__":
    main(sys.argv[1:])
