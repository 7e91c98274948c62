"""How anything is written: words and numbers, pages of an answer, curves in a terminal."""
