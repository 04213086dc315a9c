"""The page in a real browser: clicks what a person would, looks at what a person would see."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

import equivocal
from tests.asking.browsing import PAIR, read, visit
from tests.cli.commands import fails, run, run_process

SIZES = [
    *((390, 844), (1280, 800), (1440, 900)),
    *(pytest.param(each, marks=pytest.mark.longer) for each in ((320, 640), (1920, 1080))),
]
NAMES = ["False certainty", "Where is the doubt?", "The prior", "Along τ", "The truth"]
REVERSED = "section.answer >> nth=1"
FREE = "world=slips&sentence=during dinner, the pizza eats the woman"


@pytest.fixture
def story(browser: Any, file: Path) -> Iterator[Any]:
    """A first visit, which begins with the story."""
    with visit(browser, file, viewport={"width": 1280, "height": 800}) as tab:
        yield tab


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    """A visit by a link to one sentence."""
    with visit(browser, file, FREE, viewport={"width": 1280, "height": 800}) as tab:
        yield tab


def ask(tab: Any, sentence: str) -> None:
    tab.fill("#sentence", sentence)
    tab.press("#sentence", "Enter")


def bar(tab: Any, role: str, filler: str, kind: str = "bayes", section: int = 0) -> float:
    """The value that a bar shows."""
    panel = tab.locator("section.answer").nth(section).locator(f".panel[data-role='{role}']")
    shown = panel.locator(f".row[data-filler='{filler}'] .{kind} .bar")
    return float(shown.get_attribute("data-value"))


def list_headlines(tab: Any) -> list[str]:
    """Turn through the story and return its headlines."""
    headlines = []
    for name in NAMES:
        assert read(tab, "#story-steps [aria-current]") == name
        headlines.append(read(tab, "#story-headline"))
        assert "NaN" not in read(tab, "main")
        tab.keyboard.press("ArrowRight")
    return headlines


def test_a_link_opens_at_its_sentence(page: Any) -> None:
    answer = equivocal.ask(PAIR[1])
    assert page.locator("#story").is_hidden()
    for role, filler in (("patient", "pizza"), ("agent", "woman"), ("agent", "pizza")):
        belief = answer.belief(-1, role, filler)
        assert bar(page, role, filler) == pytest.approx(belief.bayes, abs=1e-4)
        assert bar(page, role, filler, "mle") == pytest.approx(belief.mle, abs=1e-4)
    lines = [line for line in read(page, ".summary").split("\n") if line]
    warranted = re.compile(r" \([^()]* to [^()]*\)")  # intervals of other draws
    assert [warranted.sub("", line) for line in lines] == [
        warranted.sub("", line) for line in answer.summary.split("\n")
    ]
    truth = page.locator(".panel[data-role='agent'] .row[data-filler='pizza'] .truth")
    assert float(truth.get_attribute("data-value")) == pytest.approx(0.477, abs=5e-4)
    page.goto(page.url.partition("#")[0] + "#world=paper&sentence=the man eats the egg&word=2")
    page.wait_for_selector(".words [aria-current]:has-text('eats')")
    assert page.input_value("#world") == "paper"
    page.reload()
    page.wait_for_selector(".words [aria-current]:has-text('eats')")


def test_words_are_stepped_through(page: Any) -> None:
    answer = equivocal.ask(PAIR[1])
    page.locator(".words button").first.click()
    best = answer.beliefs(0, "agent", 1)[0]
    assert bar(page, "agent", best.filler) == pytest.approx(best.bayes, abs=1e-4)
    page.keyboard.press("ArrowRight")  # the focus stays among the words
    assert read(page, ".words [aria-current]") == "pizza"
    assert page.evaluate("document.activeElement.textContent") == "pizza"
    assert bar(page, "agent", "pizza") == pytest.approx(
        answer.belief(1, "agent", "pizza").bayes, abs=1e-4
    )
    assert "word=2" in page.url
    page.select_option("#world", "paper")
    page.locator(".words button").nth(2).click()
    assert "Impossible in this world" in read(page, "section.answer")
    assert page.locator(".panel .truth").count() == 0


def test_the_slider_goes_back_to_the_prior(page: Any) -> None:
    for step in (17, 8, 3, 1, 0):
        page.locator("#slider").press("ArrowLeft")
        expected = equivocal.ask(PAIR[1], step=step).belief(-1, "agent", "pizza").bayes
        assert bar(page, "agent", "pizza") == pytest.approx(expected, abs=1e-4)
        if step == 17:
            assert read(page, "#slider-label") == "step 17, τ = 0.0011, where the paper stops"
    assert "step=0" in page.url


def test_a_refused_sentence_greys_the_old_answer(page: Any) -> None:
    ask(page, "the pizza was eaten by the woman")
    page.wait_for_selector("#results.stale")
    assert "sg2018" in read(page, "#error")  # where passives are understood
    assert PAIR[1] in read(page, "#stale")
    assert page.input_value("#sentence") == "the pizza was eaten by the woman"  # nothing is lost
    ask(page, "the woman eats the soup")
    page.wait_for_selector("#results:not(.stale)")
    assert read(page, "#error") == ""
    page.click("#add-compare")
    page.fill("#compare", "the dragon eats")
    page.press("#compare", "Enter")
    page.wait_for_selector("#compare[aria-invalid]")
    assert "soup" in read(page, "#stale")


def test_a_link_that_cannot_be_answered_says_so(browser: Any, file: Path) -> None:
    with visit(browser, file, "sentence=the dragon eats") as tab:
        assert "dragon" in read(tab, "#error")
        assert tab.input_value("#sentence") == "the dragon eats"


def test_sentences_are_built_and_compared(page: Any) -> None:
    page.click("#lexicon summary")
    ask(page, "the man")
    page.click("#lexicon button:has-text('eats')")
    assert page.input_value("#sentence") == "the man eats"
    assert page.locator(".words button").count() == 2
    page.click("#examples button:has-text('side by side')")
    boxes = [page.locator("section.answer").nth(n).bounding_box() for n in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    page.click("#remove-compare")
    assert page.locator("section.answer").count() == 1


def test_the_story_says_what_it_shows(story: Any) -> None:
    """Its numbers are those of Python, in five steps with a picture each."""
    converged, paper = (equivocal.ask(PAIR[1], step=step) for step in ("converged", 17))
    given = [f"{100 * one.belief(-1, 'agent', 'pizza').mle:.0f} %" for one in converged.networks]
    headlines = list_headlines(story)
    assert len(set(headlines)) == len(NAMES)
    assert headlines[0] == (
        f"Did the pizza eat the woman? Three networks say {given[0]}, {given[1]} and {given[2]}. "
        "The truth is 47.7 %."
    )
    plain = equivocal.ask(PAIR[0]).uncertainty[-1]
    times = round(float(converged.uncertainty[-1] / plain))
    assert f"about {times} times the doubt, most of it in the words" in headlines[1]
    beliefs = [answer.belief(-1, "agent", "pizza") for answer in (paper, converged)]
    values = [beliefs[0].mle, beliefs[0].bayes, beliefs[1].bayes]
    nearest = min(values, key=lambda value: abs(value - beliefs[0].truth))
    assert f"nearest, with {100 * nearest:.1f} %" in headlines[4]
    assert story.locator("#story").is_hidden()  # free play follows
    story.click("#tell")
    story.click("#story-steps button >> nth=1")
    share = float(converged.epistemic_share[-1])
    words = story.locator(REVERSED).locator(".stack .words").get_attribute("data-value")
    assert float(words) == pytest.approx(1 - share, abs=1e-4)
    story.click("#story-steps button >> nth=3")
    assert story.locator("svg.path").count() == 2
    story.click("#story-steps button >> nth=4")
    rows = story.locator(REVERSED).locator(".against .row")
    shown = [float(rows.nth(n).get_attribute("data-value")) for n in range(3)]
    assert shown == pytest.approx(values, abs=1e-4)


def test_keys_turn_the_story(story: Any) -> None:
    """Remote controls send Page Down; a slider keeps its arrow keys; a question ends the story."""
    for _ in range(3):
        story.keyboard.press("PageDown")
    assert read(story, "#story-steps [aria-current]") == "Along τ"
    story.focus("#slider")
    story.keyboard.press("ArrowLeft")
    assert read(story, "#story-steps [aria-current]") == "Along τ"
    story.keyboard.press("PageUp")
    assert read(story, "#story-steps [aria-current]") == "The prior"
    assert "story=3" in story.url
    story.keyboard.press("Escape")
    assert story.locator("#story").is_hidden()
    story.click("#tell")
    story.focus("#sentence")
    ask(story, "the man eats the egg")
    assert story.locator("#story").is_hidden()
    assert "story=" not in story.url


def find_clipped(tab: Any) -> list[str]:
    """Return what is wider than the page or than what it stands in."""
    clipped: list[str] = tab.evaluate(
        """[...document.querySelectorAll('main *:not(.unseen, .unseen *)')].filter((each) => {
          const { left, right, width } = each.getBoundingClientRect();
          const cut = ['BUTTON', 'SPAN', 'P', 'H4', 'LI'].includes(each.tagName)
            && each.clientWidth > 2 && each.scrollWidth > each.clientWidth + 1;
          return width > 2 && (left < -1 || right > innerWidth + 1 || cut);
        }).map((each) => each.outerHTML.slice(0, 100))"""
    )
    return clipped


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_clipped_and_axe_finds_nothing(
    browser: Any, file: Path, size: tuple[int, int]
) -> None:
    """In each step of the story and after it, with long sentences, and after a refusal."""
    view = {"width": size[0], "height": size[1]}
    theme = "dark" if size[0] % 3 else "light"
    with visit(browser, file, viewport=view, color_scheme=theme) as tab:
        for moment in range(8):
            if moment == 6:
                ask(tab, " ".join(["newspaper likes the backgammon"] * 9))
            elif moment == 7:
                ask(tab, "the pizza was eaten by the woman")
            assert find_clipped(tab) == [], moment
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), moment
            if moment in (0, 3, 5):
                found = Axe().run(tab).response["violations"]
                assert [(each["id"], each["nodes"][0]["html"][:120]) for each in found] == []
            tab.keyboard.press("ArrowRight")


def test_everything_is_reached_by_keyboard_alone(story: Any) -> None:
    story.keyboard.press("Tab")
    reached = set()
    for _ in range(40):
        story.keyboard.press("Tab")
        reached.add(story.evaluate("document.activeElement.id"))
    assert {"world", "tell", "sentence", "ask", "compare", "story-on", "story-end"} <= reached


def test_numbers_are_there_for_those_who_cannot_see(page: Any) -> None:
    table = page.locator("section.answer table").inner_text()
    assert "pizza" in table
    assert "47.7 %" in table or "48 %" in table


def test_a_world_of_ones_own_is_trained_and_opened(tmp_path: Path) -> None:
    """Three small networks, kept in the cache; the browser is whatever BROWSER names."""
    opener = tmp_path / "opener.py"
    opener.write_text("import sys; open('opened', 'w').write(sys.argv[1])\n")
    own = tmp_path / "runs"
    assert run("world", "new", "garden.toml", cwd=tmp_path).returncode == 0
    small = ("--networks", "2", "--set", "sentences=200", "--set", "epochs=2")
    train = run("train", "--world", "garden.toml", *small, "--out", own, cwd=tmp_path)
    assert train.returncode == 0, train.stderr
    done = run_process(
        *("page", "--run", own, "--out", "pages/garden.html"),
        cwd=tmp_path,
        EQUIVOCAL_CACHE="cache",
        BROWSER=f"{sys.executable} {opener} %s",
    )
    assert done.returncode == 0, done.stderr
    page = tmp_path / "pages" / "garden.html"
    assert "wrote pages/garden.html" in done.stdout
    assert (tmp_path / "opened").read_text() == page.as_uri()
    assert os.listdir(tmp_path / "cache")


def test_mistakes_are_explained(tmp_path: Path) -> None:
    assert "a page ends in .html" in fails("page", "--out", "page.pdf", cwd=tmp_path)
    assert "nowhere" in fails("page", "--world", "nowhere", "--no-open", cwd=tmp_path)
    assert "no folder" in fails("page", "--run", "nowhere", "--no-open", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
