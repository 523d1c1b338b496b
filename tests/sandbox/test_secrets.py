"""Secrets: which texts are taken for one, whole or in pieces, in linear time.

Covers forge_cli.sandbox.shapes.
"""

import base64
import html
import json
import random
import re
import string
from time import process_time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.sandbox.secrets import RedactedStream, Redactor
from forge_cli.sandbox.shapes import SHAPES
from tests.support.rows import each_row

ABC = "Ab1" * 40
HEX = "0a1f" * 20
KEYS = {
    "anthropic": [f"sk-ant-api03-{ABC[:90]}"],
    "openai": [f"sk-{ABC[:48]}", f"sk-proj-{ABC[:60]}"],
    "github": [
        f"ghp_{ABC[:36]}",
        f"gho_{ABC[:36]}",
        f"ghs_{ABC[:36]}",
        f"github_pat_{ABC[:22]}_{ABC[:59]}",
    ],
    "gitlab": [f"glpat-{ABC[:20]}", f"glrt-{ABC[:20]}"],
    "aws": ["AKIAABCD1234EFGH5678", "ASIAABCD1234EFGH5678"],
    "google": [f"AIza{ABC[:35]}"],
    "google-oauth": [f"GOCSPX-{ABC[:28]}", f"ya29.{ABC[:60]}"],
    "stripe": [f"sk_live_{ABC[:24]}", f"rk_test_{ABC[:24]}", f"whsec_{ABC[:32]}"],
    "slack": ["xoxb-123456789012-abcdef", f"xoxp-1-2-{ABC[:20]}"],
    "slack-app": [f"xapp-1-A01-{ABC[:30]}"],
    "huggingface": [f"hf_{ABC[:34]}"],
    "npm": [f"npm_{ABC[:36]}"],
    "pypi": [f"pypi-AgEIcHlwaS5vcmc{ABC[:60]}"],
    "sendgrid": [f"SG.{ABC[:22]}.{ABC[:43]}"],
    "jwt": [f"eyJ{ABC[:20]}.eyJ{ABC[:30]}.{ABC[:43]}"],
    "groq": [f"gsk_{ABC[:52]}"],
    "xai": [f"xai-{ABC[:80]}"],
    "doppler": [
        f"dp.pt.{ABC[:43]}",
        f"dp.ct.{ABC[:40]}",
        f"dp.st.{ABC[:43]}",
        f"dp.st.dev_eu-1.{ABC[:43]}",
        f"dp.st.production.{ABC[:44]}",
        f"dp.sa.{ABC[:43]}",
        f"dp.audit.{ABC[:40]}",
        f"dp.scim.{ABC[:44]}",
        f"dp.pt.{ABC[19:63]}",
        f"dp.ct.{'a1' * 20}",
    ],
    "figma": [
        f"figd_{ABC[:30]}-_{ABC[:8]}",
        f"figd_{ABC[:40]}",
        f"figd_-{ABC[:38]}_",
        *(f"fig{kind}_{ABC[:40]}" for kind in ("u", "o", "or", "ur", "oh", "uh")),
        f"figu_{'aB' * 18}",
    ],
    "new-relic": [
        f"NRAK-{ABC[:27].upper()}",
        f"NRII-{ABC[:32]}",
        f"NRJS-{HEX[:19]}",
        f"NRRA-{HEX[:42]}",
        f"NRAA-{HEX[:27]}",
        f"NRIQ-{ABC[:32]}",
        f"eu01xx{HEX[:30]}NRAL",
        f"gov01x{HEX[:30]}NRAL",
        f"us01xx{HEX[:30]}NRAL",
        f"{HEX[:36]}NRAL",
        f"{HEX[7:43]}NRAL",
        f"{'0123456789' * 3}abcdefNRAL",
        f"{'f' * 36}NRAL",
    ],
    "postman": [
        *(f"PMAK-{HEX[at : at + 24]}-{HEX[at : at + 34]}" for at in range(5)),
        *(f"PMAT-{ABC[at : at + 26].upper()}" for at in range(5)),
    ],
    "shopify": [
        *(f"shp{kind}_{HEX[:32]}" for kind in ("at", "ca", "it", "pa", "ss", "tka", "ua")),
        f"shppa_{HEX[:32].upper()}",
        f"shpat_{HEX[9:41]}",
        f"shpss_{'0f' * 16}",
    ],
    "square": [
        *(f"sq0{kind}-{ABC[:length]}" for kind in ("atp", "acp", "csp") for length in (22, 43)),
        f"sq0atp--{ABC[:20]}_",
        f"EAAAE{ABC[:59]}",
        f"EAAAl{ABC[:50]}-_{ABC[:7]}",
        f"EAAA{'aB3' * 20}",
    ],
    "digitalocean": [f"dop_v1_{HEX[:64]}"],
    "databricks": [f"dapi{HEX[:32]}"],
    "age": [f"AGE-SECRET-KEY-1{'QX7' * 19}Q"],
    "vault": [f"hvs.{ABC[:24]}"],
    "docker": [f"dckr_pat_{ABC[:27]}"],
    "linear": [f"lin_api_{ABC[:40]}"],
    "replicate": [f"r8_{ABC[:37]}"],
    "perplexity": [f"pplx-{ABC[:48]}"],
    "tailscale": [f"tskey-auth-{ABC[:24]}"],
    "grafana": [f"glsa_{ABC[:32]}_1a2b3c4d"],
    "mailgun": [f"key-{HEX[:32]}"],
    "twilio": [f"SK{HEX[:32]}"],
    "private-key": [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\nDEK-Info: AES-128-CBC,0A\n\nMHcC\n-----END EC PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\\n{ABC[:64]}\\n{ABC[:20]}==\\n-----END PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{ABC[:70]}\n{ABC[:70]}",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: v2 (GNU)\n\n{ABC[:64]}\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
}
AROUND = {
    "aws-secret": [
        ("aws_secret_access_key = ", ABC[:40], ""),
        ('"SecretAccessKey": "', ABC[:40], '"'),
    ],
    "slack-webhook": [("https://hooks.slack.com/services/", f"T0A1B2C3D/B0A1B2C3D/{ABC[:24]}", "")],
    "discord-webhook": [
        ("https://discord.com/api/webhooks/", f"123456789012345678/{ABC[:68]}", "")
    ],
    "telegram": [("123456789:", ABC[:35], "")],
    "azure": [
        ("DefaultEndpointsProtocol=https;AccountKey=", f"{ABC[:86]}==", ";EndpointSuffix=x"),
        ("abc8", f"Q~{ABC[:34]}", ""),
    ],
    "bearer": [
        ("Authorization: Bearer ", f"{ABC[:20]}.~+/=", ""),
        ("authorization: bearer ", ABC[:40], ""),
    ],
    "basic-auth": [("Authorization: Basic ", "dXNlcjpwYXNzd29yZA==", "")],
    "url-password": [
        ("postgres://me:", "hunter2", "@db.example.org/x"),
        ("redis://:", "p@ss:w%20rd", "@cache:6379"),
        ("https://me:", "s3cret", "@example.org"),
    ],
}
ODD = 'p"q\\r/s&t<u>+v=w x é😀~%!'
"""A password that every way to write it changes."""
LONG = f"sk_own_{ABC[:101]}"


def in_base64(text: str, before: str = "", after: str = "", urlsafe: bool = False) -> str:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    return encode(f"{before}{text}{after}".encode()).decode()


def wrapped(text: str, width: int, between: str) -> str:
    return between.join(text[at : at + width] for at in range(0, len(text), width))


SPELLINGS = {
    "hex": ODD.encode().hex(),
    "hex in capitals": LONG.encode().hex().upper(),
    "HTML": html.escape(ODD),
    "HTML as text": html.escape(ODD, quote=False),
    "base64": in_base64(ODD),
    "base64 after one byte": in_base64(ODD, "u", "\n"),
    "base64 after two bytes": in_base64(ODD, "u:", " and more"),
    "base64 for URLs": in_base64(f"{ODD}", "user?:", "~~~", urlsafe=True),
    "base64 for URLs, long": in_base64(LONG, "x", urlsafe=True).rstrip("="),
    "base64 in lines": wrapped(in_base64(LONG, "some text before it, "), 76, "\n"),
    "base64 in lines of PEM": wrapped(in_base64(LONG, "y" * 20), 64, "\r\n"),
    "base64 in lines of YAML": wrapped(in_base64(LONG, "y" * 17), 70, "\n    "),
    "base64 in lines of JSON": wrapped(in_base64(LONG), 76, "\\n"),
    "a URL": quote(ODD, safe=""),
    "a path": quote(ODD),
    "a URL in small letters": re.sub("%..", lambda found: found[0].lower(), quote(ODD, safe="")),
    "a form": quote_plus(ODD),
    "a URL of escapes only": "".join(f"%{byte:02x}" for byte in ODD.encode()),
    "a URL of escapes only, long": "".join(f"%{byte:02X}" for byte in LONG.encode()),
    "JSON": json.dumps(ODD),
    "JSON with letters": json.dumps(ODD, ensure_ascii=False),
    "JSON for HTML": json.dumps(ODD)
    .replace("&", "\\u0026")
    .replace("<", "\\u003c")
    .replace(">", "\\u003E"),
    "JSON with slashes": json.dumps(ODD).replace("/", "\\/"),
    "JSON in JSON": json.dumps(json.dumps({"key": ODD})),
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps([ODD]))),
    "JSON of escapes only": "".join(f"\\u{ord(char):04x}" for char in LONG),
    "two lines": f"{LONG[:50]}\n{LONG[50:]}",
    "two lines of JSON": f"{LONG[:20]}\\n  {LONG[20:]}",
}
SPELLED = Redactor({"ODD_PASSWORD": ODD, "LONG_KEY": LONG})
CASES = [(name, "", key, "") for name, keys in KEYS.items() for key in keys]
CASES += [(name, *around) for name, found in AROUND.items() for around in found]
ENVIRON = {"PGPASSWORD": "correct horse battery", "A_KEY": "aaaaaaab", "B_KEY": "aaaaaaabaaaaaaac"}
REDACTOR = Redactor(ENVIRON)
BY_SHAPE = Redactor(ENVIRON, by_name=False)
SECRETS = [lead + secret + close for _, lead, secret, close in CASES] + list(ENVIRON.values())


