"""The operator's command line; each option may come from the environment as TANDEM_<OPTION> too."""

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.build.images import Images


@dataclass(frozen=True)
class Arguments:
    namespace: str | None
    lease_namespace: str
    identity: str
    images: Images
    host: str
    port: int
    resync_seconds: float
    workers: int
    log_level: str


def read_arguments(argv: Sequence[str] | None, environ: Mapping[str, str] = os.environ) -> Arguments:
    """Exits with one line and status 2 on a mistake, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="tandem-operator", description="Turns InferenceServices into fleets."
    )

    def option(name: str, default: str | None, about: str) -> None:
        variable = "TANDEM_" + name.upper().replace("-", "_")
        parser.add_argument(
            f"--{name}", default=environ.get(variable) or default, help=f"{about} (env {variable})"
        )

    images = Images()
    option("namespace", None, "serve this namespace only; default: all")
    option(
        "lease-namespace", environ.get("POD_NAMESPACE") or _own_namespace(), "where the leader's lease lives"
    )
    option(
        "identity", environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}", "name of this process"
    )
    option("worker-image", images.worker, "image of workers whose template names none")
    option("sglang-worker-image", images.sglang_worker, "the same, of services with engine.type sglang")
    option("router-image", images.router, "image of routers whose template names none")
    option("image-pull-policy", None, "pull policy of both: Always, IfNotPresent or Never")
    option("image-pull-secrets", "", "names of pull secrets, separated by commas")
    option("host", "0.0.0.0", "address of /healthz, /readyz and /metrics")
    option("port", "8081", "port of /healthz, /readyz and /metrics")
    option("resync-seconds", "300", "everything is listed anew this often")
    option("workers", "8", "services that are looked at side by side")
    option("log-level", "info", "debug, info, warning or error")
    given = parser.parse_args(argv)
    policy = given.image_pull_policy
    if policy not in (None, "Always", "IfNotPresent", "Never"):
        parser.error(f"--image-pull-policy {policy}: must be Always, IfNotPresent or Never")
    if given.log_level not in ("debug", "info", "warning", "error"):
        parser.error(f"--log-level {given.log_level}: must be debug, info, warning or error")
    return Arguments(
        namespace=given.namespace or None,
        lease_namespace=given.lease_namespace,
        identity=given.identity,
        images=Images(
            worker=given.worker_image,
            sglang_worker=given.sglang_worker_image,
            router=given.router_image,
            pull_policy=policy,
            pull_secrets=tuple(name for name in given.image_pull_secrets.split(",") if name),
        ),
        host=given.host,
        port=int(_number(parser, "--port", given.port, least=0)),
        resync_seconds=_number(parser, "--resync-seconds", given.resync_seconds, least=1),
        workers=int(_number(parser, "--workers", given.workers, least=1)),
        log_level=given.log_level,
    )


def _number(parser: argparse.ArgumentParser, flag: str, text: str, *, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if value < least:
        parser.error(f"{flag} {text}: must be a number of at least {least:g}")
    return value


def _own_namespace() -> str:
    try:
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "default"
