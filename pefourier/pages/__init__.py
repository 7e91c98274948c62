"""HTML pages: encodings in comparison, and training folders."""
