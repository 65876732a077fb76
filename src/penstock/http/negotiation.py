"""What a client would rather have: a page for people, or data for programs."""

from typing import Final

HTML: Final = "text/html"
JSON: Final = "application/json"


def prefers_html(accept: str) -> bool:
    """Tell whether a header `Accept` names HTML, and JSON is no more welcome."""
    weights = {HTML: 0.0, JSON: 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        weight = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
        if kind in weights:
            weights[kind] = (
                float(weight) if weight.isascii() and weight.replace(".", "", 1).isdigit() else 0.0
            )
    return 0.0 < weights[HTML] >= weights[JSON]
