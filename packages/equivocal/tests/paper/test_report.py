"""The report is one self-contained file and shows all of its content."""

from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from scripts.make_diagrams import draw_network_diagram

from equivocal.figure_style import save_figure
from equivocal.paper.report import (
    CAPTIONS,
    TABLE_CAPTIONS,
    Section,
    format_cell,
    format_table,
    render_report,
)

VOID = {"meta", "img", "link", "br", "hr", "input"}
CLAIMS = pd.DataFrame(
    {
        "story": "a story",
        "claim": ["accuracy <97 %>", "above zero", "no difference", "at zero"],
        "printed": ["97.84 %", "p < 0.0001", "p > 0.05", "p = 0.9153"],
        "p": [float("nan"), 3e-9, 0.2013, 0.0011],
        "verdict": ["direction only", "replicated", "not replicated", "not testable as printed"],
        "verdict of another": ["replicated"] * 4,
        "why": ["Because 1.", "Because 2.", "Because 3.", "Because 4."],
    }
)
CONTENT = {
    "title": "A study",
    "quick": False,
    "summary": {"What holds": ["One.", "Two."], "What does not": ["Three."]},
    "sections": [
        Section(title="The truth", sentences=["A sentence."], figures=["words_reversal_mle"]),
        Section(title="Claims of a kind", table=CLAIMS),
        Section(title="First of all", sentences=["It opens."], opens=True),
    ],
    "impossible": pd.DataFrame({"where": ["table 2"], "why": ["t is at least 1."]}),
    "tables": {
        "paired_models": pd.DataFrame({"measure": ["x"], "t": [4.68581], "df": [9], "p": [2e-5]}),
        "own": pd.DataFrame({"a": [True]}),
    },
    "figures": ["network"],
    "settings": 'name = "paper"',
    "versions": {"equivocal": "0.1.0"},
    "notes": ["A note & more."],
}


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails if tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
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
    place = tmp_path_factory.mktemp("study")
    for name in ("network", "words_reversal_mle"):
        save_figure(draw_network_diagram(), place / "figures", name)
    return place


def rendered(folder: Path, content: dict, **limits: int) -> tuple[str, Page]:
    text = render_report(folder, content, **limits).read_text(encoding="utf-8")
    return text, Page(text)


def test_the_page_is_self_contained(folder: Path) -> None:
    text, page = rendered(folder, CONTENT)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.tags}
    for _, attrs in page.tags:
        assert (attrs.get("src") or "data:").startswith("data:")
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert len(links) > 8


def test_every_figure_is_embedded_with_its_caption_and_alternative_text(
    folder,
) -> None:
    _, page = rendered(folder, CONTENT)
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert [image["alt"] for image in images] == [
        "Activations word by word: reversal, trained network (MLE).",
        "The Sentence Gestalt network.",
    ]
    data = b64decode(images[1]["src"].removeprefix("data:image/svg+xml;base64,"))
    assert data == (folder / "figures" / "network.svg").read_bytes()
    assert f"Figure 2. {CAPTIONS['network']}" in page.text
    assert CAPTIONS["words"].partition(". ")[2] in page.text


def test_every_table_claim_and_text_is_shown(folder: Path) -> None:
    text, page = rendered(folder, CONTENT)
    shown = (
        "One.",
        "Three.",
        "A sentence.",
        "Because 4.",
        "accuracy <97 %>",
        "t is at least 1.",
        "4.686",
        "A note & more.",
    )
    for words in (*shown, 'name = "paper"', "0.1.0", TABLE_CAPTIONS["paired_models"]):
        assert words in page.text
    sections = (
        "first-of-all",
        "summary",
        "the-truth",
        "claims-of-a-kind",
        "impossible",
        "figures",
        "tables",
    )
    places = [text.index(f'id="{name}"') for name in sections]
    assert places == sorted(places)
    assert "a story" not in page.text
    assert len([tag for tag, _ in page.tags if tag == "table"]) == 5  # with versions
    for words in ("✓ replicated", "◐ direction only", "✗ not replicated", "? not testable"):
        assert words in page.text


def test_quick_runs_are_marked_and_others_are_not(folder: Path) -> None:
    quick, page = rendered(folder, CONTENT | {"quick": True})
    assert "QUICK RUN: do not report" in page.text
    assert "<title>QUICK RUN: A study</title>" in quick
    assert "QUICK RUN" not in rendered(folder, CONTENT)[0]


def test_cells_are_formatted_by_type_and_column() -> None:
    assert format_cell(3e-9, "logit_p").text == "< 0.0001"
    assert format_cell(3e-9, "prior").text == "3.00 × 10⁻⁹"
    assert format_cell(-4.6858, "printed_t").text == "−4.6858"
    assert format_cell(float("nan"), "printed_t").text == "–"
    assert format_cell(0.01, "prior").text == "0.01"
    assert format_cell(float("nan"), "p").text == format_cell(None, "t").text == "–"
    assert format_cell("replicated", "verdict") == ("✓ replicated", "verdict good")
    assert format_cell("never heard", "verdict").kind == "verdict open"
    table = pd.DataFrame({"n": [8], "effect_size": [0.51234]}, index=pd.Index(["x"], name="row"))
    header, rows = format_table(table)
    assert [head.text for head in header] == ["row", "n", "effect size"]
    assert [entry.text for entry in rows[0]] == ["x", "8", "0.512"]
