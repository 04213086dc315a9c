"""`UserError`, for mistakes that the caller can correct, and functions that word its messages.

The command line shows a `UserError` as a single sentence and exits with code 2. Any other exception
is a bug and keeps its traceback.

Reports and summaries use the same functions, and format their numbers by `format_number`.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from lastlayer.errors import UserError, did_you_mean, join_names

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    Model = TypeVar("Model", bound=BaseModel)

__all__ = [
    "NOTHING",
    "explain_mistake",
    "explain_validation",
    "format_number",
    "locate_mistake",
    "validate",
]

NOTHING = "–"  # printed in place of a missing number
DIGITS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
RULES = {  # pydantic's type of error: the rule, in terms that an author of TOML knows
    "tuple_type": "this should be a list",
    "dict_type": "this should be a table",
    "model_type": "this should be a table",
    "model_attributes_type": "this should be a table",
    "string_type": "this should be text",
    "string_pattern_mismatch": "this should not be empty",
    "float_type": "this should be a number",
    "too_short": "name at least one here",  # where one entry is enough
}


def validate(model: "type[Model]", content: Any, what: str, where: str = "") -> "Model":
    """Return the content of a file as a model, or name the first mistake in it.

    Parameters
    ----------
    model : type of BaseModel
        The model that the content must fit.
    content : Any
        The parsed content of the file.
    what : str
        What a field is called in the message: "setting", "key", …
    where : str
        The file, for the start of the message.

    Raises
    ------
    UserError
        Where the content does not fit the model.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{where}{explain_validation(error, model, what)}") from None


def explain_validation(error: "ValidationError", model: "type[BaseModel] | None", what: str) -> str:
    """Put the first mistake that pydantic found in a file or an option into one sentence.

    Parameters
    ----------
    error : ValidationError
        As raised by pydantic.
    model : type of BaseModel or None
        The model whose fields are the names that are known; None for a single value.
    what : str
        What a field is called in the message: "setting", "key", …

    Returns
    -------
    str
        Names the place, the value received and the rule; for an unknown name, the nearest one.
    """
    return explain_mistake(error.errors()[0], model, what, locate_mistake(error))


def explain_mistake(
    mistake: "ErrorDetails", model: "type[BaseModel] | None", what: str, place: str
) -> str:
    """Put one mistake that pydantic found into a sentence; see `explain_validation`.

    Parameters
    ----------
    mistake : ErrorDetails
        One of the `errors()` of a `ValidationError`.
    model : type of BaseModel or None
        The model whose fields are the names that are known; None for a single value.
    what : str
        What a field is called in the message.
    place : str
        The dotted name of this field; "" where the caller puts the name before the message.
    """
    if mistake["type"] == "missing":
        return f"the {what} {place!r} is missing; add it."
    if mistake["type"] == "extra_forbidden" and model is not None:
        known = _find_known_names(model, mistake["loc"][:-1])
        name = str(mistake["loc"][-1])
        hint = did_you_mean(name, known) or f"; {what}s are {join_names(known)}."
        return f"unknown {what} {place!r}{hint}"
    if mistake["type"] == "value_error":  # raised by a validator of this package
        rule = str(mistake["ctx"]["error"])
        return f"{place and f'{place}: '}{rule}{'' if rule.endswith('?') else '.'}"
    several = mistake.get("ctx", {}).get("min_length", 1) > 1
    rule = mistake["msg"].lower() if several else RULES.get(mistake["type"], mistake["msg"].lower())
    return f"{place and f'{place} = '}{mistake['input']!r:.60} is wrong: {rule}."


def locate_mistake(error: "ValidationError") -> str:
    """Return the dotted name of the first mistake, without pydantic's name of the type it tried."""
    place = [str(part) for part in error.errors()[0]["loc"]]
    types = ("bool", "int", "float", "str", "constrained-", "literal[")
    return ".".join(place[:-1] if len(place) > 1 and place[-1].startswith(types) else place)


def _find_known_names(model: "type[BaseModel]", place: tuple[int | str, ...]) -> list[str]:
    """Return the fields of the model at a place inside another model."""
    for part in place:
        if part in model.model_fields:
            model = next(_find_models(model.model_fields[str(part)].annotation), model)
    fields = model.model_fields.items()
    return [field.alias or name for name, field in fields if not field.exclude]


def _find_models(annotation: Any) -> "Iterator[type[BaseModel]]":
    """Yield the models in an annotation such as `dict[str, Model] | None`."""
    if hasattr(annotation, "model_fields"):
        yield annotation
    for part in get_args(annotation):
        yield from _find_models(part)


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
    elif float(f"{value:.2g}") == value:  # at most two significant digits, such as 0.01
        text = f"{value:g}"
    else:
        text = f"{value:#.4g}" if size >= 1 else f"{value:#.3g}"
    return text.replace("-", "−")
