"""A report is one self-contained file, which shows all of its content."""

from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from scripts.make_diagrams import draw_network_diagram

from equivocal.figure_style import save_figure
from equivocal.report import (
    MOST_COLUMNS,
    Picture,
    Report,
    Section,
    describe_making,
    format_cell,
    format_table,
    write_report,
)
from lastlayer.errors import UserError

VOID = {"meta", "img", "link", "br", "hr", "input"}
CLAIMS = pd.DataFrame(
    {
        "claim": ["accuracy <97 %>", "above zero", "no difference", "at zero"],
        "printed": ["97.84 %", "p < 0.0001", "p > 0.05", "p = 0.9153"],
        "p": [float("nan"), 3e-9, 0.2013, 0.0011],
        "verdict": ["direction only", "replicated", "not replicated", "not testable as printed"],
    }
)
WIDE = pd.DataFrame({f"column {number}": [number / 7] for number in range(MOST_COLUMNS + 1)})
REPORT = Report(
    title="A study",
    about="Of someone & others",
    question="Is it so?",
    answer=["One.", "Two, by `a < b`."],
    picture=Picture("network", "The network. It says more."),
    made=[describe_making("seed 7")],
    sections=[
        Section(title="Does it hold?", sentences=["A sentence."], table=CLAIMS),
        Section(title="Why?", pictures=[Picture("other", "Another one. With a caption.")]),
    ],
    appendix=[
        Section(title="Wide", table=WIDE),
        Section(title="Settings", text='name = "paper"'),
    ],
)


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails if tags are not closed in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        assert not self.open

    def handle_starttag(self, tag, attrs) -> None:  # noqa: D102
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:  # noqa: D102
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:  # noqa: D102
        self.text += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("results")
    for name in ("network", "other"):
        save_figure(draw_network_diagram(), place / "figures", name)
    return place


def test_the_page_is_self_contained_and_shows_everything_in_order(folder: Path) -> None:
    path = write_report(folder, REPORT)
    text, page = path.read_text(encoding="utf-8"), Page(path)
    for loaded in ("http", "url(", "@import", "<script", "<link", "<iframe"):
        assert loaded not in text
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert [image["alt"] for image in images] == ["The network.", "Another one."]
    data = b64decode(images[0]["src"].removeprefix("data:image/svg+xml;base64,"))
    assert data == (folder / "figures" / "network.svg").read_bytes()
    shown = (
        *("A study", "Of someone & others", "Is it so?", "One.", "Figure 1. The network."),
        *("It says more.", "equivocal ", "seed 7.", "Does it hold?", "A sentence."),
        *("accuracy <97 %>", "◐ direction only", "✓ replicated", "✗ not replicated"),
        *("? not testable", "Why?", "With a caption.", "Appendix", "Wide", "column 11", "1.571"),
        *("Settings", 'name = "paper"'),
    )
    places = [page.text.index(words) for words in shown if page.text.count(words) == 1]
    assert places == sorted(places)
    assert all(words in page.text for words in shown)
    assert "Two, by <code>a &lt; b</code>." in text
    folded = [attrs for tag, attrs in page.tags if tag == "details"]
    assert [attrs["id"] for attrs in folded] == ["wide", "settings"]
    assert not any("open" in attrs for attrs in folded)
    assert len([tag for tag, _ in page.tags if tag == "table"]) == 1  # the wide one is a list


def test_a_missing_figure_is_named(folder: Path) -> None:
    with pytest.raises(UserError, match="no figure 'lost'"):
        write_report(folder, replace(REPORT, picture=Picture("lost", "Lost.")))


def test_large_drawings_are_embedded_as_png(folder: Path) -> None:
    page = Page(write_report(folder, REPORT, largest_svg=10))
    sources = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert all(source.startswith("data:image/png;base64,") for source in sources)


def test_quick_runs_are_marked_and_others_are_not(folder: Path) -> None:
    quick = Page(write_report(folder, replace(REPORT, warning="Only a try.")))
    assert quick.text.index("Only a try.") < quick.text.index("Of someone")
    assert "Quick run: A study" in quick.text
    assert "Quick run" not in Page(write_report(folder, REPORT)).text


def test_cells_are_formatted_by_type_and_column() -> None:
    assert format_cell(3e-9, "logit_p").text == "< 0.0001"
    assert format_cell(3e-9, "prior").text == "3.00 × 10⁻⁹"
    assert format_cell(-4.6858, "printed_t").text == "−4.6858"
    assert format_cell(float("nan"), "printed_t").text == "–"
    assert format_cell(float("nan"), "p").text == format_cell(None, "t").text == "–"
    assert format_cell("replicated", "verdict") == ("✓ replicated", "verdict good")
    assert format_cell(False, "verdict") == ("✗ no", "verdict bad")
    assert format_cell("never heard", "verdict").kind == "verdict open"


def test_intervals_stand_behind_their_estimates() -> None:
    values = {"n": [8], "mean": [0.51234], "ci_low": [0.5], "ci_high": [0.52], "low": [1.5]}
    values |= {"logit_mean": [1.0], "logit_ci_low": [-1.0], "logit_ci_high": [3.0]}
    values |= {"kl": [2.0], "kl_low": [float("nan")], "kl_high": [float("nan")]}
    header, rows = format_table(pd.DataFrame(values, index=pd.Index(["x"], name="row")))
    assert [head.text for head in header] == ["row", "n", "mean", "low", "logit mean", "kl"]
    cells = ["x", "8", "0.512 [0.5, 0.52]", "1.5", "1 [−1, 3]", "2"]
    assert [entry.text for entry in rows[0]] == cells
