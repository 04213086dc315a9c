"""The page in a real browser: clicks what a person would, looks at what a person would see."""

import re
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from equivocal.asking.comprehender import Comprehender
from tests.asking.test_engine import compare

REVERSAL = "during dinner, the pizza eats the woman"
SIZES = {
    "narrow": (320, 640),
    "phone": (390, 844),
    "small": (1024, 768),
    "laptop": (1280, 800),
    "projector": (1920, 1080),
}


@pytest.fixture
def page(browser: Any, server: str) -> Iterator[Any]:
    """A fresh visit; what the console says and what is fetched from elsewhere fails the test."""
    context = browser.new_context(accept_downloads=True, viewport=_viewport("laptop"))
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server)
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    elsewhere: list[str] = []
    tab.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((server, "data:", "blob:"))
            else elsewhere.append(request.url)
        ),
    )
    tab.set_default_timeout(10_000)
    yield tab
    context.close()
    # an unknown word is answered with 400, which Chromium puts into the console by itself
    assert [line for line in said if "status of 400" not in line] == []
    assert elsewhere == []


def _viewport(name: str) -> dict[str, int]:
    width, height = SIZES[name]
    return {"width": width, "height": height}


def opened(page: Any, server: str, **state: str) -> Any:
    """The page, once an answer is on it."""
    page.goto(f"{server}/?{urllib.parse.urlencode(state)}" if state else server)
    page.wait_for_selector("section.answer[data-sentence='0'] svg.picture rect.bayes")
    return page


def bar(page: Any, role: str, filler: str, kind: str = "bayes", sentence: int = 0) -> float:
    """The value that a bar shows."""
    rect = page.locator(
        f"section.answer[data-sentence='{sentence}'] "
        f"rect.{kind}[data-role='{role}'][data-filler='{filler}']"
    )
    return float(rect.first.get_attribute("data-value"))


def ask(page: Any, sentence: str) -> None:
    page.fill("#sentence", sentence)
    page.press("#sentence", "Enter")
    page.wait_for_function(
        "text => document.querySelector('section.answer svg.picture').textContent.includes(text)",
        arg=sentence.rsplit(maxsplit=1)[-1],
    )


def plain_text(page: Any, selector: str) -> str:
    """What is written in an element, with ordinary spaces."""
    text: str = page.locator(selector).first.inner_text()
    return text.replace("\N{NO-BREAK SPACE}", " ")


def last_word(page: Any) -> None:
    """Choose the last word."""
    page.locator("#words button").last.click()


def test_first_visit_shows_the_papers_reversal(page: Any, server: str, mind: Comprehender) -> None:
    opened(page, server)
    assert page.input_value("#sentence") == REVERSAL
    words = [text.strip() for text in page.locator("#words button").all_inner_texts()]
    assert words == ["during dinner", "pizza", "eats", "woman"]
    last_word(page)
    expected = mind.answer(REVERSAL)
    for role, filler in (("patient", "pizza"), ("agent", "woman"), ("agent", "pizza")):
        shown = bar(page, role, filler)
        assert shown == pytest.approx(expected.belief(3, role, filler).bayes, abs=1e-4)
        trained = bar(page, role, filler, "mle")
        assert trained == pytest.approx(expected.belief(3, role, filler).mle, abs=1e-4)
    first, *others, doubt, alone = expected.summary.split("\n")
    assert plain_text(page, ".summary .headline") == first
    assert plain_text(page, ".summary .behind") == " ".join(others)
    assert plain_text(page, ".summary .doubt") == f"{doubt} {alone}"
    assert plain_text(page, "#at") == "The converged posterior."
    drawn = page.locator("svg.picture").first.text_content()
    assert "syntax: pizza" in drawn
    assert "word order" not in drawn  # a passive is marked by more than that
    page.locator("#words button").nth(1).click()
    *_, doubt, alone = expected.summarise(1).split("\n")
    assert plain_text(page, ".summary .doubt") == f"{doubt} {alone}"


