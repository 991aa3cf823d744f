"""Style, axes and curves of figures, in files and as interactive figures of a page."""
