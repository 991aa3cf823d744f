"""Commands other than a sweep, one module each: words in, text and files out."""
