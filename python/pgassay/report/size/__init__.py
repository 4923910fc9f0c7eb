"""The report of `pgassay size`: a terminal, Markdown, a page, one JSON document."""
