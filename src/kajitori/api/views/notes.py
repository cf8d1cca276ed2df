"""The note on a run as answers show it."""

from __future__ import annotations

from kajitori.api.views.base import Time, View


class NoteView(View):
    """The note on a run."""

    text: str
    """Plain text, with line feeds."""
    by: str
    """The user who wrote it."""
    at: Time
