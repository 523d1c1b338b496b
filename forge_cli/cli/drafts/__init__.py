"""``forge drafts``: list, show, review and apply the changes of draft sessions."""
