"""Where results go, and the facts about the machine that they are stored with."""

from pathlib import Path

from equivocal.bench.facts import machine_facts

__all__ = ["RESULTS", "machine_facts"]

RESULTS = Path(__file__).parent / "results"
