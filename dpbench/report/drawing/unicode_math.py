"""Rewrite the mathematical text of figures, a subset of LaTeX, as Unicode text."""

from __future__ import annotations

# ruff: noqa: RUF001 (the symbols are what this module is about)
import re
import unicodedata

__all__ = ["unicode_text"]

# Commands whose symbol is not a Greek letter.
SYMBOLS = {
    "approx": "≈", "cdot": "·", "cup": "∪", "ell": "ℓ", "equiv": "≡", "ge": "≥", "geq": "≥",
    "gg": "≫", "in": "∈", "infty": "∞", "le": "≤", "leq": "≤", "ll": "≪", "neq": "≠", "pm": "±",
    "prod": "∏", "propto": "∝", "sim": "~", "sum": "∑", "times": "×", "to": "→",
    "|": "‖", "%": "%", "$": "$", "_": "_", "{": "{", "}": "}", "#": "#", "&": "&",
    ",": "\N{THIN SPACE}", ";": " ", ":": " ", " ": " ", "quad": " ", "!": "",
    "left": "", "right": "", "big": "", "Big": "", "bigl": "", "bigr": "",
}  # fmt: skip
# Commands that change the font of their argument.
FONTS = {
    "bf", "boldsymbol", "mathbb", "mathbf", "mathcal", "mathdefault", "mathit", "mathrm",
    "mathregular", "mathsf", "mathtt", "operatorname", "rm", "text",
}  # fmt: skip
HIGH = dict(zip("0123456789+-−=()abcdefghijklmnoprstuvwxyz",
                "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))  # fmt: skip
LOW = dict(zip("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ",
               strict=True))  # fmt: skip
ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}  # above the letter before
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[\s\S]")
RELATIONS = "=<>~≈≤≥∝≪≫≠≡∈→±×"


def unicode_text(text: str) -> str:
    """Rewrite text with mathematics between dollar signs as plain Unicode text.

    For example, ``$n = 10^{3}$`` becomes ``n = 10³``. A backslash before a dollar sign makes the
    sign part of the text. An exponent or an index without Unicode symbols stays on the line, as in
    ``n^(1/k)``. An unknown command is printed by its name.
    """
    parts = re.split(r"(?<!\\)\$", text)
    if len(parts) % 2 == 0:  # an odd dollar sign: matplotlib prints the text as it is
        return text
    return "".join(
        _mathematics(part) if i % 2 else part.replace(r"\$", "$") for i, part in enumerate(parts)
    )


def _mathematics(text: str) -> str:
    tokens = TOKEN.findall(text)
    tokens.reverse()  # so that the next token is the last of the list
    found = []
    while tokens:
        found.append(_group(tokens))
    return re.sub(" +", " ", "".join(found)).strip(" ")


def _group(tokens: list[str]) -> str:
    """Take tokens up to the brace that closes the group, and return their text."""
    found = []
    while tokens and tokens[-1] != "}":
        found.append(_item(tokens))
    if tokens:
        tokens.pop()
    return "".join(found)


def _item(tokens: list[str]) -> str:
    """Take the tokens of one symbol or group, and return its text."""
    first = tokens.pop()
    if first == "{":
        return _group(tokens)
    if first in "^_":
        return _script(_argument(tokens), first)
    if first.startswith("\\"):
        return _command(first[1:], tokens)
    if first.isspace():  # spaces of the source do not show
        return ""
    return f" {first} " if first in RELATIONS else {"-": "−", "'": "′", "~": " "}.get(first, first)


def _argument(tokens: list[str]) -> str:
    """Take the argument of a command, and return its text."""
    while tokens and tokens[-1].isspace():
        tokens.pop()
    return _item(tokens) if tokens else ""


def _script(text: str, sign: str) -> str:
    """Return an exponent (sign ``^``) or an index (sign ``_``)."""
    letters = HIGH if sign == "^" else LOW
    if all(letter in letters for letter in text):
        return "".join(letters[letter] for letter in text)
    return f"{sign}({text})" if len(text) > 1 else sign + text


def _command(name: str, tokens: list[str]) -> str:
    if name in FONTS:
        return _argument(tokens)
    if name == "sqrt":
        inside = _argument(tokens)
        return f"√{inside}" if len(inside) == 1 else f"√({inside})"
    if name in {"frac", "dfrac", "tfrac"}:
        top, bottom = (_argument(tokens) for _ in range(2))
        return "/".join(part if part.isalnum() else f"({part})" for part in (top, bottom))
    if name in ACCENTS:
        return unicodedata.normalize("NFC", _argument(tokens) + ACCENTS[name])
    if name in SYMBOLS:
        symbol = SYMBOLS[name]
        return f" {symbol} " if symbol and symbol in RELATIONS else symbol
    return _letter(name) or (f"{name} " if tokens and tokens[-1].isalnum() else name)


def _letter(name: str) -> str:
    """Return the Greek letter of a command, or nothing if the command names a function."""
    size = "CAPITAL" if name[:1].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name.removeprefix('var').upper()}")
    except KeyError:
        return ""
