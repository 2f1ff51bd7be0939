# SPDX-License-Identifier: MIT
"""Units of arrays, as files tell them, in any usual spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["same_unit", "unit_of"]

_NAMES = {
    "K": "kelvin degk deg_k degree_kelvin degrees_kelvin",
    "degC": "c celsius degc deg_c degree_c degrees_c degree_celsius degrees_celsius °c",
    "degF": "fahrenheit degf deg_f degree_fahrenheit degrees_fahrenheit °f",
    "m": "meter meters metre metres",
    "km": "kilometer kilometers kilometre kilometres",
    "cm": "centimeter centimeters centimetre centimetres",
    "mm": "millimeter millimeters millimetre millimetres",
    "s": "second seconds sec secs",
    "min": "minute minutes mins",
    "h": "hour hours hr hrs",
    "d": "day days",
    "a": "year years yr yrs",
    "g": "gram grams",
    "kg": "kilogram kilograms",
    "Pa": "pascal pascals",
    "N": "newton newtons",
    "J": "joule joules",
    "W": "watt watts",
    "deg": "degree degrees °",
    "degE": "degree_east degrees_east degree_e degrees_e",
    "degN": "degree_north degrees_north degree_n degrees_n",
    "rad": "radian radians",
    "1": "dimensionless unitless none -",
    "%": "percent",
}
_SYMBOLS = {name: symbol for symbol, names in _NAMES.items() for name in names.split()}
"""Symbols by names in lower case."""

_FACTOR = re.compile(
    r"\s*([/*.·]?)\s*(°[CF]?|[^\W\d]+|1(?!\d)|[%-])(?:\^|\*\*)?([+-]?\d+)?(?=[\s/*.·]|$)"
)


def unit_of(about: Mapping[str, object]) -> str:
    """Unit by the attributes of an array, or an empty string."""
    for name in ("units", "unit", "Units", "Unit"):
        value = about.get(name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def same_unit(one: str, other: str) -> bool:
    """True for units that may be the same: equal ones, in any spelling, and those not told.

    Commas separate the units of coordinates. Of times since a date, the date does not count.
    """
    some, others = one.split(","), other.split(",")
    if len(some) != len(others):
        return True
    pairs = ((a.strip(), b.strip()) for a, b in zip(some, others, strict=True))
    return all(not a or not b or _factors(a) == _factors(b) for a, b in pairs)


def _factors(unit: str) -> str | dict[str, int]:
    """Powers of symbols; of a unit that is no product of powers, its text."""
    text = re.sub(r"\s+", " ", unit.split(" since ")[0]).strip()
    text = re.sub(r"(?i)^(deg|degrees?|°) ([ckf])$", r"deg_\2", text)
    powers: dict[str, int] = {}
    at = 0
    while at < len(text):
        found = _FACTOR.match(text, at)
        if found is None:
            return text
        between, name, power = found.groups()
        symbol = _SYMBOLS.get(name.lower(), name)
        sign = -1 if between == "/" else 1
        powers[symbol] = powers.get(symbol, 0) + sign * int(power or 1)
        at = found.end()
    powers.pop("1", None)
    return {symbol: power for symbol, power in powers.items() if power}
