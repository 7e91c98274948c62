"""Presentation of answers: text, JSON, CSV, terminal charts and figures."""