def stream(pieces: list[str], redactor: Redactor = REDACTOR) -> list[str]:
    told = RedactedStream(redactor)
    return [*(told.add(piece) for piece in pieces), told.close()]


noise = st.text(string.ascii_letters + string.digits + " \n\\_-.:/@=%+~é", max_size=12)


@each_row(("name", "lead", "secret", "close"), CASES)
def test_usual_kinds_of_keys_are_known_by_their_shape(
    name: str, lead: str, secret: str, close: str
) -> None:
    for before, after in [
        ("", ""),
        ("<", ">"),
        ("the key:\n", "\nis secret"),
        ('{"k": "', '"}'),
        ("a\\n", "\\n"),
    ]:
        told = REDACTOR.redact(f"{before}{lead}{secret}{close}{after}")
        assert told == f"{before}{lead}[redacted:{name}]{close}{after}"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org:8080/a@b",
        "see http://127.0.0.1:80/x, mail me@example.org",
        "postgres://$USER:$PASSWORD@host and https://<user>:<password>@host",
        "task-force-ask-a-question-about-everything-and-more-of-it",
        "risk-assessment-of-something-that-is-rather-long-winded",
        "the bearer of this letter, Bearer $TOKEN",
        "it starts with `-----BEGIN PRIVATE KEY-----`, and then?",
        "sha256:" + "0a" * 32,
        "commit 0123456789abcdef0123456789abcdef01234567",
        "12:30:45 and 123456789:short",
        "key-value sk-learn hf_token npm_config_registry xai-dev dapi",
        "configd_and-other-daemons-of-this-system-are-started-late, figure_one, figd_short",
        "NRAK NR-1 ANRAK-0123456789abcdef0123456789a PMAK- shpat_ sq0idp-0123456789abcdef012345",
        "udp.pt.example.org:5353 and dp.st.config.name.of.something.that.is.long.and.has.many.words",
        f"data:image/png;base64,iVBORw0KGgo/EAAA{'AB' * 30}",
        f"EAAA{'A' * 61}",
        "%41%42%43 100 % of \\\\server\\share, C:\\new\\temp\\u0041, a\\\n b+c %zz %",
    ],
)
def test_values_that_only_resemble_keys_stay(text: str) -> None:
    assert REDACTOR.redact(text) == text
    assert "".join(stream(list(text))) == text


