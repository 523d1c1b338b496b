"""Hosts: one spelling for each, and every notation of private addresses."""

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.text import visible
from forge_cli.sandbox.network.rules import (
    address_refusal,
    host_and_port,
    is_address,
    read_host,
    read_port,
)
from tests.support.rows import each_row

LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Api.Example.ORG.", "api.example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("faß.de", "xn--fa-hia.de"),
        ("a_b.example", "a_b.example"),
        ("8.8.8.8", "8.8.8.8"),
        ("8.8.8.8.", "8.8.8.8"),
        ("[2606:4700:0:0::1111]", "2606:4700::1111"),
    ],
)
def test_host_has_one_spelling(text: str, host: str) -> None:
    assert read_host(text) == host
    assert is_address(host) == (":" in host or host[0] == "8")


@each_row(
    "text",
    [
        *(
            "",
            ".",
            "a..b",
            ".a",
            "-a.example",
            "a-.example",
            "a" * 64,
            ".".join(["a" * 60] * 5),
            "a b",
            "a\0b",
            "a\nb",
        ),
        *(
            "a/b",
            "user@host",
            "ex%61mple.com",
            "[::1",
            "::1",
            "[fe80::1%eth0]",
            "[1.2.3.4]",
            "[]",
            "\u202eexample",
        ),
        *(
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "127.0.0.01",
            "1.2.3.4.5",
            "256.1.1.1",
            "a.1",
        ),
        *("127.0.0.0x1", "１２７.１", "①.1"),
    ],
)
def test_invalid_hosts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is (not|neither)"):
        read_host(text)


@pytest.mark.parametrize(
    "text", ["[::FFFF:10.0.0.1]", "[::ffff:a00:1]", "[0:0:0:0:0:ffff:10.0.0.1]"]
)
def test_ipv4_address_in_ipv6_is_refused_in_every_spelling(text: str) -> None:
    assert address_refusal(read_host(text)) == "is an IPv4 address in another spelling"


@pytest.mark.parametrize("text", ["１２７.0.0.1", "127。0。0。1"])
def test_letters_that_mean_digits_are_read_as_digits(text: str) -> None:
    assert read_host(text) == "127.0.0.1"


@given(NAME)
def test_name_is_read_as_it_is_and_a_second_time_the_same(name: str) -> None:
    assert read_host(f"{name.upper()}.") == read_host(name) == name


@given(st.text(max_size=80))
def test_every_text_is_a_valid_host_or_refused(text: str) -> None:
    try:
        host = read_host(text)
    except ValueError as error:
        assert visible(str(error)) == str(error)
        return
    assert host.isascii()
    assert host.isprintable()
    assert read_host(f"[{host}]" if ":" in host else host) == host


@given(st.from_regex(r"[0-9a-fx.]{1,16}", fullmatch=True))
def test_address_spellings_of_resolvers_are_no_names(text: str) -> None:
    try:
        packed = socket.inet_aton(text)
    except OSError:
        return
    try:
        host = read_host(text)
    except ValueError:
        return
    assert host == str(IPv4Address(packed))


@pytest.mark.parametrize(
    "text", ["", "0", "00", "080", "65536", "99999", "-1", "+80", "8 0", "http", "８０", "80\n"]
)
def test_invalid_ports_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid port"):
        read_port(text)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
        ),
        *(
            "127.255.255.254",
            "0.0.0.0",
            "169.254.169.254",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
        ),
        *("240.0.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "203.0.113.9", "192.88.99.1"),
        *(
            "::1",
            "::",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b::808:808",
        ),
        *(
            "64:ff9b:1::1",
            "2002:a00:1::",
            "2001:0:53aa:64c::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
        ),
        *("ff02::1", "2001:db8::1", "3fff::1", "100::1", "4000::1"),
    ],
)
def test_addresses_that_nobody_reaches(address: str) -> None:
    reason = address_refusal(address)
    assert reason
    assert reason.startswith("is ")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111"]
)
def test_addresses_of_public_hosts(address: str) -> None:
    assert address_refusal(address) is None


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_public_addresses_agree_with_the_standard_library(
    address: IPv4Address | IPv6Address,
) -> None:
    if address_refusal(str(address)) is None:
        assert address.is_global
        assert not address.is_multicast


def test_ipv6_address_stands_in_brackets_before_a_port() -> None:
    assert (host_and_port("a.example", 80), host_and_port("2606::1", 443)) == (
        "a.example:80",
        "[2606::1]:443",
    )
