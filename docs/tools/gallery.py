"""Renew the pictures of docs/gallery.md by running the commands below them.

    python docs/tools/gallery.py            run every command, then copy its pictures
    python docs/tools/gallery.py --copy     copy what the commands wrote before
    python docs/tools/gallery.py people     only the commands that contain this word

A block of commands belongs to the pictures above it, up to the previous block. It ends with a
comment that names a folder, `# runs/paper/figures/`: picture images/…/NAME.png is that folder's
NAME.png. A block without such a comment, such as a page in a browser, is renewed by hand. Commands
run at the top of the repository and resume what is finished.
"""

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

__all__ = ["ROOT", "Entry", "copy_picture", "find_entries", "main", "parse_commands"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PARTS = re.compile(r"!\[[^\]]*\]\(([^)]+)\)|^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
COLOURS = 256  # in the palette; figures have few colours, and such files are a third as large
WIDEST = 1800  # pixels


@dataclass(frozen=True)
class Entry:
    """Pictures and the block of commands that draws them."""

    images: list[Path]  # in docs/
    block: str

    @property
    def folder(self) -> Path | None:
        """The folder in which the commands leave the pictures."""
        found = re.search(r"  # (\S+)/$", self.block, re.MULTILINE)
        return ROOT / found[1] if found else None


def find_entries(text: str) -> list[Entry]:
    """Return all blocks of the page that have pictures above them."""
    found, images = [], []
    for image, block in PARTS.findall(text):
        if image:
            images.append(ROOT / "docs" / image)
        elif images:
            found.append(Entry(images, block))
            images = []
    return found


def parse_commands(block: str) -> list[list[str]]:
    """Return each command of a block as a list of words."""
    joined = block.replace("\\\n", " ")
    lines = re.findall(r"^\$ (.*)$", joined, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def copy_picture(source: Path, image: Path) -> None:
    """Save a smaller copy that looks the same."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDEST:
        size = (WIDEST, round(picture.height * WIDEST / picture.width))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    image.parent.mkdir(parents=True, exist_ok=True)
    palette = picture.quantize(COLOURS, dither=Image.Dither.NONE)
    palette.save(image, optimize=True)


def main(arguments: list[str]) -> None:
    """Run the chosen commands, then copy their pictures."""
    wanted = [word for word in arguments if word != "--copy"]
    chosen = [
        (entry, entry.folder)
        for entry in find_entries(PAGE.read_text(encoding="utf-8"))
        if entry.folder is not None and all(word in entry.block for word in wanted)
    ]
    python = {"python": [sys.executable], "equivocal": [sys.executable, "-m", "equivocal"]}
    blocks = {entry.block: folder for entry, folder in chosen if "--copy" not in arguments}
    for block, folder in blocks.items():
        folder.mkdir(parents=True, exist_ok=True)
        for program, *rest in parse_commands(block):
            subprocess.run([*python[program], *rest], cwd=ROOT, check=True)
    for entry, folder in chosen:
        for image in entry.images:
            copy_picture(folder / image.name, image)


if __name__ == "__main__":
    main(sys.argv[1:])
