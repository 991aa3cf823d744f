"""Names and numbers in words."""

from __future__ import annotations

import math
import re
from typing import Literal

from dpbench.errors import ConfigError

__all__ = [
    "NAMES",
    "NOTIONS",
    "Font",
    "Width",
    "as_text",
    "check_math",
    "display_name",
    "format_digits",
    "natural_sort_key",
    "number_text",
]  # fmt: skip

Font = Literal["sans", "serif"]

# Width of a figure: the page, one of its two columns, or a slide, whose height is fixed, too.
Width = Literal["page", "column", "slide"]

NOTIONS = {"pure": "pure DP", "zcdp": "zCDP", "gdp": "Gaussian DP", "approx": "approximate DP"}

# Printed names by their spelling in labels.
NAMES = {
    "adassp": "AdaSSP", "bernoulli": "Bernoulli", "coinpress": "CoinPress",
    "friendly core": "FriendlyCore", "galton": "Galton", "gaussian": "Gaussian",
    "karwa vadhan": "Karwa-Vadhan", "ksu20": "KSU20", "laplace": "Laplace", "noisyvar": "NOISYVAR",
    "numpy": "NumPy", "opendp": "OpenDP", "pareto": "Pareto", "pipeline dp": "PipelineDP",
    "plan": "PLAN", "priv unit": "PrivUnit", "student t": "Student's t", "tumult": "Tumult",
    "zcdp": "zCDP",
}  # fmt: skip

PROPER = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")


def display_name(label: str) -> str:
    """Return a label as it is printed, with spaces and with names spelled as in papers."""
    return PROPER.sub(lambda name: NAMES[name[0]], label.replace("_", " "))


def number_text(value: float) -> str:
    """Return a number as LaTeX text with three significant digits.

    Whole numbers below 10,000 are written in full.
    """
    if 1000 <= value < 10000 and value == round(value):
        return f"{value:.0f}"
    text = f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.3g}"
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return mantissa
    mantissa = f"{float(mantissa):g}"
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \times {power}"


def format_digits(value: float, *, trailing: bool = True) -> str:
    """Return a number as text with three significant digits, or four from 1 on.

    NaN is blank, and infinity ∞. Zeros at the end are left out unless `trailing`.
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:{'#' * trailing}.{4 if abs(value) >= 1 else 3}g}"


def as_text(value: float, places: int = 3) -> str:
    """Return a number as text for a terminal, with `places` significant digits.

    Numbers below 10^6 are written in full, with commas. NaN is blank, and infinity ∞.
    """
    if not math.isfinite(value):
        return format_digits(value)
    rounded = float(f"{value:.{places}g}")
    is_long = min(1000, 10**places) <= abs(rounded) < 1e6 and rounded.is_integer()
    return f"{rounded:,.0f}" if is_long else f"{value:.{places}g}"


def natural_sort_key(label: str) -> list[str | float]:
    """Return a sort key that orders labels by the numbers in them.

    For example, ``n=9`` comes before ``n=10``.
    """
    power = r"(?:(\d[\d.]*) \\times )?10\^\{(-?\d+)\}"
    plain = re.sub(power, lambda match: f"{match[1] or 1}e{match[2]}", label)
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", plain)
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


def check_math(text: str, where: str) -> None:
    """Raise a ConfigError if the mathematics between the dollar signs of a text cannot be drawn.

    The message names `where` the text stands in the configuration.
    """
    if "$" in text:
        from matplotlib.mathtext import MathTextParser

        try:
            MathTextParser("path").parse(text)
        except ValueError as error:
            message = f"{where}: {text!r}: not valid mathematical text: {error}"
            raise ConfigError(message) from error
