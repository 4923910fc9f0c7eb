"""The command line that repeats an experiment."""


def repeatable(command: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """The command line with the seed that was drawn, into a new folder."""
    words: list[str] = []
    skip = False
    for word in command:
        if skip or word.startswith("--out="):
            skip = False
            continue
        if word == "--out":
            skip = True
            continue
        words.append(word)
    if words and not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words += ["--seed", str(seed)]
    return tuple(words)
