"""Values of keys with names that say secret: found in every notation, and everyday words left alone.

Covers forge_cli.sandbox.named.
"""

import json
import re
from collections.abc import Iterable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.sandbox.named import CONTEXT
from forge_cli.sandbox.secrets import RedactedStream, Redactor
from forge_cli.testing import Project, call, calls
from tests.support.rows import each_row

REDACTOR = Redactor({})
BASIC = "dXNlcjpwYXNzd29yZA=="

# each has its secret between two signs that stand nowhere else; ¶ is a line break
SECRETS = r"""
password: ⟦hunter2⟧
  password: ⟦swordfish⟧
- password: ⟦correct-horse-battery⟧
password: ⟦hunter2⟧  # of the database
password: ⟦12345678⟧
password: ⟦P@$$w0rd!⟧
passwd: ⟦hunter2⟧
pass: ⟦hunter2⟧
db_password2: "⟦x12⟧"
{user: me, password: ⟦hunter2⟧}
password: '⟦p@ss w0rd⟧'
passphrase = "⟦open sesame⟧"
password: "⟦a\"bc\"d⟧"
password: |¶  ⟦hunter2⟧¶name: me
token: >-¶    ⟦abcdef123⟧¶
- name: DB_PASSWORD¶  value: ⟦hunter2⟧
 12	password: ⟦hunter2⟧
+password: ⟦hunter2⟧
"password": "⟦hunter2⟧"
"password":¶    "⟦hunter2⟧"
"clientSecret":"⟦swordfish⟧"
"dbPassword": "⟦swordfish⟧", "x": 1
{\"password\": \"⟦hunter2⟧\"}
"{\\\"password\\\": \\\"⟦hunter2⟧\\\"}"
"log in\npassword: ⟦hunter2⟧\nand go"
{"name": "DB_PASSWORD", "value": "⟦hunter2⟧"}
["X-Api-Key", "⟦abcdef123⟧"]
{"auths": {"host": {"auth": "⟦BASIC⟧"}}}
"Env": ["POSTGRES_PASSWORD=⟦swordfish⟧", "A=b"]
DB_PASSWORD=⟦swordfish⟧
DB_PASSWORD=⟦p@ss&w,rd⟧
export API_TOKEN=⟦abcdef123456⟧
export API_TOKEN='⟦abcdef123456⟧'
PGPASSWORD=⟦swordfish⟧ psql -h host
docker run -e MYSQL_ROOT_PASSWORD=⟦swordfish⟧ mysql
CLIENT_SECRET=⟦abcdefgh12⟧
CLOUDFLARE_API_TOKEN=⟦abcDEF123⟧
SECRET_KEY_BASE=⟦0123456789abcdef⟧
${DB_PASSWORD:-⟦hunter2⟧}
$env:API_KEY = "⟦abcdefgh⟧"
ENV DB_PASSWORD ⟦hunter2⟧
setx API_TOKEN ⟦abcdef123⟧
api_key: ⟦0123abcd4567⟧
X-Api-Key: ⟦abcdef123456⟧
curl -H "X-Api-Key: ⟦abcdefghij⟧" https://host
curl -H 'PRIVATE-TOKEN: ⟦abcdef123⟧' https://host
Authorization: Basic ⟦dXNlcjpw⟧
Authorization: Bearer ⟦abcdef⟧
authorization: ApiKey ⟦abcdef⟧
Authorization: token ⟦abcdef⟧
curl -H 'Authorization: Bearer ⟦abcdef⟧'
"Authorization": "Bearer ⟦abcdefgh⟧"
Proxy-Authorization: Digest ⟦username="x", response="abcdef"⟧
Cookie: ⟦a=b; session=deadbeef⟧
Set-Cookie: ⟦session=abc123; Path=/⟧
"cookie": "⟦session=abc123⟧"
https://host/x?token=⟦abcdefg⟧&y=1
https://host/x?a=1&access_token=⟦abcdefg⟧
https://host/x?sv=2020&sig=⟦abcdefghijklmnop%3D⟧&se=1
"https://host/x?a=1\u0026api_key=⟦abcdefg⟧\u0026b=2"
tool --token=⟦abcdef⟧
tool --token ⟦abc123def⟧
tool --password "⟦correct horse⟧" x
["tool", "--api-key", "⟦abcdef123⟧"]
mysql --password=⟦swordfish⟧ db
curl -u admin:⟦swordfish⟧ https://host
curl --user admin:⟦swordfish⟧ https://host
["curl", "-u", "admin:⟦swordfish⟧"]
sshpass -p ⟦hunter2⟧ ssh host
password = "⟦hunter2⟧"
password = ⟦hunter2⟧
[db]¶user = me¶password = ⟦swordfish⟧
Server=x;Uid=sa;Pwd=⟦hunter2⟧;
Server=x;User=sa;Password=⟦swordfish⟧;
spring.datasource.password=⟦swordfish⟧
//registry.npmjs.org/:_authToken=⟦abcdef-123⟧
_auth=⟦BASIC⟧
machine host login me password ⟦s3cretpw⟧
machine host¶  login me¶  password ⟦swordfish⟧
requirepass ⟦swordfish⟧
password := "⟦hunter2⟧"
'password' => '⟦hunter2⟧',
self.password = "⟦hunter2⟧"
password: str = "⟦hunter2⟧"
private String password = "⟦hunter2⟧";
os.environ["API_KEY"] = "⟦abcdefgh⟧"
os.getenv("DB_PASSWORD", "⟦hunter2⟧")
if password == "⟦hunter2⟧":
SECRET_KEY = '⟦django-insecure-abc$123⟧'
ALTER USER me WITH PASSWORD '⟦hunter2⟧'
<password>⟦hunter2⟧</password>
<add password="⟦hunter2⟧"/>
""".replace("BASIC", BASIC).strip("\n")

