"""A server's own traffic: captures are made and read. docs/capture.md, crates/capture/FORMAT.md."""
