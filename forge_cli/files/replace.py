"""Replacing a file as a whole: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from forge_cli.files.home import make_private
from forge_cli.files.sync import sync_data, sync_folder

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(file: Path, content: str | bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Write ``content`` beside a file, then put it in the file's place; ``mode`` is subject to the umask.

    Folders on the way are made for this user alone. What is ``durable`` is there after a power cut, too.
    """
    make_private(file.parent)
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(partial, _FLAGS, mode), "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            if durable:
                stream.flush()
                sync_data(stream.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(file.parent)
