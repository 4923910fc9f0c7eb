"""A server's own traffic: captures are made, read and summed up. docs/capture.md, crates/capture/FORMAT.md."""
