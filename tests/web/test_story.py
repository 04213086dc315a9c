"""The story in five steps, on the page that is opened from a disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

NAMES = ["False certainty", "Where is the doubt?", "The prior", "Along τ", "The truth"]
STEPS = ["17", "17", "0", "converged", "17"]
SIZES = [(320, 640), (390, 844), (768, 1024), (1024, 768), (1920, 1080)]
# every size in one theme, and in the other as well where there is time
VIEWS = [
    pytest.param(size, theme, marks=[pytest.mark.slow] if number % 2 != dark else [])
    for number, size in enumerate(SIZES)
    for dark, theme in enumerate(("light", "dark"))
]


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    """A fresh visit to the file; what the console says fails the test."""
    context = browser.new_context(viewport={"width": 1024, "height": 768}, offline=True)
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(file.as_uri())
    wait_for_chapter(tab, 0)
    yield tab
    context.close()
    assert said == []


def wait_for_chapter(tab: Any, chapter: int) -> None:
    tab.wait_for_function(
        "name => document.querySelector('#story-steps [aria-current]')?.textContent === name"
        " && document.querySelector('#story-headline').textContent"
        " && document.querySelector('section.answer[data-sentence=\"1\"] svg.picture')",
        arg=NAMES[chapter],
    )


def test_it_opens_with_both_sentences_at_the_papers_step(page: Any) -> None:
    assert page.input_value("#world") == "slips"
    assert page.input_value("#sentence") == "during dinner, the woman eats the pizza"
    assert page.input_value("#compare") == "during dinner, the pizza eats the woman"
    assert "the paper" in page.inner_text("#slider-label")
    truth = page.locator("section.answer[data-sentence='1'] .row[data-key='agent pizza'] .truth")
    assert truth.count() == 1
    boxes = [page.locator("section.answer").nth(n).bounding_box() for n in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    # one dot for each network, on the trained bar and on the Bayesian
    dots = page.locator("section.answer[data-sentence='1'] .row[data-key='agent pizza'] .network")
    assert dots.count() >= 6


def test_the_first_step_says_what_is_shown(page: Any) -> None:
    """Three networks, three answers; the step of the answers is named, and the command's."""
    given = page.evaluate(
        "async text => (await equivocal.ask(text, { step: 17 })).networks.map(({ words }) =>"
        " words.at(-1).roles.agent.find(({ filler }) => filler === 'pizza').mle)",
        "during dinner, the pizza eats the woman",
    )
    headline = page.inner_text("#story-headline").replace("\u00a0", " ")
    assert len(given) == 3
    assert all(f"{100 * value:.0f} %" in headline for value in given)
    assert "Three trained networks answer" in headline
    assert "At step 17, where the paper stops" in page.inner_text("#at")
    assert "“equivocal ask” answers converged" in page.inner_text("#at")
    page.evaluate("slider.value = slider.max; slider.dispatchEvent(new Event('input'))")
    page.wait_for_function(
        "() => document.querySelector('#at').textContent.startsWith('Converged')"
    )
    assert "`" not in page.inner_text("body")


def test_arrow_keys_turn_the_five_steps(page: Any) -> None:
    told = []
    for chapter, step in enumerate(STEPS):
        wait_for_chapter(page, chapter)
        page.wait_for_function("step => location.hash.includes(`step=${step}`)", arg=step)
        told.append(page.inner_text("#story-headline"))
        assert "NaN" not in page.inner_text("#story")
        if NAMES[chapter] == "Along τ":
            page.wait_for_selector("svg.path")
        page.keyboard.press("ArrowRight")
    assert len(set(told)) == len(told)
    page.wait_for_selector("#story", state="hidden")  # free play
    page.keyboard.press("ArrowLeft")  # now through the words
    page.wait_for_function("() => location.hash.includes('word=3')")


def test_back_escape_and_again(page: Any) -> None:
    page.keyboard.press("ArrowRight")
    wait_for_chapter(page, 1)
    page.keyboard.press("ArrowLeft")
    wait_for_chapter(page, 0)
    page.keyboard.press("ArrowLeft")
    wait_for_chapter(page, 0)
    page.keyboard.press("Escape")
    page.wait_for_selector("#story", state="hidden")
    page.click("#tell")
    wait_for_chapter(page, 0)


def test_a_question_ends_the_story(page: Any) -> None:
    page.fill("#sentence", "the man eats the egg")
    page.press("#sentence", "Enter")
    page.wait_for_selector("#story", state="hidden")
    assert "story=" not in page.evaluate("location.hash")


def test_state_lives_behind_the_hash(page: Any, file: Path) -> None:
    page.goto(f"{file.as_uri()}#world=paper&sentence=the man eats the egg&word=2&step=8&prior=5")
    page.reload()
    page.wait_for_selector("#words [aria-current]:has-text('eats')")
    assert page.input_value("#world") == "paper"
    assert page.locator("input[name=prior][value='5']").is_checked()
    page.select_option("#world", "slips")
    page.wait_for_function("() => location.hash.includes('world=slips')")
    assert page.input_value("#sentence") in page.inner_text("#exported")


def test_everything_is_reached_by_keyboard_alone(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sentence"
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
    wanted = {"ask", "world", "tell", "theme", "story-on", "slider", "prior", "along", "play"}
    assert wanted <= reached


@pytest.mark.parametrize(("size", "theme"), VIEWS)
def test_axe_finds_nothing_and_nothing_overflows(
    browser: Any, file: Path, size: tuple[int, int], theme: str
) -> None:
    """With the story and without, and with the chart along τ."""
    view = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=view, color_scheme=theme, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(file.as_uri())
    wait_for_chapter(tab, 0)
    for key in (None, "Escape"):
        if key:
            tab.click("#along")
            tab.wait_for_selector("svg.path")
            tab.keyboard.press(key)
            tab.wait_for_selector("#story", state="hidden")
        found = axe.Axe().run(tab).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:120]) for each in found] == []
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()