@pytest.mark.parametrize(
    "name",
    [
        "PGPASSWORD",
        "MYSQL_PWD",
        "SSHPASS",
        "GH_PAT",
        "API_KEYS",
        "NPM_AUTH",
        "DATABASE_URL",
        "SLACK_WEBHOOK_URL",
        "DISCORD_WEBHOOK",
        "SENTRY_DSN",
        "SMTP_PASS",
        "REDIS_URL",
        "GITHUB_TOKENS",
        "db_password",
    ],
)
def test_names_that_say_secret(name: str) -> None:
    assert Redactor({name: "sqlite:///x y z"}).redact("<sqlite:///x y z>") == f"<[redacted:{name}]>"


@pytest.mark.parametrize(
    "name",
    [
        "PWD",
        "OLDPWD",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "PATH",
        "EDITOR",
        "KEYBOARD",
        "AUTHOR",
        "BASE_URL",
    ],
)
def test_names_that_do_not(name: str) -> None:
    assert Redactor({name: "/some/place"}).redact("in /some/place") == "in /some/place"


@each_row(("how", "text"), SPELLINGS.items())
def test_known_secret_is_found_however_it_is_spelled(how: str, text: str) -> None:
    for before, after in [
        ("", ""),
        ("it is: ", " or so"),
        ("a\n", "\nb"),
        ("50% of \\", '\\"'),
        ('{"k": "', '"}'),
    ]:
        told = SPELLED.redact(f"{before}{text}{after}")
        assert len(re.findall(r"\[redacted:(?:ODD_PASSWORD|LONG_KEY)\]", told)) == 1
        rest = told.removeprefix(before).removesuffix(after)
        assert not any(text[at : at + 8] in rest for at in range(28, len(text) - 44))
        if before in ("", "50% of \\"):
            assert "".join(stream(list(f"{before}{text}{after}"), SPELLED)) == told


