"""Command line: words of a sweep, help, completion, and the commands of applications."""
