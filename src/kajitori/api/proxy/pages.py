"""Pages that the proxy shows itself, for example while a program does not answer yet."""

from __future__ import annotations

from html import escape

from starlette.responses import Response

from kajitori.api.answers.problems import error_response, problem_of
from kajitori.errors import KajitoriError

AGAIN_SECONDS = 3
"""Interval at which a page loads itself again while the program may still come."""

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem;"
    "color-scheme:light dark;background:Canvas;color:CanvasText}h1{font-size:1.3rem}code{font-size:.95em}"
    "p.hint{opacity:.8}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def error_page(error: KajitoriError, title: str, *, again: bool = False) -> Response:
    """Return a page about an error. With `again`, it loads itself again every few seconds."""
    status = problem_of(error).status
    lines = [f"<p>{escape(error.message)}.</p>"]
    if error.hint:
        lines.append(f'<p class="hint">{escape(error.hint)}</p>')
    if again:
        lines.append(f'<p class="hint">This page loads itself again every {AGAIN_SECONDS} seconds.</p>')
    refresh = f'<meta http-equiv="refresh" content="{AGAIN_SECONDS}">' if again else ""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{''.join(lines)}</html>"
    )
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": _POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    if again:
        headers["Retry-After"] = str(AGAIN_SECONDS)
    return Response(text, status, headers, "text/html")


def error_answer(error: KajitoriError, *, for_person: bool, title: str, again: bool = False) -> Response:
    """Return the answer about an error: a page for people, a problem for programs."""
    if for_person:
        return error_page(error, title, again=again)
    response = error_response(error)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
