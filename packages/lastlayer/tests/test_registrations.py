"""The comparisons that were registered before their results were looked at: docs/explanations."""

from hashlib import sha256
from pathlib import Path

import pytest

# of the files as they were when nothing had been looked at; a change is a new registration
CHECKSUMS = {
    "strangers": "68b372efbf49bcd3e3be071f39d270282aa66a4973853935cf1b25eda94507c4",
    "strangers_2": "05d1af4a299b1c64e97fb21cea68bc3c8af0b6ad7d5952aaf14e8157dde37de0",
    "shift": "2d19f129adf123cb309e695addece052032060d5b314acccf22084d933b7e203",
}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_a_registration_has_not_changed_since(name: str) -> None:
    path = Path(__file__).parents[3] / "benchmarks" / f"{name}.toml"
    assert sha256(path.read_bytes()).hexdigest() == CHECKSUMS[name]
