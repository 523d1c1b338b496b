"""Which addresses are public, in every notation."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from forge_tools_web.addresses import is_public, literal
from hypothesis import given
from hypothesis import strategies as st

PRIVATE = [
    *(
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
    ),
    *(
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
    ),
    *(
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "192.88.99.1",
    ),
    *(
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "100::1",
    ),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
    ),
    *(
        "64:ff9b::7f00:1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::",
        "2002:a00:1::1",
    ),
    *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:20::1", "3fff::1", "5f00::1", "100::1"),
]
PUBLIC = [
    *(
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
    ),
    *(
        "2606:4700::1111",
        "2a00:1450:4001::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ),
]


@pytest.mark.parametrize("text", PRIVATE)
def test_private_address_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_public_address_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        *(
            (host, "127.0.0.1")
            for host in ("127.0.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0x7f.1", "127.1")
        ),
        *((host, "127.0.0.1") for host in ("017700000001", "0177.0.0.1", "0x7f.0x0.0x0.0x1")),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_every_notation_of_an_address_is_parsed(host: str, address: str) -> None:
    assert literal(host) == ip_address(address)


@pytest.mark.parametrize(
    "host", ["example.org", "localhost", "", ".", "1.2.3.4.5", "a.1", "127.0.0.1 x"]
)
def test_host_name_is_not_an_address(host: str) -> None:
    assert literal(host) is None


@given(st.ip_addresses(v=4))
def test_embedded_address_is_judged_like_the_plain_one(inner: IPv4Address) -> None:
    number = int(inner)
    mapped, nat64 = IPv6Address(0xFFFF << 32 | number), IPv6Address(0x64FF9B << 96 | number)
    sixtofour = IPv6Address(0x2002 << 112 | number << 80)
    assert {is_public(mapped), is_public(nat64), is_public(sixtofour)} == {is_public(inner)}


@given(st.ip_addresses())
def test_address_private_in_python_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert not is_public(address) or getattr(address, "ipv4_mapped", None)
