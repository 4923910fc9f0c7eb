"""One run of tune: what it looks at, what it proves, and how it is continued later."""
