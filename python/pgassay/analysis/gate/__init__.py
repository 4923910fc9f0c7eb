"""The gate of every change: what one night says, over many nights, and what can be promised."""
