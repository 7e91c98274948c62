"""Which version is it?"""

__version__ = "0.1.0"
