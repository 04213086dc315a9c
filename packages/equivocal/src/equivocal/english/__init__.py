"""English: a Sentence Gestalt model whose update network is a frozen language model.

`EnglishListener` asks any sentence who does what to whom; `fit_english` asks what your labels ask.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equivocal.english.listener import EnglishListener, fit_english

__all__ = ["EnglishListener", "fit_english"]


def __getattr__(name: str) -> Any:
    """Import what is asked for only then, since it needs NumPy and pandas."""
    if name in __all__:
        from equivocal.english import listener

        return getattr(listener, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
