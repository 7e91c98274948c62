"""Identification of position tables, and findings about their mistakes."""