def test_stepping_word_by_word(page: Any, server: str, mind: Comprehender) -> None:
    opened(page, server)
    expected = mind.answer(REVERSAL)
    page.locator("#words button").nth(0).click()
    first = expected.beliefs(0, "agent", 1)[0]
    assert bar(page, "agent", first.filler) == pytest.approx(first.bayes, abs=1e-4)
    page.click("#next")
    second = expected.belief(1, "agent", "pizza")
    assert bar(page, "agent", "pizza") == pytest.approx(second.bayes, abs=1e-4)
    page.click("#previous")
    assert bar(page, "agent", first.filler) == pytest.approx(first.bayes, abs=1e-4)
    # by keyboard, from the words
    page.locator("#words button").nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#words button[aria-current]").inner_text().strip() == "pizza"


def test_playing_reaches_the_last_word(page: Any, server: str) -> None:
    opened(page, server)
    page.locator("#words button").nth(0).click()
    page.click("#play")
    page.wait_for_function(
        "() => document.querySelector('#words button[aria-current]').textContent.trim() === 'woman'"
    )


def test_truth_is_a_tick_only_where_the_sentence_is_possible(page: Any, server: str) -> None:
    opened(page, server)
    page.locator("#words button").nth(0).click()
    assert page.locator("g.role .truth").count() > 0
    page.locator("#words button").nth(2).click()
    assert page.locator("g.role .truth").count() == 0
    assert "impossible in this world" in page.inner_text("section.answer").lower()


def test_typing_and_mistakes(page: Any, server: str) -> None:
    opened(page, server)
    page.fill("#sentence", "the woman eats the piza")
    page.click("#ask")
    page.wait_for_selector("#error:has-text('did you mean')")
    assert "“pizza”" in page.inner_text("#error")
    assert page.input_value("#sentence") == "the woman eats the piza"  # nothing typed is lost
    page.fill("#sentence", "the woman eats the soup")
    page.click("#ask")
    page.wait_for_function("() => document.querySelectorAll('#words button').length === 3")
    assert page.inner_text("#error").strip() == ""


def test_a_refused_sentence_greys_the_old_answer(page: Any, server: str) -> None:
    opened(page, server)
    page.fill("#sentence", "the pizza was eaten by the woman")
    page.click("#ask")
    page.wait_for_selector("#results.stale")
    assert "sg2018" in page.inner_text("#error")  # where passives are understood
    assert REVERSAL in page.inner_text("#stale")
    assert REVERSAL in page.inner_text("#exported")
    page.fill("#sentence", "xylophone")
    page.click("#ask")
    page.wait_for_selector("#error:has-text('Build a sentence from words')")
    assert "equivocal world" not in page.inner_text("#error")
    page.fill("#sentence", "the woman eats the soup")
    page.click("#ask")
    page.wait_for_selector("#exported:has-text('soup')")
    assert page.locator("#results.stale").count() == 0
    assert page.inner_text("#stale") == ""


def test_either_sentence_refused_leaves_both_answers(page: Any, server: str) -> None:
    opened(page, server, sentence=REVERSAL, compare="the woman eats the soup")
    for field in ("#sentence", "#compare"):
        kept = page.input_value(field)
        page.fill(field, "the dragon eats")
        page.press(field, "Enter")
        page.wait_for_selector("#results.stale")
        assert page.locator("section.answer").count() == 2
        assert page.locator(f"{field}[aria-invalid]").count() == 1
        assert f"“{REVERSAL}” and “the woman eats the soup”" in page.inner_text("#stale")
        page.fill(field, kept)
        page.press(field, "Enter")
        page.wait_for_selector("#results:not(.stale)")


def test_first_tab_reaches_the_sentence(page: Any, server: str) -> None:
    opened(page, server)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sentence"


def test_summary_follows_the_word(page: Any, server: str) -> None:
    opened(page, server)
    last = plain_text(page, ".summary")
    page.locator("#words button").nth(0).click()
    assert plain_text(page, ".summary") != last
    last_word(page)
    assert plain_text(page, ".summary") == last


