"""Results on disk: what comes back is what was put, or nothing and a note."""

import math
import struct
from pathlib import Path

import pytest
from equivocal.store.keyed import Store

CONTENT = {
    "effect": 0.1 + 0.2,
    "low": math.nan,
    "high": math.inf,
    "tiny": 5e-324,
    "zero": -0.0,
    "converged": True,
    "rows": "every word",
    "table": 'a,b\n"1,5",ü\n',
    "none": None,
}


def bits(value: object) -> object:
    """Floats by their bits: NaN equals itself, −0 is not 0."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def test_result_comes_back_to_the_last_bit_and_in_its_order(tmp_path: Path) -> None:
    Store(tmp_path).put("abc", CONTENT)
    found = Store(tmp_path).get("abc")
    assert list(found) == list(CONTENT)
    assert [bits(value) for value in found.values()] == [bits(v) for v in CONTENT.values()]
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["abc.json"]


@pytest.mark.filterwarnings("error")
def test_missing_result_is_no_matter_for_a_note(tmp_path: Path) -> None:
    assert Store(tmp_path).get("abc") is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("0.30000000000000004", "0.3000000000000001"),
        lambda text: text.replace('"abc"', '"abd"'),
        lambda text: text.replace("sha256", "sha255"),
        lambda _: "[" * 100_000,
        lambda _: "[]",
        lambda _: "",
        lambda text: "\0" * len(text),
    ],
)
def test_damaged_result_is_named_and_not_used(tmp_path: Path, spoil) -> None:
    store = Store(tmp_path)
    store.put("abc", CONTENT)
    path = tmp_path / "results" / "abc.json"
    text = spoil(path.read_text(encoding="utf-8"))
    assert text != path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    with pytest.warns(UserWarning, match=r"abc\.json is damaged"):
        assert store.get("abc") is None


def test_any_flipped_bit_is_seen(tmp_path: Path) -> None:
    """A flip that JSON reads as the same result, as a tab for a blank, may pass."""
    store = Store(tmp_path)
    store.put("abc", {"effect": 0.1})
    path = tmp_path / "results" / "abc.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.warns(UserWarning, match="damaged"):
            assert store.get("abc") is None
