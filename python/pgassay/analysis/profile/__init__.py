"""From folded samples to functions whose time per transaction differs (pure)."""
