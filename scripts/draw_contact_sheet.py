"""Draw the page in all sizes, themes and steps of its story on one sheet, for visual inspection.

    python -m scripts.draw_contact_sheet SHEET.png [PAGE.png]

PAGE.png is the picture for the documentation, docs/images/page.png. Needs Chromium.
"""

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from equivocal.asking.page import build_page

Theme = Literal["light", "dark"]

SIZES = [(320, 640), (390, 844), (768, 1024), (1024, 768), (1280, 800), (1920, 1080)]
HEIGHT = 480  # of a picture on the sheet, in pixels
CHAPTERS = 5
PAIR = (
    "world=slips&sentence=during dinner, the woman eats the pizza"
    "&compare=during dinner, the pizza eats the woman"
)
LONG = "newspaper likes the backgammon " * 9
REFUSED = "the pizza was eaten by the woman"


def photograph(
    browser: Browser, address: str, size: tuple[int, int], theme: Theme, typed: str | None = None
) -> Image.Image:
    """Return a screenshot of the page in a window of some size, with a typed sentence if given."""
    view = ViewportSize(width=size[0], height=size[1])
    context = browser.new_context(viewport=view, color_scheme=theme, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(address)
    tab.wait_for_selector("section.answer")
    if typed is not None:
        tab.fill("#sentence", typed)
        tab.press("#sentence", "Enter")
    tab.wait_for_timeout(300)
    picture = Image.open(BytesIO(tab.screenshot()))
    context.close()
    return picture


def arrange(pictures: list[Image.Image], columns: int) -> Image.Image:
    """Scale pictures to equal height and arrange them in rows on one sheet."""
    scaled = [
        image.resize((round(image.width * HEIGHT / image.height), HEIGHT)) for image in pictures
    ]
    rows = [scaled[start : start + columns] for start in range(0, len(scaled), columns)]
    width = max(sum(image.width + 10 for image in row) for row in rows)
    sheet = Image.new("RGB", (width, (HEIGHT + 10) * len(rows)), "grey")
    for y, row in enumerate(rows):
        x = 0
        for image in row:
            sheet.paste(image, (x, y * (HEIGHT + 10)))
            x += image.width + 10
    return sheet


def main(sheet: str, single: str | None = None) -> None:
    """Draw the sheet and, if `single` is given, the picture for the documentation."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        page.write_text(build_page(), encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        address = page.as_uri()
        free = f"#{PAIR}"
        states: list[tuple[str, Theme, str | None]] = [
            *(
                (f"#{PAIR}&story={n + 1}", "dark" if n % 2 else "light", None)
                for n in range(CHAPTERS)
            ),
            (free, "light", None),
            (free, "dark", None),
            (f"#world=paper&sentence={LONG}", "light", None),
            (free, "dark", REFUSED),
        ]
        shots = [
            photograph(browser, address + state, size, theme, typed)
            for state, theme, typed in states
            for size in SIZES
        ]
        arrange(shots, len(SIZES)).save(sheet)
        if single is not None:
            shown = photograph(browser, address + free, (1280, 945), "light")
            shown.convert("RGB").quantize(96).save(single, optimize=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
