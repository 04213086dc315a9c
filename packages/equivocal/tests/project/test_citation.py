"""The software paper, its bibliography and CITATION.cff agree with each other."""

import re
from pathlib import Path

import yaml

from equivocal.paper.claims import load_full_runs
from equivocal.paper.settings import read_record

ROOT = Path(__file__).resolve().parents[4]
COUNTED = "no,one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,thirteen,fourteen"


def read_paper() -> tuple[dict[str, object], str]:
    """Return the header and the prose of paper.md."""
    _, header, body = (ROOT / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(header), body


def read_bibliography() -> dict[str, str]:
    """Return the entries of paper.bib by their keys."""
    text = (ROOT / "paper.bib").read_text(encoding="utf-8")
    return {entry[1]: entry[0] for entry in re.finditer(r"@\w+\{(\w+),.*?^\}", text, re.M | re.S)}


def test_every_reference_of_the_paper_is_listed_and_cited() -> None:
    _, body = read_paper()
    cited, listed = set(re.findall(r"@(\w+)", body)), read_bibliography()
    assert cited == set(listed)
    for key, entry in listed.items():
        for field in ("title", "author", "year"):
            assert re.search(rf"^  {field} = \{{.+\}},?$", entry, re.MULTILINE), (key, field)


def test_verdicts_are_counted_alike_everywhere() -> None:
    """In the article, README and the first page, as recorded of the paper's own results."""
    (run,) = (run for run in load_full_runs().studies if run.study == "paper")
    results = [
        claim["id"] for claim in read_record("claims")["claims"] if claim["kind"] == "result"
    ]
    found = [run.verdicts[name] for name in results]
    kinds = ("replicated", "direction only", "not replicated", "not testable as printed")
    counts = [len(results), *map(found.count, kinds)]
    assert sum(counts[1:]) == counts[0] == 14
    total, *each = (COUNTED.split(",")[count] for count in counts)
    for page in ("paper.md", "README.md", "docs/index.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        good = f"({each[0]} of its {total} results are replicated"
        good += f"|Of (its|the paper's) {counts[0]} results, {each[0]} replicate)"
        good += f", {each[1]} hold in direction only"
        bad = f", {each[2]} (are not replicated|do not hold),? and {each[3]} cannot be tested"
        assert re.search(f"{good}{bad} as printed", text), page