@pytest.mark.parametrize("size", ["narrow", "laptop"])
def test_long_sentences_and_words_fit(page: Any, server: str, size: str) -> None:
    """27 words: no word is cut off, the page does not scroll sideways, no width is negative."""
    page.set_viewport_size(_viewport(size))
    opened(page, server)
    ask(page, " ".join(["newspaper likes the backgammon"] * 9))
    page.wait_for_function("() => document.querySelectorAll('#words button').length === 27")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    cut = page.evaluate(
        "[...document.querySelectorAll('#words button')].filter(each =>"
        " each.scrollWidth > each.clientWidth + 1"
        " || each.scrollHeight > each.clientHeight + 1).length"
    )
    assert cut == 0
    last_word(page)
    assert page.locator("#words button").last.evaluate(
        "each => each.getBoundingClientRect().right <= window.innerWidth"
    )
    # the names of the rows stay in sight, and every filler has its percentage
    names = page.locator("svg.names text")
    assert names.count() >= 7
    assert all(names.nth(n).bounding_box()["x"] >= 0 for n in range(names.count()))
    shares = page.locator("section.answer .overview .share")
    assert shares.count() == page.locator("section.answer .overview .filler").count() == 27 * 5 * 2


def test_the_overview_has_bars_of_both_beliefs_and_the_truth(page: Any, server: str) -> None:
    """Names stand above their bars; a saved picture of a long sentence is wide enough for them."""
    opened(page, server)
    text, tick = (
        page.locator(f"section.answer .overview .{name}").first.bounding_box()
        for name in ("filler", "tick")
    )
    assert text["y"] + text["height"] <= tick["y"] + 3
    assert "Bayesian" in page.locator("svg.names").first.text_content()
    ask(page, " ".join(["newspaper likes the backgammon"] * 9))
    page.wait_for_function("() => document.querySelectorAll('#words button').length === 27")
    with page.expect_download() as waiting:
        page.click("#export-svg")
    width = re.search(r'<svg [^>]*?width="(\d+)', waiting.value.path().read_text())
    assert width is not None
    assert int(width[1]) > 27 * 80


def test_two_sentences_stand_side_by_side_on_a_small_laptop(page: Any, server: str) -> None:
    page.set_viewport_size(_viewport("small"))
    opened(page, server, sentence=REVERSAL, compare="the woman eats the soup")
    first, second = (
        page.locator(f"section.answer[data-sentence='{n}']").bounding_box() for n in (0, 1)
    )
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]
    tracks = page.evaluate(
        "[...document.querySelectorAll('g.row')].map(row =>"
        " row.querySelector('rect').getBBox().width)"
    )
    assert min(tracks) > 70  # wide enough to read a belief; a scrollbar takes its share
    assert lowest_bar(page) <= SIZES["small"][1]
    opened(page, server)
    assert lowest_bar(page) <= SIZES["small"][1]


def lowest_bar(page: Any) -> float:
    """Where the bars of agent and patient end, without scrolling."""
    rows = page.locator("g.row[data-key^='agent '], g.row[data-key^='patient ']")
    assert rows.count() >= 8
    return float(
        rows.evaluate_all("all => Math.max(...all.map(row => row.getBoundingClientRect().bottom))")
    )


def test_slider_is_within_reach_on_a_phone(page: Any, server: str) -> None:
    page.set_viewport_size(_viewport("phone"))
    opened(page, server)
    for place in (0, 900):  # wherever one reads
        page.evaluate(f"window.scrollTo(0, {place})")
        box = page.locator("#slider").bounding_box()
        assert 0 <= box["y"] < SIZES["phone"][1] - box["height"]
    assert page.locator(".time").bounding_box()["height"] < 60  # and hides little
    last = page.evaluate(
        "() => { window.scrollTo(0, document.body.scrollHeight);"
        " return document.querySelector('footer').getBoundingClientRect().bottom; }"
    )
    assert last <= page.locator(".time").bounding_box()["y"]  # nothing stays under it


