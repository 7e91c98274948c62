"""Command line: arguments, commands, and output of answers."""