EVERYDAY = r"""
token_count: 5
max_tokens: 4096
max_tokens=1000
input_tokens=12345
"tokens": 12345
"token": 12345678
secret_name: my-db-secret1
secretName: "my-db-secret1"
token_type: bearer1
token_url: https://host/y1
next_page_token: abc123def
tokenizer: gpt2-large
secretary: Anna1234
author: Anna B. 1970
authors: "Anna Bell"
compass: north12
bypass: true
keyword: hello1
key: value12
primary_key: id12345
cache_key: user:12345
public_key: abcd1234
accesskey="k"
secrets: inherit
credentials: include
"required": ["password", "token"]
"password": {"type": "string"}
"password": "string"
password: ${VAR}
password: $PASSWORD
password: "{{ password }}"
password: <your password>
password: !vault x1
password: ********
password: ""
password:
password: required
api_key: YOUR_API_KEY
api_key: your-api-key-1
api_key: vault:secret/x1
token: op://vault/item/x1
OPENAI_API_KEY=sk-...
API_KEY=
Authorization: Bearer $TOKEN
"Authorization": "Bearer ${TOKEN}"
Authorization: the header
Cookie: the thing that a browser sends
auth: required
"auth": "oauth2"
password_file: /run/secrets/db1
"secret": "/run/secrets/x1"
"pwd": "/home/user1/x"
PWD=/home/user1
password: str
password: string;
password: Optional[str] = None
token: Token
token: Option<String>,
token = None
token = tokens[i]
token=token, password=password)
f(password=pw, x=1)
password = getpass()
password = self.password
password = input("Password: ")
api_key=os.environ["API_KEY"]
api_key = settings.API_KEY
secret = b64decode(x)
const token = req.headers.authorization;
let token = lexer.nextToken2();
sig = inspect.signature(f)
signature: def f(x1)
docker run -u 1000:1000 x
docker run -u node:node x
git log --author=anna1234
--token TOKEN
--password is required
"password": "Enter your password"
errors: {"password": "must be at least 8 characters."}
The token: it is a word of 12 letters
Bearer token and password are required
the key is 12345678 and the secret 1234567
the tests: 12 pass, 3 fail
you can pass `strict=False` here, or pass 'ignore'
Token("lambda", "a", 1)
if token == "lambda":
['file', 'password', 'range', 'reset']
"sts:GetSessionToken",¶"sts:SetSourceIdentity",
"arn:aws:secretsmanager:*:*:secret:quicksight!*"
WaitForTaskToken = "waitForTaskToken"
Token: "#d0d0d0",
password: [redacted:A_KEY]
""".strip("\n")
MARKED = re.compile("⟦(.*?)⟧")
AROUND = [("", ""), ("Look:\n", "\nand so on"), ("x" * 3 * CONTEXT + "\n", "\n" + "y" * 50)]


def lines(table: str) -> list[str]:
    return [line.replace("¶", "\n") for line in table.splitlines()]


def stream(pieces: Iterable[str], before: str = "") -> list[str]:
    """The redacted pieces of a text, as for a text in one piece."""
    told = RedactedStream(REDACTOR)
    return [told.add(before), *map(told.add, pieces), told.close()]


@each_row("line", lines(SECRETS))
def test_value_behind_a_name_that_says_secret_is_taken_out_and_nothing_else(line: str) -> None:
    expected = re.escape(MARKED.sub("\0", line)).replace("\0", r"\[redacted:[a-z-]+\]")
    for before, after in AROUND:
        text = MARKED.sub(r"\1", line) + after
        told = REDACTOR.redact(before + text)
        assert re.fullmatch(re.escape(before) + expected + re.escape(after), told)
        assert "".join(stream(text, before)) == told
        assert REDACTOR.redact(told) == told


@each_row("line", lines(EVERYDAY))
def test_everyday_words_are_not_redacted(line: str) -> None:
    for before, after in AROUND:
        text = before + line + after
        assert REDACTOR.redact(text) == text
        assert "".join(stream(line + after, before)) == text


@each_row("line", lines(SECRETS))
def test_streamed_values_wait_until_they_are_complete(line: str) -> None:
    secret = MARKED.findall(line)[0]
    text = MARKED.sub(r"\1", line) + "\n and so on"
    told = stream(text)
    assert not any(secret in "".join(told[:end]) for end in range(len(told)))


