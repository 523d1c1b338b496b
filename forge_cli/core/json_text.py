"""JSON text of plain data, written by an encoder that is made once: ``json`` makes a new one for each value."""

from __future__ import annotations

import json.encoder
from collections.abc import Callable
from typing import Any


def json_encoder(
    *,
    separators: tuple[str, str] = (", ", ": "),
    sort_keys: bool = False,
    ensure_ascii: bool = False,
    allow_nan: bool = True,
) -> Callable[[Any], str]:
    """How plain data is written, with characters as they are unless it is to be ASCII; it must not hold itself."""
    whole = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        check_circular=False,
        separators=separators,
        sort_keys=sort_keys,
        allow_nan=allow_nan,
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return whole.encode
    text = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    item, key = separators
    encode = make(None, whole.default, text, None, key, item, sort_keys, whole.skipkeys, whole.allow_nan)
    return lambda value: "".join(encode(value, 0))
