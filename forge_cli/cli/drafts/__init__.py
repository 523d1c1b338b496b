"""``forge drafts``: the changes of sessions that worked on a copy-on-write view, reviewed and applied."""