@pytest.mark.parametrize(
    ("data", "redacted"),
    [
        (
            {"password": "hunter2", "token_count": "5"},
            {"password": "[redacted:password]", "token_count": "5"},
        ),
        ({"a": [{"apiKey": "abcdef1", "n": 1}]}, {"a": [{"apiKey": "[redacted:key]", "n": 1}]}),
        (
            {"headers": {"Authorization": "Basic abcdef"}},
            {"headers": {"Authorization": "Basic [redacted:authorization]"}},
        ),
        (
            [{"name": "DB_PASSWORD", "value": "x12"}],
            [{"name": "DB_PASSWORD", "value": "[redacted:password]"}],
        ),
        ([{"name": "HOME", "value": "x12"}], [{"name": "HOME", "value": "x12"}]),
        ({"password": 'quo"ted \\ é'}, {"password": "[redacted:password]"}),
        ({"password": "${VAR}", "secret": "", "token": None, "key": True}, None),
        ({"command": "curl -u me:hunter2 x"}, {"command": "curl -u me:[redacted:password] x"}),
    ],
)
def test_data_is_judged_by_its_keys(data: object, redacted: object) -> None:
    expected = data if redacted is None else redacted
    assert REDACTOR.redact(data) == expected
    assert REDACTOR.redact(expected) == expected


NAMES = st.sampled_from(
    ["password", "apiKey", "X-Auth-Token", "name", "value", "auth", "cookie", "token_count", "user"]
)
VALUES = st.sampled_from(
    [
        "hunter2",
        "${X}",
        "swordfish",
        "A=b; c=d",
        "Basic abcdef",
        BASIC,
        "/a/b",
        'q"u\\o1',
        "two words",
        "",
    ]
)


@given(st.dictionaries(NAMES, VALUES | st.integers() | st.none(), max_size=4))
def test_data_is_judged_as_its_text_is(data: dict[str, object]) -> None:
    """Or the digest of a request would not be that of its record."""
    assert json.loads(REDACTOR.redact_text(json.dumps(data))) == REDACTOR.redact(data)
    told = json.loads(json.loads(REDACTOR.redact_text(json.dumps(json.dumps(data)))))
    assert told == REDACTOR.redact(data)


noise = st.text(" \n\\\"'`=:;,&?-_>|abZ09./@", max_size=8)
words = st.sampled_from([MARKED.sub(r"\1", line) for line in lines(SECRETS)] + lines(EVERYDAY))
parts = st.sampled_from(
    [
        "password",
        "TOKEN",
        "api_key",
        "Cookie",
        "value",
        "name",
        "login me ",
        "-u me:",
        "export ",
        "\\n",
    ]
)
texts = st.lists(words | noise | parts, max_size=6).map("".join)


@given(texts, st.data())
def test_however_a_text_is_split_the_same_is_told(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(stream(pieces)) == REDACTOR.redact(text)
    assert "".join(stream(list(text))) == REDACTOR.redact(text)


@given(texts)
def test_redacting_twice_changes_nothing(text: str) -> None:
    told = REDACTOR.redact(text)
    assert re.sub(r"\[redacted:[a-z-]+\]", "", REDACTOR.redact(told)) == re.sub(
        r"\[redacted:[a-z-]+\]", "", told
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "piece",
    [
        "token:",
        "token=",
        "token: ",
        'password:"',
        'password:"\\"',
        'password:"\\\\',
        '"token", "',
        '"token", "value": ',
        "cookie: a=",
        "authorization: bearer ",
        "key ",
        "auth,",
        "password: |\n ",
        "password: |\n ab12cd\n ",
        "-u a:",
        "--token ",
        "<token>",
        "?sig=",
        "secret_key_base=",
        "login a password ",
        "token: a = ",
        "\\",
        "_",
    ],
)
@pytest.mark.parametrize("end", ["", " "])
def test_reading_takes_linear_time(piece: str, end: str) -> None:
    short, long = (time_to_read(piece, end, length) for length in (7_500, 30_000))
    assert long < 9 * max(short, 0.05)


def time_to_read(piece: str, end: str, length: int) -> float:
    """Return the processor time that a text needs in the three ways in which it may arrive."""
    text = "password: '" * (piece == "\\") + piece * (length // len(piece)) + end
    began = process_time()
    told = REDACTOR.redact(text)
    assert "".join(stream([text])) == told
    assert "".join(stream([text[at : at + 500] for at in range(0, len(text), 500)])) == told
    return process_time() - began


def test_log_has_no_secrets_of_files_that_were_read(project: Project) -> None:
    content = "\n".join(MARKED.sub(r"\1", line) for line in lines(SECRETS))
    project.write("notes.txt", content)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {filesystem: {approval: {default: preApproved}}}\n"
    )
    seen = project.run(calls(call("read_file", path="notes.txt")), "password: hunter22 it is")
    log = json.dumps([line.data for line in seen.record], ensure_ascii=False)
    assert not [
        secret for secret in set(MARKED.findall(SECRETS)) if len(secret) > 8 and secret in log
    ]
