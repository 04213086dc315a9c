"""The folder of results, and the description of the machine that is stored with them."""

from pathlib import Path

from benchmarks.sampler.facts import describe_machine

__all__ = ["RESULTS", "describe_machine"]

RESULTS = Path(__file__).parent / "results"
