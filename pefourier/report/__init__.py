"""How answers look: in words, as JSON and CSV, as curves in a terminal, as figures."""