def test_the_console_gives_what_the_command_prints(
    page: Any, server: str, mind: Comprehender
) -> None:
    """Rounded, as the page without a server does; here as a promise."""
    opened(page, server)
    options = {"step": 17, "prior": 5, "top": 2}
    found = page.evaluate("([text, options]) => equivocal.ask(text, options)", [REVERSAL, options])
    expected = mind.answer(REVERSAL, step=17, prior_variance=5.0).to_dict(2)
    assert compare(found, expected) <= 1e-4
    belief = found["words"][0]["roles"]["agent"][0]
    assert belief["bayes"] == round(belief["bayes"], 4)
    plain = page.evaluate("text => equivocal.ask(text)", REVERSAL)
    assert compare(plain, mind.answer(REVERSAL).to_dict()) <= 1e-4


def test_words_are_clicked_together(page: Any, server: str) -> None:
    opened(page, server)
    page.fill("#sentence", "")
    page.locator("#lexicon summary").first.click()
    for word in ("man", "drinks", "tea"):
        page.locator("#lexicon").get_by_role("button", name=word, exact=True).click()
    page.click("#ask")
    page.wait_for_function("() => document.querySelectorAll('#words button').length === 3")
    shown = [text.strip() for text in page.locator("#words button").all_inner_texts()]
    assert shown == ["man", "drinks", "tea"]


def test_examples_and_a_second_sentence(page: Any, server: str, mind: Comprehender) -> None:
    opened(page, server)
    page.locator("#examples").get_by_role("button", name="both, side by side").click()
    page.wait_for_selector("section.answer[data-sentence='1'] svg.picture rect.bayes")
    last_word(page)
    for number, text in enumerate(("the woman eats the pizza", "the pizza eats the woman")):
        expected = mind.answer(f"during dinner, {text}").belief(-1, "agent", "woman").bayes
        assert bar(page, "agent", "woman", sentence=number) == pytest.approx(expected, abs=1e-4)
    assert page.input_value("#compare").startswith("during dinner, the pizza")
    page.click("#remove-compare")
    page.wait_for_selector("section.answer[data-sentence='1']", state="detached")
    page.click("#add-compare")
    page.fill("#compare", "the man drinks the coffee")
    page.press("#compare", "Enter")
    page.wait_for_selector("section.answer[data-sentence='1'] svg.picture")


def test_slider_moves_through_sampler_time(page: Any, server: str, mind: Comprehender) -> None:
    opened(page, server)
    last_word(page)
    page.focus("#slider")
    page.keyboard.press("Home")
    prior = mind.answer(REVERSAL, step=0).belief(3, "agent", "pizza").bayes
    _wait_for_bar(page, prior)
    assert "prior" in page.inner_text("#slider-label").lower()
    page.keyboard.press("End")
    _wait_for_bar(page, mind.answer(REVERSAL, step="converged").belief(3, "agent", "pizza").bayes)
    assert "converged" in page.inner_text("#slider-label").lower()
    page.keyboard.press("ArrowLeft")
    _wait_for_bar(page, mind.answer(REVERSAL, step=17).belief(3, "agent", "pizza").bayes)
    assert "paper" in page.inner_text("#slider-label").lower()


def _wait_for_bar(page: Any, value: float) -> None:
    """Until the pizza's bar as agent has this value."""
    page.wait_for_function(
        "value => Math.abs(document.querySelector(\"rect.bayes[data-role='agent']"
        "[data-filler='pizza']\").dataset.value - value) < 1e-4",
        arg=value,
    )


def test_prior_variance_is_switched(page: Any, server: str, mind: Comprehender) -> None:
    opened(page, server)
    last_word(page)
    page.locator("input[name=prior][value='5']").check(force=True)
    _wait_for_bar(page, mind.answer(REVERSAL, prior_variance=5.0).belief(3, "agent", "pizza").bayes)


