"""Pages of more than one run: the page ``report=all``, and the site of the documentation."""
