"""Draw a terminal's text as an SVG without external files, for pages that show real runs as a picture."""

from __future__ import annotations

from html import escape

_WIDTH, _HEIGHT = 8.0, 18
"""Size of a character in pixels, at 13 px."""
_MARGIN, _BAR = 16, 34
_STYLE = """
  .window { fill: #1b2129; stroke: #3a4552 }
  .bar { fill: #262f3a }
  text { font: 13px ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5dde6 }
  .title { fill: #93a1b0 }
  .heading { fill: #ffffff; font-weight: bold }
  .prompt { fill: #5ad1a6 }
  .said { fill: #93a1b0 }
"""


def picture(lines: list[tuple[str, str]], *, title: str, columns: int) -> str:
    """Return the picture. lines: kind (`heading`, `command`, `said` or `output`) and text; longer lines are cut."""
    width = round(columns * _WIDTH) + 2 * _MARGIN
    height = _BAR + len(lines) * _HEIGHT + 2 * _MARGIN - 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="window" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<path class="bar" d="M1 {_BAR}V9a8 8 0 0 1 8-8H{width - 9}a8 8 0 0 1 8 8V{_BAR}z"/>',
        *(f'<circle cx="{20 + 20 * at}" cy="17" r="6" fill="{fill}"/>' for at, fill in enumerate(_LIGHTS)),
        f'<text class="title" x="{width / 2:.0f}" y="22" text-anchor="middle">{escape(title)}</text>',
    ]
    y = _BAR + _MARGIN + 10
    for kind, line in lines:
        if line:
            parts.append(_line(kind, line if len(line) <= columns else f"{line[: columns - 2]} …", y))
        y += _HEIGHT
    return "\n".join([*parts, "</svg>"]) + "\n"


_LIGHTS = ("#e5645b", "#e6b450", "#5cb85c")


def _line(kind: str, line: str, y: int) -> str:
    """Return one line; `textLength` keeps columns aligned in every font."""
    text = escape(line, quote=False)
    if kind == "command":
        text = f'<tspan class="prompt">$</tspan>{text[1:]}'
    place = f'x="{_MARGIN}" y="{y}" textLength="{len(line) * _WIDTH:.0f}" lengthAdjust="spacingAndGlyphs"'
    chosen = f' class="{kind}"' if kind in ("heading", "said") else ""
    return f'<text{chosen} xml:space="preserve" {place}>{text}</text>'
