"""Record full runs: in `study/record/full_runs.toml`, and claims.csv in `benchmarks/results`.

    equivocal reproduce --preset paper_fast --out runs/paper_fast
    equivocal reproduce --out runs/paper
    equivocal multiverse --match --out runs/match
    python -m scripts.record_runs runs/paper_fast runs/paper --match runs/match

Entries of studies that are not given are kept. Quick runs are refused, because every report quotes
this file. Tests then name every page whose numbers are others: README.md, paper.md, docs/index.md
(counts of verdicts) and docs/explanations/paper.md (the table of verdicts).
"""

import argparse
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.paper.settings import load_study
from equivocal.store import read_table, read_toml
from equivocal.store.files import write_text_atomically
from lastlayer.errors import UserError

__all__ = ["record_runs"]

TARGET = Path(str(resources.files("equivocal.paper"))) / "record" / "full_runs.toml"
RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
HEADER = """\
# What full runs found. A report shows these verdicts beside its own, by the id of the claim, and
# the answer of the match at its top. Written by `python -m scripts.record_runs`, which says how; by
# hand only where a run was made before that existed. Nothing here is used to judge a claim.

"""


def record_runs(
    folders: list[Path],
    match: Path | None = None,
    target: Path = TARGET,
    results: Path = RESULTS,
) -> None:
    """Replace the entries of some studies, and of the match.

    Parameters
    ----------
    folders : list of Path
        The folders of finished studies with claims.
    match : Path, optional
        The folder of a finished `equivocal multiverse --match`.
    target : Path
        The file to change, which must exist.
    results : Path
        The folder for copies of claims.csv.

    Raises
    ------
    UserError
        If a study was a quick run or makes no claims.
    """
    content: dict[str, Any] = read_toml(str(target))
    for folder in folders:
        settings = load_study(folder / "settings.toml")
        if settings.quick_run or not settings.is_paper:
            what = "was a quick run" if settings.quick_run else "makes no claims"
            raise UserError(f"the study in {folder} {what}; only full runs are quoted.")
        claims = read_table(folder / "claims.csv")
        training, name = settings.training_settings, settings.name
        verdicts = dict(zip(claims["id"], claims["verdict"], strict=True))
        content["studies"][name] = {
            "recipe": training.recipe,
            "networks": training.networks,
            "commands": [f"equivocal reproduce --preset {name} --out runs/{name}"],
            "verdicts": {id_: found for id_, found in verdicts.items() if found != "not run"},
        }
        copy = (folder / "claims.csv").read_text(encoding="utf-8")
        write_text_atomically(results / f"claims_{name}.csv", copy)
    if match is not None:
        answer = read_toml(match / "match.toml")["answer"]
        command = "equivocal multiverse --match --out runs/match"
        content["match"] = {"command": command, "answer": answer}
    write_text_atomically(target, HEADER + tomli_w.dumps(content))


def main() -> None:
    """Record the runs named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--match", type=Path)
    arguments = parser.parse_args()
    record_runs(arguments.folders, arguments.match)


if __name__ == "__main__":
    main()