@each_row(("how", "text"), SPELLINGS.items())
def test_letter_by_letter_a_spelling_is_not_told_before_it_is_over(how: str, text: str) -> None:
    told = RedactedStream(SPELLED)
    early = "".join(told.add(letter) for letter in text[:-20])
    assert SPELLED.redact(text).startswith(early)


def test_password_that_an_address_spells_in_its_own_way_is_found_as_it_is() -> None:
    redactor = Redactor({"HTTPS_PROXY": "http://me:Tr0ub%40dor%263@proxy:8080"})
    assert redactor.redact("it said: Tr0ub@dor&3!") == "it said: [redacted:HTTPS_PROXY]!"


def test_text_that_continues_a_shape_is_part_of_the_secret() -> None:
    text = f"Authorization: Bearer {LONG[:40]}\n{LONG[40:]} is it"
    told = SPELLED.redact(text)
    assert told == "Authorization: Bearer [redacted:bearer][redacted:LONG_KEY] is it"
    assert "".join(stream(list(text), SPELLED)) == told


@given(st.text(string.ascii_letters + string.digits + ' \n\r\t\\"%+/=_-éu0', max_size=200))
def test_ordinary_texts_stay_whatever_escapes_they_have(text: str) -> None:
    assert SPELLED.redact(text) == text
    assert "".join(stream([text[:50], text[50:]], SPELLED)) == text


spelled = st.lists(
    st.sampled_from(
        [
            *SPELLINGS.values(),
            ODD,
            LONG,
            LONG[:60],
            "Bearer ",
            "://a:",
            "\\",
            "%",
            "\n",
            "%4",
            "\\u",
        ]
    )
    | noise,
    max_size=5,
).map("".join)


