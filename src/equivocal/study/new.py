"""The example that `equivocal study new` writes: a study file and its stimuli, ready to run."""

from importlib import resources
from pathlib import Path

from equivocal.errors import UserError
from equivocal.store.files import write_text_atomically

__all__ = ["write_example"]

_EXAMPLE = resources.files("equivocal.study") / "example"


def write_example(path: Path) -> Path:
    """Write `path` and a stimulus file of the same name beside it; returns the latter."""
    stimuli = path.with_suffix(".csv")
    if path.suffix != ".toml":
        raise UserError(f"a study's file ends in .toml, got {path.name!r}.")
    for file in (path, stimuli):
        if file.exists():
            raise UserError(f"{file} exists already; choose another name or remove it first.")
    text = (_EXAMPLE / "study.toml").read_text(encoding="utf-8").replace("STUDY", path.stem)
    write_text_atomically(stimuli, (_EXAMPLE / "stimuli.csv").read_text(encoding="utf-8"))
    write_text_atomically(path, text)
    return stimuli
