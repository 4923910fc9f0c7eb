"""One experiment on several machines: `agent` answers on each, `spreading` asks them, `cluster` connects."""
