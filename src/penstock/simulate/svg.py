"""Lines and words of an SVG picture."""

from html import escape


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Draw a straight line of a *kind* that the picture's style knows."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Write *words* from, to or around a place, as *anchor* says."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
