"""Output: words and numbers, pages of an answer, files."""
