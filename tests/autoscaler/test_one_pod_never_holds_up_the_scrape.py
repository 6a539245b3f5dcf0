"""Field cases A6 and H4 on real sockets: silent, slow, failing and babbling workers beside a good one."""

import asyncio
import time

from tandem_api import names
from tandem_autoscaler.fleet.service import Pod, Service
from tandem_autoscaler.signals.scrape import ScrapeSource, pod_url
from tests.autoscaler.exported import Exported
from tests.autoscaler.served import Answer, Serve

TIMEOUT_SECONDS = 0.6


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def says(payload: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(payload)
        await writer.drain()

    return answer


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte now and then: never slow enough for a timeout per read."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"#")
        await writer.drain()
        await asyncio.sleep(0.05)


def good() -> bytes:
    exported = Exported()
    exported.prefill(7, tokens=100, seconds=0.2)
    return http(exported.text().encode())


def pod(uid: str, ip: str | None = "10.0.0.1", role: str = names.PREFILL) -> Pod:
    return Pod("n", uid, uid, ip, role, True, 0.0, 0.0)


def service(*pods: Pod, name: str = "s") -> Service:
    return Service("n", name, "u", 1, "Auto", False, True, None, {}, pods)


async def test_the_others_are_read_and_each_failure_has_its_sentence(serve: Serve) -> None:
    closed = await serve(nothing)
    urls = {
        "good": await serve(says(good())),
        "silent": await serve(nothing),
        "dripping": await serve(drips),
        "failing": await serve(says(http(b"oops", "500 Internal Server Error"))),
        "html": await serve(says(http(b"<html>login</html>"))),
        "no http": await serve(says(b"\x00\x01garbage\r\n\r\n")),
        "short": await serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nvllm:num")),
        "closed": closed.replace("127.0.0.1", "127.0.0.99"),
        "endless": await serve(says(http(b"# x\n" * 5_000_000))),
    }
    source = ScrapeSource(timeout_seconds=TIMEOUT_SECONDS, url_of=lambda p: urls[p.uid])
    try:
        begun = time.monotonic()
        found = await source.sample([service(*(pod(uid) for uid in urls), pod("unplaced", None))], 100.0)
        took = time.monotonic() - begun
    finally:
        await source.close()
    snapshot = found[("n", "s")]
    assert set(snapshot.pods) == {"good"}
    assert snapshot.pods["good"].counters["finished_total"] == 7
    assert set(snapshot.silent) == {*urls, "unplaced"} - {"good"}
    assert "500" in snapshot.silent["failing"]
    assert (
        "did not answer within" in snapshot.silent["silent"]
        and "did not answer within" in snapshot.silent["dripping"]
    )
    assert "no Prometheus sample" in snapshot.silent["html"]
    assert "no address" in snapshot.silent["unplaced"]
    assert took < 5 * TIMEOUT_SECONDS + 3, "all at once, not one after the other"


async def test_a_silent_service_does_not_hold_up_another(serve: Serve) -> None:
    urls = {f"dead-{n}": await serve(nothing) for n in range(20)} | {"good": await serve(says(good()))}
    source = ScrapeSource(timeout_seconds=TIMEOUT_SECONDS, url_of=lambda p: urls[p.uid])
    try:
        dead = service(*(pod(uid) for uid in urls if uid != "good"), name="dead")
        found = await source.sample([dead, service(pod("good"), name="alive")], 100.0)
    finally:
        await source.close()
    assert set(found[("n", "alive")].pods) == {"good"}
    assert not found[("n", "dead")].pods and len(found[("n", "dead")].silent) == 20


def test_workers_routers_and_ipv6_addresses_have_their_own_urls() -> None:
    assert pod_url(pod("a", "10.1.2.3")) == "http://10.1.2.3:8000/metrics"
    assert pod_url(pod("a", "10.1.2.3", names.COMPONENT_ROUTER)) == "http://10.1.2.3:29000/metrics"
    assert pod_url(pod("a", "fd00::7")) == "http://[fd00::7]:8000/metrics"
