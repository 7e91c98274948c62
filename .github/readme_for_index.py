"""README.md as a package index shows it: its images and links name the repository they are in.

An index has no files of the repository, so that `figures/a.png` shows nothing there. The address is
that of the workflow which builds the release (GITHUB_REPOSITORY and what goes with it); without one
README.md stays as it is.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


class ReadmeForIndex(MetadataHookInterface):
    """What hatchling asks for the long description."""

    def update(self, metadata: dict) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_addresses(text, os.environ)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_addresses(text: str, known: Mapping[str, str]) -> str:
    """A text in Markdown whose relative links lead to the repository."""
    if "GITHUB_REPOSITORY" not in known:
        return text
    server = known.get("GITHUB_SERVER_URL", "https://github.com")
    reference = known.get("GITHUB_REF_NAME", "main")
    address = f"{server}/{known['GITHUB_REPOSITORY']}"

    def absolute(link: re.Match[str]) -> str:
        image, name, path = link.groups()
        return f"{image}{name}({address}/{'raw' if image else 'blob'}/{reference}/{path})"

    return LINK.sub(absolute, text)
