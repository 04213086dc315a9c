"""Time and memory of a world of 2,000 words and 200 actions.

    python -m benchmarks.large_world

Two made-up worlds (see `benchmarks.worlds`): one so large that it cannot be enumerated, and one
just small enough that it can. Each is measured in a process of its own, one stage after another:
load the text, sample 100,000 sentences, collapse equal ones, list all sentences with their
probabilities, ask for a first true belief. The large world must answer the last two from a sample
and say so with a `WorldSizeWarning`; the other must not. Peak memory is that of the process after
each stage, interpreter and imports included, and can only grow.

Prints a table and writes `benchmarks/results/large_world.json`.
"""

import json
import multiprocessing
import resource
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from time import perf_counter
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from benchmarks.machine import RESULTS, describe_machine
from benchmarks.worlds import write_large_world
from equivocal.store.files import write_text_atomically

SENTENCES = 100_000
SIZES = {"large": (2_000, 200), "middling": (80, 20)}  # words, actions

Result = TypeVar("Result")


def _measure_peak() -> float:
    """Return the peak memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (2**20 if sys.platform == "darwin" else 2**10)  # bytes or KiB


def _time_stage(
    stages: dict[str, dict[str, float]], name: str, work: Callable[[], Result]
) -> Result:
    """Run one stage and record its seconds and the peak memory after it."""
    began = perf_counter()
    result = work()
    seconds = perf_counter() - began
    stages[name] = {"seconds": round(seconds, 4), "peak_mib": round(_measure_peak(), 1)}
    return result


def _measure(num_words: int, num_actions: int) -> dict[str, Any]:
    """Measure one world; runs in a fresh process, in which nothing is imported or cached."""
    stages: dict[str, dict[str, float]] = {}
    text = write_large_world(num_words, num_actions)

    package = _time_stage(stages, "import", lambda: import_module("equivocal.world"))
    world = _time_stage(stages, "load", lambda: package.World.from_toml(text))
    corpus = _time_stage(stages, "sample", lambda: world.sample(SENTENCES, seed=1))
    distinct = _time_stage(stages, "distinct", corpus.distinct)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        listed = _time_stage(stages, "sentences", lambda: world.sentences)
    start = " ".join(corpus.texts[0].split()[:2])
    _time_stage(stages, "import pandas", lambda: import_module("pandas"))
    _time_stage(stages, "true belief", lambda: world.true_beliefs(start, "patient"))
    return {
        "words": len(world.lexicon.words),
        "actions": len(world.grammar.actions),
        "tokens": len(world.tokens),
        "units": len(world.units),
        "toml_bytes": len(text.encode()),
        "is_exact": bool(world.is_exact),
        "sampled_sentences": len(corpus),
        "distinct_sampled": len(distinct.derivations),
        "listed_sentences": len(listed),
        "total_probability": sum(sentence.probability for sentence in listed),
        "size_warning": any(w.category is package.WorldSizeWarning for w in caught),
        "stages": stages,
    }


def _run_in_process(num_words: int, num_actions: int) -> dict[str, Any]:
    # spawn, and from a parent that imports little: a child inherits its parent's peak memory
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_measure, num_words, num_actions).result()


def _make_table(results: dict[str, dict[str, Any]]) -> Table:
    table = Table("", *(f"{name} world" for name in results), title="Worlds by size")
    for column in table.columns[1:]:
        column.justify = "right"

    def row(label: str, cell: Callable[[dict[str, Any]], str]) -> None:
        table.add_row(label, *(cell(result) for result in results.values()))

    row("words / actions", lambda r: f"{r['words']:,} / {r['actions']}")
    row("tokens / units", lambda r: f"{r['tokens']:,} / {r['units']:,}")
    row("enumerated", lambda r: "yes" if r["is_exact"] else "no, sampled")
    row("WorldSizeWarning", lambda r: "given" if r["size_warning"] else "none")
    row(f"distinct among {SENTENCES:,}", lambda r: f"{r['distinct_sampled']:,}")
    row("sentences listed", lambda r: f"{r['listed_sentences']:,}")
    for stage in next(iter(results.values()))["stages"]:
        spent = [result["stages"][stage] for result in results.values()]
        cells = (f"{each['seconds']:.3f} s, {each['peak_mib']:.0f} MiB" for each in spent)
        table.add_row(f"{stage}: seconds, peak", *cells)
    return table


def main() -> None:
    """Measure both worlds, print a table and write the results."""
    facts = describe_machine()
    results = {name: _run_in_process(*size) for name, size in SIZES.items()}
    Console().print(_make_table(results))
    content = {"machine": facts, "sentences": SENTENCES, "worlds": results}
    write_text_atomically(RESULTS / "large_world.json", json.dumps(content, indent=2) + "\n")
    for name, result in results.items():
        if result["is_exact"] == result["size_warning"]:
            sys.exit(f"the {name} world should warn exactly when it is not enumerated")


if __name__ == "__main__":
    main()
