"""How numbers are written for readers: in reports, in summaries and in the terminal."""

import math

__all__ = ["NOTHING", "format_number"]

NOTHING = "–"
DIGITS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def format_number(value: float) -> str:
    """Format a number with three or four significant digits, or fewer where it has fewer.

    >>> [format_number(v) for v in (0.012345, 4.68581, -0.5, 12345.6, 3.2e-7, 9.0)]
    ['0.0123', '4.686', '−0.5', '12,346', '3.20 × 10⁻⁷', '9']
    """
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if value == int(value) and size < 1e6:
        text = f"{int(value):,}"
    elif size < 1e-3 or size >= 1e6:
        base, power = f"{value:.2e}".split("e")
        text = f"{base} × 10{str(int(power)).translate(DIGITS)}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    elif float(f"{value:.2g}") == value:  # a setting, as 0.01
        text = f"{value:g}"
    else:
        text = f"{value:#.4g}" if size >= 1 else f"{value:#.3g}"
    return text.replace("-", "−")
