"""The command line; nothing below imports it."""
