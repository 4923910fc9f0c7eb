"""A sampler that reads nothing: measures what sampling itself costs."""


class NullSampler:
    """Answers an empty row."""

    name = "null"
    version = 1
    columns: tuple[str, ...] = ()

    def available(self) -> bool:
        """Always."""
        return True

    def sample(self) -> tuple[float, ...]:
        """No value."""
        return ()
