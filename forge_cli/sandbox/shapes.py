"""Shapes of secrets: what the usual kinds of keys look like, and where a text may end before one is whole."""

from __future__ import annotations

import re
from typing import NamedTuple

_WORD = "A-Za-z0-9_-"
_APART = (f"<![{_WORD}]", r"<=\\[nrt]", r"<=%[0-9A-Fa-f]{2}")
"""The beginning of a word; a line break or a byte written as an escape ends with a letter, and counts as well."""
_ARMOR = r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,.()-])*+"
_HEADER = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,6}-----"


class Shape(NamedTuple):
    """One kind of secret; what takes any number of characters cannot begin again in them, so that it is found in time.

    What is more than 512 characters long is none of the keys that may begin anywhere.
    """

    name: str
    anchor: str
    """Text that is there wherever the shape is."""
    pattern: str
    """A regular expression with the secret as its group; the text around it tells it from others."""
    start: str
    """The literal text that it starts with; one without any stands among ``OPEN``."""


def _key(name: str, start: str, rest: str, at: tuple[str, ...] = (), *, anchor: str | None = None) -> Shape:
    """A key by the text that it starts with, at a place that lookbehinds may limit.

    These stand behind the literal text, which is found much faster than they are.
    """
    place = f"(?:{'|'.join(f'(?{each}{re.escape(start)})' for each in at)})" if at else ""
    return Shape(name, anchor or start, f"((?a:{re.escape(start)}{place}{rest}))", start)


def _led(name: str, start: str, pattern: str) -> Shape:
    """A secret by the text that leads to it."""
    return Shape(name, start, pattern, start)


