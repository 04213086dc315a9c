"""Where results go, and the facts about the machine that they are stored with."""

from pathlib import Path

from benchmarks.sampler.facts import describe_machine

__all__ = ["RESULTS", "describe_machine"]

RESULTS = Path(__file__).parent / "results"
