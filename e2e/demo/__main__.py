"""`python -m e2e.demo up|down [--cluster embedded|current]`: the demo, as `make demo` runs it."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from e2e.demo.scene import Scene, look, worker_pods
from e2e.demo.screen import Screen
from e2e.demo.stage import NAMESPACE, RELEASE, ROOT, ClusterError, Stage, StageError
from e2e.demo.story import Act, Disappointed, Story
from e2e.load import Answers, ask
from tandem_api import names
from tandem_api.kubernetes.client import NoCluster, connect
from tandem_api.kubernetes.cluster import ApiError, Cluster

MANIFEST = ROOT / "examples" / "chat-disaggregated.yaml"
REPORT = ROOT / "build" / "demo" / "report.json"
FORWARD_PID = ROOT / "build" / "demo" / "port-forward.pid"
SERVICE_NAMESPACE = "default"
PAGE_PORT = 8088  # autoscaler.dashboard.port
_PYTHON = ".venv/bin/python"


async def up(stage: Stage, screen: Screen) -> dict[str, Any]:
    """Bring everything up, play the story, return the report."""
    started = time.monotonic()
    screen.begin("Cluster, images and chart")
    await asyncio.to_thread(stage.up)
    manifest = yaml.safe_load(MANIFEST.read_text())
    name, model = manifest["metadata"]["name"], manifest["spec"]["model"]["name"]
    screen.begin(f"kubectl apply -f {MANIFEST.relative_to(ROOT)}")
    applied = await asyncio.to_thread(stage.kubectl, "apply", "-n", SERVICE_NAMESPACE, "-f", str(MANIFEST))
    screen.say(applied.strip())
    os.environ["KUBECONFIG"] = stage.kubeconfig
    async with connect() as cluster:
        scene = await first_ready(cluster, name, screen)
        endpoint = await endpoint_of(stage, scene)
        story = Story(cluster, SERVICE_NAMESPACE, name, endpoint, model, screen)
        await first_answer(story)
        first_answer_seconds = time.monotonic() - started
        screen.say(f"first answer through {endpoint} after {first_answer_seconds:.0f} s", style="green")
        acts = await story.tell()
        transfer = await transferred(stage, cluster, name)
    screen.say(stage.kubectl("get", "infsvc,wpool", "-n", SERVICE_NAMESPACE, "-o", "wide").rstrip())
    return {
        "first_answer_seconds": round(first_answer_seconds, 1),
        "seconds": round(time.monotonic() - started, 1),
        "endpoint": endpoint,
        "model": model,
        "acts": [_told(act) for act in acts],
        "decode_prompt_tokens_by_source": transfer,
    }


async def first_ready(cluster: Cluster, name: str, screen: Screen, most_seconds: float = 600) -> Scene:
    """Wait until the service says Ready=True."""
    screen.act = "Workers start: preflight, weights, KV cache"
    nobody = Answers()
    ends = time.monotonic() + most_seconds
    scene: Scene | None = None
    while time.monotonic() < ends:
        scene = await look(cluster, SERVICE_NAMESPACE, name)
        screen.show(scene, nobody, since=0)
        if scene is not None and scene.ready == "True":
            return scene
        await asyncio.sleep(1)
    raise Disappointed(f"{name} did not become ready within {most_seconds:.0f} s; last seen: {scene}")


async def endpoint_of(stage: Stage, scene: Scene) -> str:
    """The OpenAI endpoint as this machine reaches it."""
    if scene.url is None:
        raise Disappointed("the service has no status.url")
    host = scene.url.split("//", 1)[1].split("/", 1)[0]
    service, namespace = host.split(".")[:2]
    if not stage.current:
        # The embedded cluster's Service addresses are routed on this machine.
        address = stage.kubectl(
            "get", "service", service, "-n", namespace, "-o", "jsonpath={.spec.clusterIP}"
        )
        return f"http://{address}/v1"
    return f"http://127.0.0.1:{await asyncio.to_thread(_forward, stage, namespace, service)}/v1"


def _forward(stage: Stage, namespace: str, service: str) -> int:
    """The local port of a port-forward that outlives this process; the next one ends it, or `down`."""
    _end_forward()
    FORWARD_PID.parent.mkdir(parents=True, exist_ok=True)
    port = _free_port(8080)
    forward = stage.start("kubectl", "port-forward", "-n", namespace, f"service/{service}", f"{port}:80")
    FORWARD_PID.write_text(str(forward.pid))
    return port


def _free_port(wanted: int) -> int:
    """`wanted`, or another where someone has that already."""
    for port in (wanted, 0):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            return int(tried.getsockname()[1])
    raise StageError("no local port is free")


async def first_answer(story: Story, most_seconds: float = 120) -> None:
    """The first whole streamed answer through the router; raises Disappointed with the last failure."""
    ends, failure = time.monotonic() + most_seconds, "never tried"
    async with httpx.AsyncClient(trust_env=False) as client:
        while time.monotonic() < ends:
            answer = await ask(
                client, story.endpoint, story.model, text="the quick brown fox", output_tokens=8
            )
            if answer.failure is None:
                return
            failure = answer.failure
            await asyncio.sleep(1)
    raise Disappointed(f"no answer within {most_seconds:.0f} s: {failure}")


async def transferred(stage: Stage, cluster: Cluster, name: str) -> dict[str, float]:
    """Prompt tokens of the decode pods by where their KV came from."""
    sources: dict[str, float] = {}
    for pod in await worker_pods(cluster, SERVICE_NAMESPACE, name, names.DECODE):
        for line in stage.metrics_of(SERVICE_NAMESPACE, pod["metadata"]["name"]).splitlines():
            if line.startswith("vllm:prompt_tokens_by_source_total{"):
                source = line.split('source="', 1)[1].split('"', 1)[0]
                sources[source] = sources.get(source, 0.0) + float(line.rsplit(" ", 1)[1])
    return sources


def _told(act: Act) -> dict[str, Any]:
    return {
        "act": act.name,
        "seconds": round(act.seconds, 1),
        "most_ready": act.most,
        "median_before_seconds": act.median_before_seconds,
        "median_after_seconds": act.median_after_seconds,
        "requests": act.answers.sent,
        "failed": len(act.answers.failures),
        "failures": sorted({str(answer.failure) for answer in act.answers.failures})[:5],
        **{
            f"{name.removesuffix('_seconds')}_p{percentile}_seconds": act.answers.tail(name, percentile)
            for name in ("ttft_seconds", "tpot_seconds")
            for percentile in (50, 95)
        },
    }


def _end_forward() -> None:
    if FORWARD_PID.exists():
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(FORWARD_PID.read_text()), signal.SIGTERM)
        FORWARD_PID.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("--cluster", choices=["embedded", "current"], default="embedded")
    options = parser.parse_args()
    stage = Stage(current=options.cluster == "current")
    try:
        if options.verb == "down":
            _end_forward()
            if stage.current:
                stage.kubectl("delete", "-n", SERVICE_NAMESPACE, "--ignore-not-found", "-f", str(MANIFEST))
            stage.down()
            return 0
        with Screen() as screen:
            report = asyncio.run(up(stage, screen))
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=2) + "\n")
        _farewell(report, stage)
        return 0
    except (StageError, ClusterError, Disappointed, NoCluster, ApiError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\ndemo: stopped; what runs stays up ({_end_command(stage)} ends it)", file=sys.stderr)
        return 130


def _end_command(stage: Stage) -> str:
    return "make demo-down CLUSTER=current" if stage.current else "make demo-down"


def page_command(port: int) -> list[str]:
    """The web page's way to this machine: kubectl and its arguments."""
    return [
        "kubectl", "--namespace", NAMESPACE, "port-forward", f"deployment/{RELEASE}-autoscaler", f"{port}:{PAGE_PORT}",
    ]  # fmt: skip


def _farewell(report: dict[str, Any], stage: Stage) -> None:
    body = json.dumps(
        {"model": report["model"], "prompt": "the quick brown fox", "max_tokens": 16, "stream": True}
    )
    # The embedded cluster's kubectl, and where its cluster is.
    kubectl = "" if stage.current else f'  eval "$({_PYTHON} -m e2e.cluster env)"\n'
    print(
        f"\nThe service is up at {report['endpoint']}\n\n"
        f"  curl -N {report['endpoint']}/completions -H 'Content-Type: application/json' -d '{body}'\n\n"
        f"The web page, at http://localhost:{PAGE_PORT} while this runs:\n\n"
        f"{kubectl}  {' '.join(page_command(PAGE_PORT))}\n\n"
        f"Figures of this run: {Path(REPORT).relative_to(ROOT)}\n"
        f"End it with: {_end_command(stage)}"
    )


if __name__ == "__main__":
    sys.exit(main())
