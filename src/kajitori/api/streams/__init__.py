"""Long-lived answers, and what they wait for: rows of tables and their changes, events, addresses of members. Begin
with `live_rows.LiveRows`."""