SHAPES = (
    # a key that was cut off before its last line is one, too
    _led(
        "private-key",
        "-----BEGIN ",
        rf"({_HEADER}(?:{_ARMOR}-----END [A-Z0-9 ]{{1,60}}-----|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{{16,}}+)++))",
    ),
    _key("anthropic", "sk-ant-", r"[\w-]{16,512}"),
    _key("openai", "sk-", r"[\w-]{32,}", _APART),
    _key("github", "gh", "[pousr]_[A-Za-z0-9]{36,512}"),
    _key("github", "github_pat_", r"\w{40,512}"),
    _key("gitlab", "gl", r"(?:pat|dt|rt|cbt|ptt|ft|oas|soat)-[\w-]{20,512}"),
    _key("aws", "A", "[KS]IA[A-Z0-9]{16}", anchor="IA"),
    *(
        _led("aws-secret", start, rf"{start}[\s\"'\\:=>]{{1,12}}([A-Za-z0-9/+]{{40}})")
        for start in ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey")
    ),
    _key("google", "AIza", r"[\w-]{35}"),
    _key("google-oauth", "GOCSPX-", r"[\w-]{20,512}"),
    _key("google-oauth", "ya29.", r"[\w-]{20,512}"),
    _key("stripe", "sk_", "(?:live|test)_[A-Za-z0-9]{16,512}"),
    _key("stripe", "rk_", "(?:live|test)_[A-Za-z0-9]{16,512}"),
    _key("stripe", "whsec_", "[A-Za-z0-9+/=]{24,512}", _APART),
    _key("slack", "xox", "[abeoprs]-[A-Za-z0-9-]{10,512}"),
    _key("slack-app", "xapp-", "[A-Za-z0-9-]{20,512}"),
    _led("slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/[a-z]{1,20}/([A-Za-z0-9/]{20,512})"),
    _led("discord-webhook", "/api/webhooks/", r"/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,80})"),
    _key("huggingface", "hf_", "[A-Za-z0-9]{30,}", _APART),
    _key("npm", "npm_", "[A-Za-z0-9]{36,512}"),
    _key("pypi", "pypi-", r"[\w-]{50,512}"),
    _key("sendgrid", "SG.", r"[\w-]{16,32}\.[\w-]{32,64}", _APART),
    _key("jwt", "eyJ", r"[\w-]{5,}\.eyJ[\w-]{5,}\.[\w-]{8,}", _APART, anchor=".eyJ"),
    _key("groq", "gsk_", "[A-Za-z0-9]{20,}", _APART),
    _key("xai", "xai-", "[A-Za-z0-9]{20,}", _APART),
    _key("doppler", "dp.", r"(?:ct|pt|st|sa|scim|audit)\.[A-Za-z0-9]{40,512}"),
    _key("doppler", "dp.st.", r"[a-z0-9_-]{2,35}\.[A-Za-z0-9]{40,512}"),
    _key("figma", "fig", r"(?:d|o|u|or|ur|oh|uh)_[\w-]{36,512}", _APART),
    _key("new-relic", "NR", r"(?:AK|AA|BR|II|IQ|JS|RA|SP)-[\w-]{19,512}", _APART),
    _key("new-relic", "", "[a-f0-9]{36}NRAL", _APART, anchor="NRAL"),
    *(_key("new-relic", f"{region}01x", "[xa-f0-9]{30,32}NRAL") for region in ("ap", "eu", "gov", "jp", "us")),
    _key("postman", "PMA", "[KT]-[A-Za-z0-9-]{24,512}"),
    _key("shopify", "shp", "(?:at|ca|it|pa|ss|tka|ua)_[A-Za-z0-9]{32,512}"),
    _key("square", "sq0", r"(?:atp|acp|csp)-[\w-]{22,512}"),
    # the end of a word that is not part of a longer one in base64
    _key("square", "EAAA", r"[\w-]{60}(?![+/=\w-])", (f"<![+/{_WORD}]", *_APART[1:])),
    _key("digitalocean", "do", "[opr]_v1_[a-f0-9]{64}", anchor="_v1_"),
    _key("databricks", "dapi", "[a-f0-9]{32}", _APART),
    _led("telegram", ":", r":(?<=\d{8}:)([A-Za-z0-9_-]{34,36})"),
    _led("azure", "AccountKey=", "AccountKey=([A-Za-z0-9+/]{86}==)"),
    _key("azure", "Q~", r"[\w.~-]{31,34}", (r"<=[\w.~-]{3}\d",)),
    _key("age", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
    _key("vault", "hv", r"[sbr]\.[\w-]{20,512}"),
    _key("docker", "dckr_pat_", r"[\w-]{20,512}"),
    _key("linear", "lin_api_", "[A-Za-z0-9]{32,512}"),
    _key("replicate", "r8_", "[A-Za-z0-9]{32,}", _APART),
    _key("perplexity", "pplx-", "[A-Za-z0-9]{32,512}"),
    _key("tailscale", "tskey-", r"[\w-]{16,512}"),
    _key("grafana", "glsa_", r"\w{32,512}"),
    _key("mailgun", "key-", "[a-f0-9]{32}", _APART),
    _key("twilio", "SK", "[a-f0-9]{32}", _APART),
    *(_led("bearer", start, rf"{start}([A-Za-z0-9._~+/=-]{{16,}})") for start in ("Bearer ", "bearer ")),
    _led("basic-auth", "uthorization: Basic ", "uthorization: Basic ([A-Za-z0-9+/=]{12,})"),
    _led("url-password", "://", r"://[^\s/?#<>\"'`\\:@]*:((?!\[redacted:|[$<{*])[^\s/?#<>\"'`\\]+(?=@))"),
)

OPEN = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,64}+-{0,4}+\Z"
    rf"|{_HEADER}{_ARMOR}(?:-----[A-Z0-9 ]{{0,64}}+-{{0,4}}+)?\Z"
    r"|(?:secret_access_key|SECRET_ACCESS_KEY|SecretAccessKey)[\s\"'\\:=>]{1,12}[!-~]*+\Z"
    r"|[Bb]earer [!-~]*+\Z"
    r"|uthorization: (?:Basic )?[!-~]*+\Z"
    r"|://[^\s/?#<>\"'`\\]*+\Z"
    rf"|(?:{'|'.join(f'(?{each})' for each in _APART)})[a-f0-9]{{1,36}}+[NRAL]{{0,4}}+\Z"
)
"""An end of a text that may become a secret, or a longer one, and is more than a word from a ``start`` on."""
