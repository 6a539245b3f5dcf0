"""`tandem-autoscaler`: the process. Flags, leadership, the loop and the web server side by side."""

import argparse
import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from tandem_api import names
from tandem_api.kubernetes.client import NoCluster, connect
from tandem_api.kubernetes.cluster import Cluster
from tandem_api.kubernetes.lease import Leadership
from tandem_autoscaler.dashboard import server as dashboard
from tandem_autoscaler.dashboard.trail import Trail
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.loop import Autoscaler, SteadyClock
from tandem_autoscaler.recording.lines import Start
from tandem_autoscaler.recording.source import RecordingSource
from tandem_autoscaler.signals.scrape import ScrapeSource
from tandem_autoscaler.signals.source import SignalSource
from tandem_autoscaler.web import app

_log = logging.getLogger("tandem_autoscaler")
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class UserMistake(Exception):
    """Something the user can put right; the message is one line."""


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        "tandem-autoscaler", description="Sizes prefill from TTFT and decode from TPOT."
    )
    flags.add_argument(
        "--tick", type=_seconds, default=5.0, metavar="SECONDS", help="between decisions (default 5)"
    )
    flags.add_argument(
        "--source", choices=("scrape", "prometheus"), default="scrape", help="where metrics come from"
    )
    flags.add_argument(
        "--scrape-timeout", type=_seconds, default=2.0, metavar="SECONDS", help="per pod (default 2)"
    )
    flags.add_argument("--prometheus-url", metavar="URL", help="with --source prometheus")
    flags.add_argument(
        "--prometheus-timeout", type=_seconds, default=4.0, metavar="SECONDS", help="for all queries"
    )
    flags.add_argument(
        "--prometheus-token-file", type=Path, metavar="FILE", help="bearer token, read anew each time"
    )
    flags.add_argument("--prometheus-ca-file", type=Path, metavar="FILE", help="certificates to trust")
    flags.add_argument("--prometheus-insecure-skip-verify", action="store_true", help="trust any certificate")
    flags.add_argument(
        "--namespace", metavar="NAME", help="scale services of this namespace only (default: all)"
    )
    flags.add_argument(
        "--lease-namespace", metavar="NAME", help="where the lease lives (default: the pod's own)"
    )
    flags.add_argument(
        "--identity", default=f"{socket.gethostname()}-{os.getpid()}", help="of the lease's holder"
    )
    flags.add_argument("--no-leader-election", action="store_true", help="act at once: for a single process")
    flags.add_argument(
        "--listen", default="0.0.0.0:8090", metavar="HOST:PORT", help="probes, metrics, /api/services"
    )
    flags.add_argument(
        "--dashboard-port", type=_port, metavar="PORT",
        help="a read-only web page for people (docs/dashboard.md; default: none)",
    )  # fmt: skip
    flags.add_argument(
        "--dashboard-host", default="127.0.0.1", metavar="HOST",
        help="where the page listens; it asks nobody for a password (default 127.0.0.1, as kubectl port-forward needs)",
    )  # fmt: skip
    flags.add_argument("--context", metavar="NAME", help="of the kubeconfig")
    flags.add_argument(
        "--young-seconds", type=_seconds, default=120.0, metavar="SECONDS",
        help="a worker teaches the model only after so long (default 120)",
    )  # fmt: skip
    flags.add_argument(
        "--gpu-budget", type=int, metavar="GPUS",
        help="GPUs that all services together may take, shared by spec.autoscaling.priority (default: no limit)",
    )  # fmt: skip
    flags.add_argument(
        "--record", type=Path, metavar="FILE",
        help="write down all that is seen, for a bug report (docs/recording.md); an existing file is overwritten",
    )  # fmt: skip
    flags.add_argument("--log-level", choices=("debug", "info", "warning"), default="info")
    return flags


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.05 and 3600 seconds")
    return value


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port between 1 and 65535")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM. Exit status 2 for a user's mistake, 1 when leadership was lost."""
    flags = parser().parse_args(arguments)
    logging.basicConfig(
        level=flags.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("httpx", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        return asyncio.run(_run(flags))
    except (UserMistake, NoCluster) as mistake:
        print(f"tandem-autoscaler: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


async def _run(flags: argparse.Namespace) -> int:
    listener = _listener("--listen", flags.listen)
    page = None
    if flags.dashboard_port is not None:
        page = _listener(
            "--dashboard-host, --dashboard-port", f"{flags.dashboard_host}:{flags.dashboard_port}"
        )
    clock = SteadyClock()
    settings = Settings(young_seconds=flags.young_seconds, reaction_seconds=2 * flags.tick)
    source = _recorded(_source(flags, clock), flags.record, Start(settings, flags.gpu_budget))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with connect(context=flags.context) as cluster:
            return await _lead(flags, cluster, source, settings, clock, listener, page, stop)
    finally:
        listener.close()
        if page is not None:
            page.close()
        await source.close()


async def _lead(
    flags: argparse.Namespace, cluster: Cluster, source: SignalSource, settings: Settings, clock: SteadyClock,
    listener: socket.socket, page: socket.socket | None, stop: asyncio.Event,
) -> int:  # fmt: skip
    leadership = Leadership(
        cluster, namespace=flags.lease_namespace or _own_namespace(), name=names.AUTOSCALER_LEASE,
        identity=flags.identity,
    )  # fmt: skip

    def leading() -> bool:
        return flags.no_leader_election or leadership.leading

    trail = Trail() if page is not None else None
    autoscaler = Autoscaler(
        cluster,
        source,
        settings,
        namespace=flags.namespace,
        identity=flags.identity,
        leading=leading,
        clock=clock,
        gpu_budget=flags.gpu_budget,
        watcher=trail.see if trail is not None else None,
    )
    started = time.monotonic()

    def alive() -> bool:
        # While standing by there is no loop; afterwards it must have turned within ten periods.
        last = autoscaler.counts.last_tick_at_seconds
        if not leading():
            return True
        since = time.monotonic() - started if last is None else clock() - last
        return since < max(60.0, 10 * flags.tick)

    servers = [(_Server(_quiet(app(autoscaler, leading=leading, alive=alive))), listener)]
    if page is not None and trail is not None:
        shown = dashboard.app(
            trail, leading=leading, clock=clock, tick_seconds=flags.tick, gpu_budget=flags.gpu_budget,
            local_only=_is_loopback(flags.dashboard_host),
        )  # fmt: skip
        servers.append((_Server(_quiet(shown)), page))
        _log.info("the dashboard listens at http://%s:%d", flags.dashboard_host, flags.dashboard_port)
    webs = [asyncio.create_task(server.serve(sockets=[at]), name="web") for server, at in servers]
    work = asyncio.create_task(_work(flags, leadership, autoscaler), name="work")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            _log.error("leadership was lost; exiting, so that nothing is written by two")
            return 1
        return 0
    finally:
        for task in (work, stopped):
            task.cancel()
        await asyncio.gather(work, stopped, return_exceptions=True)
        await leadership.release()
        for server, _ in servers:
            server.should_exit = True
        await asyncio.gather(*webs)


async def _work(flags: argparse.Namespace, leadership: Leadership, autoscaler: Autoscaler) -> None:
    """Tick while leading; returns when leadership is lost."""
    if flags.no_leader_election:
        await autoscaler.run(flags.tick)
        return
    await leadership.acquire()
    loop = asyncio.create_task(autoscaler.run(flags.tick), name="loop")
    try:
        await leadership.hold()
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


def _quiet(web: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(web, log_config=None, lifespan="off", access_log=False)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _source(flags: argparse.Namespace, clock: SteadyClock) -> SignalSource:
    if flags.source == "scrape":
        return ScrapeSource(timeout_seconds=flags.scrape_timeout, clock=clock)
    if not flags.prometheus_url:
        raise UserMistake(
            "--source prometheus needs --prometheus-url, such as http://prometheus.monitoring:9090"
        )
    # Imported here: its libraries cost a second at start, and most installations have no Prometheus.
    from tandem_autoscaler.signals.prometheus import PrometheusSource

    try:
        return PrometheusSource(
            flags.prometheus_url, timeout_seconds=flags.prometheus_timeout, token_file=flags.prometheus_token_file,
            ca_file=flags.prometheus_ca_file, verify=not flags.prometheus_insecure_skip_verify,
        )  # fmt: skip
    except ValueError as error:
        raise UserMistake(str(error)) from None


def _recorded(source: SignalSource, path: Path | None, start: Start) -> SignalSource:
    if path is None:
        return source
    try:
        return RecordingSource(source, path, start)
    except OSError as error:
        raise UserMistake(f"--record {path}: {error.strerror or error}") from None


def _listener(flag: str, text: str) -> socket.socket:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UserMistake(f"{flag} {text} is not HOST:PORT")
    host = host.strip("[]") or "0.0.0.0"
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
    except OSError as error:
        listener.close()
        raise UserMistake(f"{flag} {text}: {error.strerror or error}") from None
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


if __name__ == "__main__":
    sys.exit(main())
