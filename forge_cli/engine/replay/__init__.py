"""Replaying a recorded session and comparing what happens now with what happened then."""
