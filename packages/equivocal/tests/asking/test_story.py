"""The story in five steps, on the page that is opened from a disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

import equivocal

STORY = "during dinner, the pizza eats the woman"
NAMES = ["False certainty", "Where is the doubt?", "The prior", "Along τ", "The truth"]
STEPS = ["converged", "converged", "0", "converged", "converged"]
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
        " && document.querySelector('section.answer[data-sentence=\"1\"] svg.slide')",
        arg=NAMES[chapter],
    )


def test_it_opens_with_both_sentences_at_convergence(page: Any) -> None:
    assert page.input_value("#world") == "slips"
    assert page.input_value("#sentence") == "during dinner, the woman eats the pizza"
    assert page.input_value("#compare") == "during dinner, the pizza eats the woman"
    assert page.inner_text("#slider-label") == "converged"
    truth = page.locator("section.answer[data-sentence='1'] .row[data-key='agent pizza'] .truth")
    assert truth.count() == 1
    assert page.locator("rect.mle").count() > 0
    assert page.locator("rect.bayes").count() == 0  # false certainty comes first
    boxes = [page.locator("section.answer").nth(n).bounding_box() for n in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    # one dot for each network
    dots = page.locator("section.answer[data-sentence='1'] .row[data-key='agent pizza'] .network")
    assert dots.count() == 3


def test_the_first_step_says_what_is_shown(page: Any) -> None:
    """Three networks, three answers, and the truth."""
    given = page.evaluate(
        "async text => (await equivocal.ask(text)).networks.map(({ words }) =>"
        " words.at(-1).roles.agent.find(({ filler }) => filler === 'pizza').mle)",
        "during dinner, the pizza eats the woman",
    )
    assert len(given) == 3
    first, second, third = (f"{100 * value:.0f} %" for value in given)
    assert plain_text(page, "#story-headline") == (
        f"Did the pizza eat the woman? Three networks say {first}, {second} and {third}. "
        "The truth is 47.7 %."
    )


def plain_text(page: Any, selector: str) -> str:
    text: str = page.inner_text(selector)
    return text.replace("\u00a0", " ")


def test_the_second_step_says_where_the_doubt_is(page: Any) -> None:
    page.keyboard.press("ArrowRight")
    wait_for_chapter(page, 1)
    expected = equivocal.ask(STORY)
    epistemic = float(expected.epistemic_share[-1])
    between = float(expected.between[-1] / expected.uncertainty[-1])
    shares = {"words": 1 - epistemic, "between": between, "within": epistemic - between}
    page.wait_for_selector("section.answer[data-sentence='0'] .doubt-words")
    text = plain_text(page, "#story-text")
    plain = equivocal.ask("during dinner, the woman eats the pizza").uncertainty[-1]
    times = round(float(expected.uncertainty[-1] / plain))
    assert f"about {times} times the doubt, most of it in the words" in plain_text(
        page, "#story-headline"
    )
    for name, share in shares.items():
        bar = page.locator(f"section.answer[data-sentence='1'] .doubt-{name}")
        assert float(bar.get_attribute("data-value")) == pytest.approx(share, abs=1e-4)
        assert f"{100 * share:.0f} %" in text
    assert page.locator("rect.bayes").count() > 0


def test_the_last_step_shows_what_it_says(page: Any) -> None:
    """Trained, step 17 and converged stand beside the truth, and the nearest is named."""
    page.click("#story-steps button >> nth=4")
    wait_for_chapter(page, 4)
    page.wait_for_selector(".rival")
    rows = page.locator("section.answer[data-sentence='1'] .rival")
    shown = {
        rows.nth(n).get_attribute("data-name"): float(rows.nth(n).get_attribute("data-value"))
        for n in range(3)
    }
    asked = {step: equivocal.ask(STORY, step=step) for step in (17, "converged")}
    beliefs = {step: each.belief(-1, "agent", "pizza") for step, each in asked.items()}
    assert shown == pytest.approx(
        {
            "trained": beliefs[17].mle,
            "step 17": beliefs[17].bayes,
            "converged": beliefs["converged"].bayes,
        },
        abs=1e-4,
    )
    nearest = min(shown, key=lambda name: abs(shown[name] - beliefs[17].truth))
    assert f"step 17 (τ = {asked[17].time:.2g})" in plain_text(page, "#story-text")
    headline = plain_text(page, "#story-headline")
    assert nearest in headline
    assert f"nearest, with {100 * shown[nearest]:.1f} %" in headline
    truth = beliefs[17].truth
    idle = abs(0.5 - truth) < abs(shown[nearest] - truth)  # 47.7 % is near one half
    assert ("Answering 50 % without listening" in page.locator("#story-text").inner_text()) == idle
    assert page.locator("section.answer[data-sentence='1'] .against-truth .truth").count() == 1


@pytest.mark.parametrize("size", [(1024, 768), (320, 640)])
def test_turning_moves_nothing_and_every_step_has_its_own_picture(
    page: Any, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    heights, pictures = set(), set()
    for chapter in range(5):
        page.locator("#story-steps button").nth(chapter).click()
        wait_for_chapter(page, chapter)
        page.wait_for_timeout(200)
        heights.add(page.locator("#story").bounding_box()["height"])
        picture = page.locator("section.answer[data-sentence='1'] svg.slide")
        pictures.add(picture.inner_html())
        # its first bar or line is on the first screen
        assert picture.bounding_box()["y"] < size[1] - 100
        if size[0] == 1024:  # and all of it, where there is room
            box = picture.bounding_box()
            assert box["y"] + box["height"] <= size[1]
            assert page.evaluate("document.documentElement.scrollHeight") <= size[1]
    assert len(heights) == 1
    assert len(pictures) == 5


def test_a_remote_control_turns_the_story(page: Any) -> None:
    """It sends Page Down and Page Up; a slider that was moved must not swallow them, or Escape."""
    for chapter in (1, 2, 3):
        page.keyboard.press("PageDown")
        wait_for_chapter(page, chapter)
    page.focus("#slider")
    page.keyboard.press("PageDown")
    wait_for_chapter(page, 4)
    page.keyboard.press("PageUp")
    wait_for_chapter(page, 3)
    page.focus("#slider")
    page.keyboard.press("ArrowLeft")  # the slider's own key
    page.wait_for_function("() => document.activeElement.id !== 'slider'")
    wait_for_chapter(page, 3)
    page.keyboard.press("ArrowRight")
    wait_for_chapter(page, 4)
    page.keyboard.press("ArrowLeft")
    wait_for_chapter(page, 3)
    page.focus("#slider")
    page.keyboard.press("Escape")
    page.wait_for_selector("#story", state="hidden")
    page.wait_for_function("() => location.hash.includes('step=converged')")


def test_a_refused_sentence_ends_the_story(page: Any) -> None:
    page.fill("#compare", "the dragon eats")
    page.press("#compare", "Enter")
    page.wait_for_selector("#results.stale")
    assert page.locator("#story").is_hidden()
    assert page.locator("section.answer").count() == 2
    for sentence in ("woman eats the pizza", "pizza eats the woman"):
        assert sentence in page.inner_text("#stale")


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
    page.click("#tell")
    page.wait_for_selector("#story", state="hidden")


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
    assert page.locator("#sentence").bounding_box()["width"] > 100  # it unfolds
    wanted = {"ask", "world", "tell", "theme", "story-on"}
    assert wanted <= reach(page, 20)
    page.keyboard.press("Escape")
    page.wait_for_selector("#story", state="hidden")
    wanted = {"ask", "world", "tell", "theme", "slider", "prior", "along", "play"}
    assert wanted <= reach(page, 80)


def reach(page: Any, times: int) -> set[str]:
    """Return what the Tab key reaches."""
    reached = set()
    for _ in range(times):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
    return reached


@pytest.mark.parametrize(("size", "theme"), VIEWS)
def test_axe_finds_nothing_and_nothing_overflows(
    browser: Any, file: Path, size: tuple[int, int], theme: str
) -> None:
    """With each step of the story and without it, with the chart along τ, and after a refusal."""
    view = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=view, color_scheme=theme, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(file.as_uri())
    wait_for_chapter(tab, 0)
    for chapter in range(7):
        if chapter < 5:
            wait_for_chapter(tab, chapter)
        elif chapter == 5:
            tab.wait_for_selector("#story", state="hidden")
            tab.click("#along")
            tab.wait_for_selector("svg.path:not(.slide)")
        else:
            tab.fill("#sentence", "the pizza was eaten by the woman")
            tab.press("#sentence", "Enter")
            tab.wait_for_selector("#results.stale")
        tab.wait_for_timeout(100)
        found = Axe().run(tab).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:120]) for each in found] == []
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        tab.keyboard.press("ArrowRight")
    context.close()