@given(spelled, st.data())
def test_however_a_spelling_is_split_the_same_is_told(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(stream(pieces, SPELLED)) == SPELLED.redact(text)


def test_key_in_the_place_of_a_user_goes_as_well() -> None:
    key = f"ghp_{ABC[:36]}"
    told = REDACTOR.redact(f"git clone https://{key}:x-oauth-basic@github.com/a/b")
    assert told == "git clone https://[redacted:github]:[redacted:url-password]@github.com/a/b"


def test_marks_stay_as_they_are() -> None:
    text = "a [redacted:A_KEY] b, postgres://me:[redacted:PGPASSWORD]@host"
    assert REDACTOR.redact(text) == text


words = st.sampled_from(
    [*SECRETS, " ", "\n", "@", "/", "-----", "Bearer ", "://", "a", "sk-", "eyJ", "s", "ghp_"]
)
texts = st.lists(words | noise, max_size=6).map("".join)


KNOWN = {value: f"[redacted:{name}]" for name, value in ENVIRON.items()}
EVERYTHING = re.compile(
    "|".join(
        [f"(?P<known>{'|'.join(map(re.escape, sorted(KNOWN, key=len, reverse=True)))})"]
        + [f"(?P<shape{index}>{shape.pattern})" for index, shape in enumerate(SHAPES)]
    )
)


def tried_everywhere(text: str) -> str:
    """The text without secrets, computed slowly: every kind is tried at every place."""

    def mark(match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        if kind == "known":
            return KNOWN[match.group()]
        lead, end = match.span((match.re.groupindex[kind]) + 1)
        name = f"[redacted:{SHAPES[int(kind.removeprefix('shape'))].name}]"
        return tried_everywhere(text[match.start() : lead]) + name + text[end : match.end()]

    return EVERYTHING.sub(mark, text)


@given(texts)
def test_looking_for_each_kind_by_itself_finds_what_trying_them_everywhere_finds(text: str) -> None:
    assert BY_SHAPE.redact(text) == tried_everywhere(text)


def test_data_is_redacted_in_keys_and_values_alike() -> None:
    redacted = REDACTOR.redact(SECRETS[0])
    clean = [f"value {number}" for number in range(1000)]
    data = {"x": [SECRETS[0], 1, None, True], SECRETS[0]: 2, "clean": clean}
    assert REDACTOR.redact(data) == {"x": [redacted, 1, None, True], redacted: 2, "clean": clean}


def test_large_text_has_the_same_secrets_found() -> None:
    draw = random.Random(1)
    starts = [shape.anchor for shape in SHAPES]
    words = draw.choices(
        [*SECRETS, *starts, " ", "\n", "-", ":", "word ", "a_long_name = ", ABC, HEX], k=5_000
    )
    text = "".join(words)
    assert BY_SHAPE.redact(text) == tried_everywhere(text) != text


@given(texts, st.data())
def test_however_a_text_is_split_the_same_is_told(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    told = stream(pieces)
    assert "".join(told) == REDACTOR.redact(text)


@each_row("secret", SECRETS)
def test_letter_by_letter_no_part_of_a_secret_is_told_before_it_is_over(secret: str) -> None:
    text = f"Look: {secret} - that is it"
    told = stream(list(text))
    assert "".join(told) == REDACTOR.redact(text) != text
    assert not any(
        secret[-12:] in "".join(told[:end])
        for end in range(len(told))
        if not secret.endswith(CLOSINGS)
    )


CLOSINGS = tuple(close for _, _, _, close in CASES if close)


def test_streams_hold_back_only_possible_secrets() -> None:
    """The last letter of a piece may begin one."""
    told = stream(
        [
            "Hello ",
            "there",
            ", re",
            "ader. ",
            "See http",
            "s://",
            "example.org",
            "/a now",
            " s",
            "k",
            "y!",
        ]
    )
    assert told == [
        "Hello ",
        "ther",
        "e, r",
        "eader. ",
        "See htt",
        "ps",
        "",
        "://example.org/a no",
        "w ",
        "",
        "sky!",
        "",
    ]
    assert stream(["你好", "，世界", "。"]) == ["你好", "，世界", "。", ""]


@pytest.mark.long
@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "sk-ant-",
        "eyJ",
        "eyJabcdefgh.",
        "eyJabcdefgh.eyJabcdefgh.",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----aaaa",
        "://",
        "://a:",
        "://a:b@",
        "a:a@",
        "Bearer ",
        "aaaaaaaa",
        "ghp_",
        "github_pat_",
        "glpat-",
        "hooks.slack.com/services/",
        "SG.aaaaaaaaaaaaaaaa.",
        "\\n",
        "hf_",
        "secret_access_key=",
        "12345678:",
        "/api/webhooks/",
        "\\",
        "%41",
        "\\u0041",
        "\n",
        "+ ",
        "\\ud83d",
        "aaaa\n",
        "\\aaaaaaa",
    ],
)
@pytest.mark.parametrize("end", ["", " "])
def test_reading_takes_linear_time(piece: str, end: str) -> None:
    text = "://me:" * piece.startswith("a:") + piece * (30_000 // len(piece)) + end
    began = process_time()
    told = REDACTOR.redact(text)
    assert "".join(stream([text])) == told
    assert "".join(stream([text[at : at + 500] for at in range(0, len(text), 500)])) == told
    assert process_time() - began < 5