def test_state_lives_in_the_address(page: Any, server: str, browser: Any) -> None:
    opened(page, server)
    ask(page, "the man drinks the coffee")
    page.locator("#words button").nth(1).click()
    page.locator("input[name=prior][value='0.01']").check(force=True)
    page.focus("#slider")
    page.keyboard.press("Home")
    page.wait_for_function(
        "() => location.search.includes('prior=0.01') && location.search.includes('step=0')"
    )
    page.click("#copy-link")
    copied = page.evaluate("navigator.clipboard.readText()")
    other = browser.new_page()
    other.goto(copied)
    other.wait_for_selector("svg.picture rect.bayes")
    assert other.input_value("#sentence") == "the man drinks the coffee"
    assert other.locator("#words button[aria-current]").inner_text().strip() == "drinks"
    assert other.locator("input[name=prior][value='0.01']").is_checked()
    assert "prior" in other.inner_text("#slider-label").lower()
    other.close()


@pytest.mark.parametrize("height", [900, 1000, 1100, 1300, 1500, 1700])
def test_a_scrollbar_takes_no_room_from_what_is_drawn(
    browser: Any, file: Path, height: int
) -> None:
    """Where the page becomes longer than the window only by its pictures, a scrollbar appears."""
    started = browser.browser_type.launch(
        executable_path=shutil.which("chromium"),
        args=["--no-sandbox", "--disable-gpu"],
        ignore_default_args=["--hide-scrollbars"],
    )
    tab = started.new_page(viewport={"width": 1300, "height": height})
    tab.goto(f"{file.as_uri()}#world=paper&sentence={REVERSAL}")
    tab.wait_for_selector("svg.picture rect.bayes")
    drawn, room, scrolled = tab.evaluate(
        "[document.querySelector('svg.picture').clientWidth,"
        " ...['clientWidth', 'scrollLeft'].map(of => document.querySelector('.rows .frame')[of])]"
    )
    started.close()
    assert drawn <= room
    assert scrolled == 0


@pytest.mark.parametrize("kind", ["png", "svg", "csv"])
def test_exports(page: Any, server: str, kind: str, tmp_path: Path) -> None:
    opened(page, server)
    with page.expect_download() as waiting:
        page.click(f"#export-{kind}")
    name = waiting.value.suggested_filename
    assert name.endswith(f".{kind}")
    path = tmp_path / name
    waiting.value.save_as(path)
    content = path.read_bytes()
    if kind == "png":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    elif kind == "svg":
        text = content.decode()
        assert text.lstrip().startswith(("<svg", "<?xml"))
        assert "pizza" in text
    else:
        lines = content.decode().splitlines()
        assert lines[0].startswith("position,word,role,filler")
        assert len(lines) > 300


@pytest.mark.parametrize(("size", "theme"), [("phone", "light"), ("laptop", "dark")])
def test_axe_finds_nothing_and_nothing_overflows(
    browser: Any, server: str, size: str, theme: str
) -> None:
    context = browser.new_context(viewport=_viewport(size), color_scheme=theme)
    tab = opened(context.new_page(), server)
    found = Axe().run(tab)
    problems = [
        (violation["id"], [node["html"][:120] for node in violation["nodes"]])
        for violation in found.response["violations"]
    ]
    assert problems == []
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


def test_numbers_are_there_for_those_who_cannot_see(page: Any, server: str) -> None:
    opened(page, server)
    table = page.locator("section.answer[data-sentence='0'] table.numbers")
    assert "pizza" in table.text_content()
    picture = page.locator("section.answer[data-sentence='0'] svg.picture")
    assert picture.get_attribute("role") == "img"
    assert "pizza" in picture.get_attribute("aria-label")


def test_theme_is_kept(page: Any, server: str) -> None:
    opened(page, server)
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    page.wait_for_selector("svg.picture rect.bayes")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after
