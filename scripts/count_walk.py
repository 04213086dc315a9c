"""Count the modules that a sentence and an array pass through, and print both walks.

    python scripts/count_walk.py

The sentence: the modules of `equivocal` that make something new of the stimuli in a quick
`reproduce`, from the text in the stimulus file to `report.html`. One of their functions receives
the stimuli or what was made of them, and returns another object made of it: an `Utterance`, items,
an array, labelled arrays and tables with a dimension or column `condition` or `item`, the claims, a
figure, a text, the page. Modules that only pass such an object on, or keep it in a file, do not
count; nor do the sentences of the claim about the world `slips`, which are others, and the
listeners that beliefs are compared with.

The array: the modules of `lastlayer` of which a function receives an array and returns another one
between the call of `sample_posterior` with its defaults and the `Posterior` that it returns.

Modules stand in the order in which they are first reached.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import jax
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from equivocal.paper.inference import Beliefs
from equivocal.paper.report import StudyResult
from equivocal.world import Utterance
from equivocal.world.items import Item, Items

ABOUT = {"condition", "item", "in_short"}  # dimensions and columns of what is about a stimulus
OBJECTS = (Utterance, Item, Items, Beliefs, StudyResult)
MADE = (np.ndarray, jax.Array, Figure, Path)
LEFT_OUT = (
    *("equivocal/truth.py", "world/reversals.py"),
    *("world/learner.py", "world/learning.py", "world/hearing.py", ".j2"),
)
SMALL = {  # the walk is the same, and shorter to watch
    "training.sentences": 300,
    "training.epochs": 2,
    "training.networks": 2,
    "exact.networks": 0,
    "path.num_steps": 3,
    "steps.networks": 0,
}


def main() -> None:
    """Print both walks and, last, the two numbers."""
    sentence, array = walk_sentence(), walk_array()
    for what, modules in (("sentence", sentence), ("array", array)):
        print(f"The {what} passes {len(modules)} modules:", *modules, sep="\n  ")
    print(f"modules of the sentence: {len(sentence)}")
    print(f"modules of the array: {len(array)}")


def walk_sentence() -> list[str]:
    """List the modules of `equivocal` that the stimuli pass."""
    from equivocal.paper.run import run_study
    from equivocal.paper.settings import load_study

    settings = load_study("paper", SMALL, quick=True)
    rows = settings.stimuli_path.read_text(encoding="utf-8").splitlines()[1:]
    texts = {part.strip(' "') for row in rows for part in row.split('"')[1:2]}

    def is_about(value: Any, depth: int = 2) -> bool:
        if isinstance(value, str):
            return any(text in value for text in texts)
        if isinstance(value, OBJECTS):
            return True
        if isinstance(value, xr.Dataset | xr.DataArray):
            return bool(ABOUT & {*map(str, value.coords), *map(str, value.dims)})
        if isinstance(value, pd.DataFrame):
            return bool(ABOUT & {*map(str, value.columns), *map(str, value.index.names)})
        return depth > 0 and any(is_about(part, depth - 1) for part in list_parts(value))

    with TemporaryDirectory() as folder:
        return watch("equivocal", lambda: run_study(settings, folder, workers=1), is_about)


def walk_array() -> list[str]:
    """List the modules of `lastlayer` that arrays pass on their way to a posterior."""
    from lastlayer import sample_posterior

    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 5))
    targets = (features @ rng.normal(size=(5, 3)) + rng.logistic(size=(200, 3)) > 0).astype(float)
    return watch(
        "lastlayer", lambda: sample_posterior(features, targets, prior_variance=1.0), holds_array
    )


def holds_array(value: Any, depth: int = 2) -> bool:
    """Return whether a value is an array, or a container of arrays."""
    if isinstance(value, np.ndarray | jax.Array):
        return True
    return depth > 0 and any(holds_array(part, depth - 1) for part in list_parts(value))


def list_parts(value: Any) -> Iterator[Any]:
    """Yield some of the parts of a container, or the fields of an object of plain data."""
    if isinstance(value, dict):
        yield from list(value.values())[:50]
    elif isinstance(value, list | tuple | set):
        yield from list(value)[:50]


def watch(package: str, call: Callable[[], object], is_about: Callable[[Any], bool]) -> list[str]:
    """Make a call, and list the modules of a package that make something new of what is asked for.

    Arrays without labels are followed by identity; in a compiled function JAX's tracers stand for
    them.
    """
    root = str(Path(sys.modules[package].__file__ or "").parent) + os.sep
    passed: dict[str, None] = {}
    made: dict[int, Any] = {}  # by id, and kept, so that no other object has it
    holders: dict[int, FrameType] = {}

    def is_made(value: Any) -> bool:
        parts = [value, *list_parts(value)]
        return any(id(part) in made for part in parts if holds_array(part, 0)) or is_about(value)

    def is_traced(frame: FrameType) -> bool:
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(root):
            caller = caller.f_back
        traced = any(isinstance(value, jax.core.Tracer) for value in frame.f_locals.values())
        return traced and id(caller) in holders

    def profile(frame: FrameType, event: str, value: Any) -> None:
        path = frame.f_code.co_filename
        if not path.startswith(root) or path.endswith(LEFT_OUT):
            return
        if event == "call":
            holders.pop(id(frame), None)
            if is_traced(frame) or any(map(is_made, frame.f_locals.values())):
                holders[id(frame)] = frame
        elif event == "return" and id(frame) in holders:
            del holders[id(frame)]
            if id(value) not in made and (is_about(value) or isinstance(value, MADE)):
                made[id(value)] = value
                made.update((id(part), part) for part in list_parts(value))
                module = path.removeprefix(root).removesuffix(".py").replace(os.sep, ".")
                passed.setdefault(module)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(passed)


if __name__ == "__main__":
    main()
