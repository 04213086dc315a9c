"""Tests that need more than the extra `dev` skip themselves, are counted, and run in `.ci/run`."""

from scripts.check_skips import find_faults

from needs import NEEDS

LACKED = {f"test_{name}": f"need {NEEDS[name].advice}" for name in ("torch", "browser", "node")}


def test_nothing_is_skipped_for_good() -> None:
    assert find_faults(LACKED, {}) == []
    listed = f"need {NEEDS['references'].advice}"
    assert find_faults(LACKED | {"test_other": listed}, {"test_other": listed}) == []
    for reason in ("need a reason", LACKED["test_torch"]):
        (fault,) = find_faults(LACKED, {"test_torch": reason})
        assert "never ran: test_torch" in fault
    (fault,) = find_faults({"test_torch": LACKED["test_torch"], "x": LACKED["test_node"]}, {})
    assert fault.startswith("was there at first: need a browser")
