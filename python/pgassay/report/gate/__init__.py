"""Gates and their history as text, Markdown, JUnit XML and a page."""
