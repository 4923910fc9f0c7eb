"""A sampler that reads nothing: measures what sampling itself costs."""


class NullSampler:
    """Every sample is a row of no columns."""

    name = "null"
    version = 1
    columns: tuple[str, ...] = ()

    def available(self) -> bool:
        """Whether there is a source: none is needed."""
        return True

    def sample(self) -> tuple[float, ...]:
        return ()
