"""Colours and signs that tell arms apart, also for eyes that don't tell red from green.

The hues are those of Okabe and Ito, "Color Universal Design" (2008), darkened where white paper
needs it. Charts are drawn once, for white paper; the page's style sheet maps the inks below to
custom properties, so that the same drawing turns dark with the page.
"""

ARMS = ("#0072B2", "#D55E00", "#009E73", "#B3589A", "#B8860B", "#3E8FC1", "#6B6B6B")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "stroke")
FAILURE = "#C1121F"

INK = "#1B1F24"
QUIET_INK = "#57606B"
GRID = "#DDE1E6"
BAND = "#E9EDF2"
TWIN = "#8A6D1D"
# Tiles of a grid, from a small to a large difference; ink stands on them.
HEAT_FASTER = ("#D9EAF7", "#AFD4EF", "#7DB9E4")
HEAT_SLOWER = ("#FCE3D0", "#F9C8A3", "#F3A66E")
HEAT_SAME = "#D5EDE3"
HEAT_OPEN = "#ECEEF1"
# From the least to the greatest share of a heat map.
HEAT_SHARE = ("#D3E5F5", "#0B3C5D")

# Ink on white → the custom property of the page that replaces it.
THEMED = {
    INK: "--ink",
    QUIET_INK: "--quiet",
    GRID: "--rule",
    BAND: "--band",
    TWIN: "--twin",
    FAILURE: "--bad",
    **{colour: f"--arm-{number}" for number, colour in enumerate(ARMS)},
    **{colour: f"--faster-{number}" for number, colour in enumerate(HEAT_FASTER)},
    **{colour: f"--slower-{number}" for number, colour in enumerate(HEAT_SLOWER)},
    HEAT_SAME: "--same-tile",
    HEAT_OPEN: "--open-tile",
}


# The tiles on a dark page.
_DARK = {
    **dict(zip(HEAT_FASTER, ("#1B3346", "#1F4A6B", "#236394"), strict=True)),
    **dict(zip(HEAT_SLOWER, ("#43301F", "#6B4220", "#935420"), strict=True)),
    HEAT_SAME: "#1D3D32",
    HEAT_OPEN: "#2A3038",
}


def properties(*, dark: bool = False) -> str:
    """The custom properties of the arms' and the tiles' colours, as declarations; dark ones: the tiles'."""
    chosen = _DARK if dark else {colour: colour for colour in (*ARMS, *_DARK)}
    return "".join(f"{THEMED[colour]}:{shown};" for colour, shown in chosen.items())


def theme_rules(scope: str) -> str:
    """CSS rules that let a page's custom properties replace the inks of the drawings in `scope`."""
    return "\n".join(
        f'{scope} [{attribute}="{colour}"]{{{attribute}:var({name})}}'
        for colour, name in THEMED.items()
        for attribute in ("fill", "stroke")
    )
