"""Reads pages as a browser would, as far as tags go."""

from __future__ import annotations

import html.parser


class Tags(html.parser.HTMLParser):
    """Collects tags and their attributes, and fails where they are not nested."""

    EMPTY = ("meta",)

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
