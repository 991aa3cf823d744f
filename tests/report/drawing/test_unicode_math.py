"""Mathematical text as Unicode."""

# ruff: noqa: RUF001 (symbols, as they are printed)

from __future__ import annotations

import pytest

from dpbench.report.drawing.unicode_math import unicode_text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain_text, 100%", "plain_text, 100%"),
        ("$n$", "n"),
        (r"$\mathdefault{10^{-3}}$", "10⁻³"),
        (r"$2.5 \times 10^{12}$", "2.5 × 10¹²"),
        (r"pure DP, $\varepsilon = 0.01$, $\delta = 10^{-6}$", "pure DP, ε = 0.01, δ = 10⁻⁶"),
        (r"$s$ in $\mathit{n} \sim (1/\alpha)^s$", "s in n ~ (1/α)ˢ"),
        (r"$\sqrt{d\ln(1/\delta)}/(n\varepsilon)$", "√(dln(1/δ))/(nε)"),
        (r"measured $-$ theory", "measured − theory"),
        (r"$\|\mu\|_2 \leq R$", "‖μ‖₂ ≤ R"),
        (r"$n^{-(k-1)/k}$", "n^(−(k−1)/k)"),
        (r"$x_{max}$, $x^a_1$", "xₘₐₓ, xᵃ₁"),
        (r"$\frac{1}{a+b}$ and $\Sigma\,\infty$", "1/(a+b) and Σ\N{THIN SPACE}∞"),
        (r"$\hat x$, $\unknown$, $\log n$", "x̂, unknown, logn"),
        (r"5 \$ or more", "5 $ or more"),
        ("a $ alone", "a $ alone"),
        ("$10^", "$10^"),
        ("$x^$", "x"),
    ],
)
def test_labels_are_readable_without_latex(text: str, printed: str) -> None:
    assert unicode_text(text) == printed
