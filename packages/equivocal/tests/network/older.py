"""Runs as earlier versions wrote them: checksums in `run.toml`, its own on top, and no record."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.store import read_toml

__all__ = ["make_older", "sign"]


def sign(content: dict[str, Any]) -> str:
    """Return the text of a settings file with its own checksum on top."""
    text = tomli_w.dumps(content)
    return f"# sha256 of all that follows: {hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def make_older(run: Path, checksums: dict[str, str] | None = None) -> None:
    """Turn a run into one of an earlier version, with its own checksums or those given."""
    files = json.loads((run / "records" / "networks.json").read_text())["files"]
    del files["run.toml"]
    content = read_toml(run / "run.toml") | {"checksums": files if checksums is None else checksums}
    (run / "run.toml").write_text(sign(content), encoding="utf-8")
    shutil.rmtree(run / "records")
