"""Figures of papers, lectures and posts, drawn from the sweeps that check them."""
