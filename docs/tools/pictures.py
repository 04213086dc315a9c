"""Renew the pictures of docs/images by the commands in pictures.toml, and make them small.

    python docs/tools/pictures.py            run every command, then copy its pictures
    python docs/tools/pictures.py --copy     copy what the commands wrote before
    python docs/tools/pictures.py people     only the commands that contain this word

Commands run at the top of the repository and resume what is finished.
"""

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from PIL import Image

__all__ = ["IMAGES", "ROOT", "load_pictures", "main"]

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
COLOURS = 256  # in the palette; figures have few colours, and such files are a third as large
WIDEST = 1800  # pixels


def load_pictures() -> dict[str, dict[str, str]]:
    """Return the command of each picture, and the folder in which it leaves the picture."""
    return tomllib.loads((ROOT / "docs" / "tools" / "pictures.toml").read_text(encoding="utf-8"))


def shrink_picture(source: Path, image: Path) -> None:
    """Save a smaller copy that looks the same."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDEST:
        size = (WIDEST, round(picture.height * WIDEST / picture.width))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    image.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(image, optimize=True)


def main(arguments: list[str]) -> None:
    """Run the chosen commands once each, then copy their pictures."""
    wanted = [word for word in arguments if word != "--copy"]
    chosen = {
        name: each
        for name, each in load_pictures().items()
        if all(word in each["command"] for word in wanted)
    }
    programs = {"python": [sys.executable], "equivocal": [sys.executable, "-m", "equivocal"]}
    for command in dict.fromkeys(each["command"] for each in chosen.values()):
        if "--copy" not in arguments:
            program, *rest = shlex.split(command)
            subprocess.run([*programs[program], *rest], cwd=ROOT, check=True)
    for name, each in chosen.items():
        source = ROOT / each["folder"] / Path(name).name if "folder" in each else IMAGES / name
        shrink_picture(source, IMAGES / name)


if __name__ == "__main__":
    main(sys.argv[1:])
