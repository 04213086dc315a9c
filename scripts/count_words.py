"""Count the words of README and docs/, as `wc -w` does, and the pages.

python scripts/count_words.py
"""

from pathlib import Path

__all__ = ["ROOT", "count_words"]

ROOT = Path(__file__).resolve().parents[1]


def count_words() -> dict[str, int]:
    """Return the number of words of README and of every page of docs/."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {
        str(page.relative_to(ROOT)): len(page.read_text(encoding="utf-8").split()) for page in pages
    }


if __name__ == "__main__":
    words = count_words()
    for name, number in words.items():
        print(f"{number:6,}  {name}")
    print(f"{sum(words.values()):,} words in README and docs/, {len(words)} pages with README")
