"""What particles read, on disk: a posterior takes seconds, so its readings are found again.

    DIR/readings/CONSTRUCTION/NN-KEY.json      of network NN

KEY is of the network's weights, the sentences and every setting that matters. A run that was
stopped goes on where it was. The file holds numbers alone; what they are of, the key says.
"""

import hashlib
import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equivocal.gestalt import Run
from equivocal.gestalt.storage import name_arrays
from equivocal.store import UnreadableError, read_json
from equivocal.store.files import write_text_atomically
from equivocal.store.stages import hash_content
from equivocal.suites.construction_items import Construction

__all__ = ["MEASURED", "Readings", "find_readings", "keep_readings", "kept_path"]

MEASURED = ("answer", "rival", "neither", "belief", "rival_belief")


class Readings(NamedTuple):
    """What comprehenders made of every item."""

    values: np.ndarray  # (items, MEASURED), each between 0 and 1
    converged: bool  # whether their posterior came to rest


def kept_path(
    folder: Path, construction: Construction, run: Run, index: int, settings: dict[str, object]
) -> Path:
    """Where the readings of one network's posterior lie; `settings` are those of the posterior."""
    weights = hashlib.sha256()
    for array in name_arrays(run.models[index]).values():
        weights.update(np.asarray(array).tobytes())
    asked = [
        (str(item.utterance), *map(asdict, item.questions))  # the order counts, names do not
        for item in construction.items
    ]
    key = hash_content(weights.hexdigest(), asked, asdict(run.settings), settings)
    return folder / "readings" / construction.name / f"{index:02d}-{key}.json"


def keep_readings(path: Path, readings: Readings) -> None:
    """Write readings, every digit of them; `find_readings` reads them back."""
    content = {"converged": readings.converged, "values": readings.values.tolist()}
    write_text_atomically(path, json.dumps(content | {"sha256": _checksum(content)}) + "\n")


def find_readings(path: Path, items: int) -> Readings | None:
    """The readings of so many items; None where they are not there or cannot be read."""
    if not path.exists():
        return None
    try:
        content = read_json(path)
        values = np.array(content["values"], float)
        if values.shape != (items, len(MEASURED)) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("it does not hold a number between 0 and 1 for everything asked")
        if not isinstance(content["converged"], bool):
            raise ValueError("it does not say whether the posterior came to rest")
        if content.pop("sha256", None) not in (None, _checksum(content)):  # older files have none
            raise ValueError("it is not as it was written")
    except (UnreadableError, ValueError, KeyError, TypeError, OverflowError) as error:
        reason = error.reason if isinstance(error, UnreadableError) else str(error)
        warnings.warn(f"{path} cannot be read ({reason}); it is sampled again.", stacklevel=2)
        return None
    return Readings(values, content["converged"])


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
