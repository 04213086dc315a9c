"""Files made to do harm: each is refused with a sentence, before it takes memory or time."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from equivocal.store import read_json, read_text, read_toml
from equivocal.world import World
from lastlayer import Posterior
from lastlayer.errors import UserError

HUGE = 1 << 41  # more than any machine has


def tensors(path: Path, header: dict[str, object], data: int) -> Path:
    """Write a safetensors file with this header, and bytes of data, which take no room on disk."""
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + data)
    return path


def array(shape: tuple[int, ...], dtype: str = "F32") -> dict[str, object]:
    end = int(np.prod(shape, dtype=object)) * 4
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"\xff" * 8), "shorter than its header"),
        (lambda path: tensors(path, {"mean": array((1 << 40,))}, 8), "file not fully covered"),
        (
            lambda path: tensors(path, {"mean": array((HUGE // 4,))}, HUGE),
            "it has 2 TiB, and at most",
        ),
        (lambda path: tensors(path, {"mean": array((4,), dtype="I32")}, 16), "only F32 and F64"),
        (os.mkfifo, "not an ordinary file"),
    ],
)
def test_tensors(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "posterior.safetensors"
    make(path)
    with pytest.raises(UserError, match=message):
        Posterior.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = '\xff'", "not UTF-8"),
        (b"#" * (1 << 20) + b"#", "at most 1 MiB"),
    ],
    ids=range(3),
)
def test_toml(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_toml(path)


def test_json_and_text(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match="nested too deeply"):
        read_json(path)
    os.truncate(path, HUGE)
    with pytest.raises(UserError, match="it has 2 TiB, and at most 64 MiB are read"):
        read_json(path)
    with pytest.raises(UserError, match="not an ordinary file"):
        read_text("/dev/zero")


def many_roles(number: int) -> str:
    """Return a world of one action with so many roles, each said or left unsaid: 2ⁿ sentences."""
    roles = [f"r{i}" for i in range(number)]
    words = "\n".join(f'{role}s = ["{role}"]' for role in roles)
    fillers = "\n".join(f'{role} = "{role}s"' for role in roles)
    mentioned = ", ".join(f"{role} = 0.5" for role in roles)
    return f"""
name = "roles"
roles = {json.dumps(["action", *roles])}
[words.things]
{words}
[words.doings]
eat = ["eating"]
[actions.eat]
{fillers}
[[constructions]]
name = "all"
order = {json.dumps(["action", *roles])}
mentioned = {{ {mentioned} }}
"""


def test_sentences_are_counted_before_they_are_listed() -> None:
    """2⁷⁰ of them overflow an integer of 64 bits."""
    assert World.from_toml(many_roles(3)).is_exact
    assert not World.from_toml(many_roles(70)).is_exact
