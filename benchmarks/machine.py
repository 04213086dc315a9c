"""Where results go, and the facts about the machine that they are stored with."""

from pathlib import Path

from benchmarks.sampler.facts import machine_facts

__all__ = ["RESULTS", "machine_facts"]

RESULTS = Path(__file__).parent / "results"
