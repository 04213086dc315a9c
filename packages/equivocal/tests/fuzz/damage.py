"""Ways to damage a file: at random, and where it hurts.

A `Damage` is a few numbers that hypothesis can draw and shrink; what they do to a file is fixed.
"""

import json
import re
import tomllib
from typing import Any

import tomli_w
from hypothesis import strategies as st

INTEGERS = (
    0,
    1,
    2,
    127,
    255,
    2**15,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
)
NUMBERS = ("0", "-1", "1e400", "-1e400", "nan", "inf", "99999999999999999999", "1" * 5000, "1e-320")
TEXTS = (
    *("", "..", "../x", "/etc/hostname", "a/../../b", "\\\\host\\x", "C:x", "1e999999999", "1/0"),
    *("absent", "paper", "x" * 3000, "é\u202e", "{}", "[]", "[" * 200, "=", ";", ".", "a.b.c"),
)
HEADER = 1200  # bytes in which headers of small files lie

VALUES = st.recursive(
    st.one_of(
        st.sampled_from([*TEXTS, *INTEGERS[:8], -1, 0.5, float("inf"), float("nan"), True]),
        st.text(max_size=4),
        st.floats(-2, 2),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
KINDS = ("flip", "cut", "insert", "drop", "double", "swap", "integer", "number", "text")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.booleans(), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, steps: list[tuple[str, bool, int, int]]) -> bytes:
    """The file after each step; the flag says whether to stay near its beginning."""
    for kind, near, first, second in steps:
        size = min(len(data), HEADER) if near else len(data)
        here, there = sorted((first % (size + 1), second % (size + 1)))
        data = _STEPS[kind](data, here, there, first ^ second)
    return data


def _flip(data: bytes, here: int, _there: int, number: int) -> bytes:
    if here >= len(data):
        return data
    return data[:here] + bytes([data[here] ^ (1 << number % 8)]) + data[here + 1 :]


def _integer(data: bytes, here: int, there: int, number: int) -> bytes:
    """An extreme number in place of 4 or 8 bytes, either end first, where numbers stand."""
    width, order = (4, 8)[number % 2], ("big", "little")[number // 2 % 2]
    value = INTEGERS[there % len(INTEGERS)] % 256**width
    here -= here % 4
    return data[:here] + value.to_bytes(width, order) + data[here + width :]


def _number(data: bytes, here: int, there: int, _number: int) -> bytes:
    """Another number in place of the next one that is written in digits."""
    found = re.compile(rb"-?\d[\d._]*").search(data, here)
    new = NUMBERS[there % len(NUMBERS)].encode()
    return data if found is None else data[: found.start()] + new + data[found.end() :]


def _text(data: bytes, here: int, there: int, _number: int) -> bytes:
    """Another text in place of the next one in quotes or between commas."""
    found = re.compile(rb"(?<=[\",\n])[^\",\n]+(?=[\",\n])").search(data, here)
    new = TEXTS[there % len(TEXTS)].encode()
    return data if found is None else data[: found.start()] + new + data[found.end() :]


_STEPS = {
    "flip": _flip,
    "cut": lambda data, here, _there, _number: data[:here],
    "insert": lambda data, here, there, _number: data[:here] + bytes([there % 256]) + data[here:],
    "drop": lambda data, here, there, _number: data[:here] + data[there:],
    "double": lambda data, here, there, _number: data[:there] + data[here:],
    "swap": lambda data, here, there, _number: data[there:] + data[here:there] + data[:here],
    "integer": _integer,
    "number": _number,
    "text": _text,
}


def replaced(data: bytes, kind: str, place: int, value: Any) -> bytes:
    """A file that can be parsed, with one of its values replaced by another."""
    if kind == "safetensors":
        size = int.from_bytes(data[:8], "little")
        header = json.dumps(_with(json.loads(data[8 : 8 + size]), place, value)).encode()
        return len(header).to_bytes(8, "little") + header + data[8 + size :]
    if kind == "json":
        return json.dumps(_with(json.loads(data), place, value)).encode()
    return tomli_w.dumps(_with(tomllib.loads(data.decode()), place, value)).encode()


def _with(content: Any, place: int, value: Any) -> Any:
    """`content` with the value at one of its places, at any depth, replaced."""
    if not isinstance(content, dict | list) or not content:
        return value
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key, deeper = keys[place % len(keys)], place // len(keys)
    inner = content[key]
    deep = deeper % 3 and isinstance(inner, dict | list) and inner
    content[key] = _with(inner, deeper // 3, value) if deep else value
    return content
