"""The native binary's client: it finds and starts the binary, and holds each of its conversations."""
