"""An HTML page parsed without a browser: elements, text, and faults of the markup."""

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Elements (name, attributes) in order, the text within each name, and faults of the markup."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.elements, self.stack, self.faults = [], [], []
        self.text, self.folder = {}, Path(path).parent
        self.source = Path(path).read_text(encoding="utf-8")
        self.feed(self.source)
        self.faults += [f"<{name}> is never closed" for name in self.stack]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if len(dict(attrs)) < len(attrs):
            self.faults.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.stack.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.faults.append(f"</{tag}> closes another element")

    def handle_data(self, data):
        for tag in set(self.stack):
            self.text[tag][-1] += data

    def values(self, key):
        return [a[key] for _, a in self.elements if key in a]
