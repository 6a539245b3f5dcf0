"""What must hold at each single write of the operator, judged by what the server and the engines really have.

The promises read manifests by themselves: nothing of `plan/` is asked whether `plan/` was right.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.kubernetes.cluster import EVENT, INFERENCE_SERVICE, POD, WORKER_POOL, Kind, Manifest
from tandem_operator.build.template_hash import template_hash
from tandem_operator.observe.timestamp import parse_time
from tests.operator.lifecycle.operator_process import OperatorProcess, Promises
from tests.operator.lifecycle.simulated_cluster import (
    SimulatedCluster,
    Write,
    gpus_held,
    labels_of,
)
from tests.operator.lifecycle.simulated_nodes import is_routable, is_running
from tests.operator.lifecycle.simulated_traffic import Traffic

# Two cold starts, and none counts as shorter than 5 s.
LEAST_REST_SECONDS = 10.0


@dataclass(frozen=True)
class Wish:
    """One service as the user wrote it: by role the limits, the template's hash and the GPUs of one worker."""

    uid: str
    budget: int | None
    limits: dict[str, tuple[int, int]]
    hashes: dict[str, str]
    gpus: dict[str, int]

    @property
    def allows_minima(self) -> bool:
        """Does the budget suffice for one worker of each role, and for minReplicas of each?"""
        least = {role: max(1, limits[0]) for role, limits in self.limits.items()}
        return self.budget is None or sum(least[role] * self.gpus[role] for role in least) <= self.budget

    @classmethod
    def of(cls, service: Manifest) -> "Wish":
        spec = InferenceServiceSpec.model_validate(service["spec"])
        roles = spec.roles
        return cls(
            uid=service["metadata"]["uid"],
            budget=spec.gpu_budget,
            limits={name: (role.min_replicas, role.max_replicas) for name, role in roles.items()},
            hashes={
                name: template_hash(service["metadata"]["name"], spec, role) for name, role in roles.items()
            },
            gpus={name: role.gpus for name, role in roles.items()},
        )


def is_worker(pod: Manifest) -> bool:
    """A pod of the service, in whatever state."""
    return labels_of(pod).get(names.LABEL_COMPONENT) == names.COMPONENT_WORKER


def owner_of(pod: Manifest) -> str:
    owners = pod["metadata"].get("ownerReferences") or [{"uid": ""}]
    return str(owners[0]["uid"])


def drain_started(pod: Manifest) -> float | None:
    return parse_time((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_DRAIN_STARTED))


def is_finished(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def is_ending(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_member(pod: Manifest) -> bool:
    """Counts towards its role's target."""
    return not (is_finished(pod) or drain_started(pod) or is_ending(pod))


def members(pods: Iterable[Manifest], uid: str, role: str) -> list[Manifest]:
    return [
        pod
        for pod in pods
        if is_worker(pod)
        and owner_of(pod) == uid
        and labels_of(pod)[names.LABEL_ROLE] == role
        and is_member(pod)
    ]


@dataclass
class _Pass:
    """What one pass of one process has begun from, and whom it has let go since."""

    number: int
    wish: Wish
    targets: dict[str, int]
    pods: dict[str, Manifest]
    # By role, the members at the beginning less those that were let go since. Counted once: the World marks what it has
    # asked to delete in the manifests themselves.
    left: dict[str, int] = field(default_factory=dict)
    # GPUs of the members of the present roles.
    held: int = 0
    # Workers of an earlier mode's roles that were let go.
    gone: set[str] = field(default_factory=set)


class Kept(Promises):
    """All promises. `deadline_seconds` is spec.drain.deadline, the same for every service here."""

    def __init__(self, server: SimulatedCluster, traffic: Traffic, *, deadline_seconds: float) -> None:
        self._server, self._traffic, self._deadline = server, traffic, deadline_seconds
        # Said once a promise is broken, so that a teardown need not look further.
        self.broken: str | None = None
        self.written = 0
        # Pods that a process which no longer leads made with its one write in flight.
        self._strays: set[str] = set()
        self._passes: dict[OperatorProcess, _Pass] = {}
        self._wishes: dict[tuple[str, str], Wish] = {}
        self._deleted: set[tuple[OperatorProcess, str]] = set()
        # Uid -> when it last changed its role.
        self._flipped: dict[str, float] = {}
        self._live: Manifest | None = None
        # What a process knew of the object that it writes, when it sent the write that is under way.
        self._known: dict[OperatorProcess, str | None] = {}
        # Uids of all services that there ever were: a process with a stale view may still work for one that is gone.
        self._owners: set[str] = set()

    def service_made(self, service: Manifest) -> None:
        self._owners.add(service["metadata"]["uid"])

    def promise(self, holds: bool, sentence: str) -> None:
        if not holds:
            self.broken = self.broken or sentence
            raise AssertionError(sentence)

    # --- around each write -------------------------------------------------------------------------------
    def sent(self, process: OperatorProcess, write: Write) -> None:
        self._known[process] = _version_known(process, write)

    def before(self, process: OperatorProcess, write: Write) -> None:
        self._live = self._server.get(write.kind, write.name)
        if write.kind == EVENT or self._live is None or write.verb == "create":
            return
        if write.kind != INFERENCE_SERVICE:
            self.promise(
                owner_of(self._live) in self._owners, f"{write.name} is not ours, and it was written"
            )
        if write.kind == POD:
            self._about_to_change(process, write, self._live)

    def after(self, process: OperatorProcess, write: Write, answer: Manifest | None) -> None:
        self.written += 1
        if write.kind == EVENT:
            return
        if answer is not None and answer is self._live and write.verb != "delete":
            self.promise(
                self._known[process] != self._live["metadata"]["resourceVersion"],
                f"{write.verb} of {write.kind.plural} {write.name} said nothing new: {write.body}",
            )
        if write.kind == POD and write.verb == "create":
            assert answer is not None
            self._created(process, answer)

    # --- workers -----------------------------------------------------------------------------------------
    def _created(self, process: OperatorProcess, pod: Manifest) -> None:
        uid, role = pod["metadata"]["uid"], labels_of(pod)[names.LABEL_ROLE]
        if not process.leads:
            self._strays.add(uid)
            return
        begun = self._begun(process)
        if owner_of(pod) != begun.wish.uid:
            return
        known = {child["metadata"]["uid"] for child in process.world.children(_key(process)).values()}
        pods = [
            other
            for other in self._server.all(POD)
            if is_worker(other)
            and (other["metadata"]["uid"] not in self._strays or other["metadata"]["uid"] in known)
        ]
        held = sum(map(gpus_held, pods))
        if begun.wish.budget is not None:
            self.promise(
                gpus_held(pod) == 0 or held <= begun.wish.budget,
                f"{pod['metadata']['name']} makes {held} GPUs, gpuBudget is {begun.wish.budget}",
            )
        of_role = members(pods, begun.wish.uid, role)
        outdated = [
            other
            for other in begun.pods.values()
            if labels_of(other)[names.LABEL_ROLE] == role
            and is_member(other)
            and labels_of(other)[names.LABEL_TEMPLATE_HASH] != begun.wish.hashes[role]
        ]
        ceiling = begun.targets[role] + (1 if outdated else 0)
        self.promise(
            len(of_role) <= ceiling,
            f"{pod['metadata']['name']} is {role} worker {len(of_role)} of {ceiling}: one too many",
        )
        self.promise(len(of_role) <= begun.wish.limits[role][1] + 1, f"{role} outgrows maxReplicas")

    def _about_to_change(self, process: OperatorProcess, write: Write, pod: Manifest) -> None:
        if not _meets(write, pod):
            return
        if write.verb == "delete":
            self._about_to_delete(process, pod)
            return
        metadata = write.body.get("metadata") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        if annotations.get(names.ANNOTATION_DRAIN_STARTED):
            reason = annotations.get(names.ANNOTATION_DRAIN_REASON)
            self.promise(bool(reason), f"{write.name} drains without a reason")
            self._let_go(process, pod)
        elif names.LABEL_ROLE in labels:
            self._about_to_flip(process, pod, str(labels[names.LABEL_ROLE]))
        elif labels.get(names.LABEL_SERVING) == "true":
            self.promise(not is_ending(pod), f"{write.name} is ending and is shown to the router again")

    def _about_to_flip(self, process: OperatorProcess, pod: Manifest, role: str) -> None:
        name, uid, now = pod["metadata"]["name"], pod["metadata"]["uid"], self._server.clock()
        begun = self._begun(process)
        self.promise(not is_ending(pod), f"{name} is ending and changes its role")
        self.promise(labels_of(pod)[names.LABEL_ROLE] != role, f"{name} is a {role} worker already")
        self.promise(
            role in begun.wish.hashes
            and labels_of(pod)[names.LABEL_TEMPLATE_HASH] == begun.wish.hashes[role],
            f"{name} becomes a {role} worker and has not its template",
        )
        self.promise(
            not self._traffic.open.get(uid) or self._traffic.may_be_sent_work(pod),
            f"{name} changes its role with requests open",
        )
        since = now - self._flipped.get(uid, -1e9)
        self.promise(since >= LEAST_REST_SECONDS, f"{name} changes its role again after {since:g} s")
        self._flipped[uid] = now
        if is_member(pod):
            self._let_go(process, pod)

    def _about_to_delete(self, process: OperatorProcess, pod: Manifest) -> None:
        uid, name, now = pod["metadata"]["uid"], pod["metadata"]["name"], self._server.clock()
        self.promise((process, uid) not in self._deleted, f"{name} is deleted twice")
        self._deleted.add((process, uid))
        if is_finished(pod):
            return
        started, work = drain_started(pod), self._traffic.open.get(uid, 0)
        late = started is not None and now >= started + self._deadline
        self.promise(
            work == 0 or late or is_ending(pod),
            f"{name} is deleted with {work} requests open",
        )
        self.promise(
            started is not None or not is_running(pod), f"{name} serves and is deleted without a drain"
        )
        self.promise(
            late or is_ending(pod) or not self._traffic.may_be_sent_work(pod),
            f"{name} is deleted while the router may still send it work",
        )
        if started is None:
            self._let_go(process, pod)

    def _let_go(self, process: OperatorProcess, pod: Manifest) -> None:
        """A worker leaves: because there are too many, because it is out of date, or because others need its GPUs."""
        if not process.leads:
            return
        begun = self._begun(process)
        seen = begun.pods.get(pod["metadata"]["name"])
        if (
            seen is None
            or owner_of(pod) != begun.wish.uid
            or seen["metadata"]["uid"] != pod["metadata"]["uid"]
        ):
            return
        name, role = pod["metadata"]["name"], labels_of(seen)[names.LABEL_ROLE]
        if role not in begun.wish.limits:
            self._leaves_the_old_mode(begun, name, role)
            return
        left = begun.left[role] = begun.left[role] - 1
        if labels_of(seen)[names.LABEL_TEMPLATE_HASH] != begun.wish.hashes[role]:
            return
        if left >= begun.targets[role]:
            return
        wanted = sum(begun.targets[name] * begun.wish.gpus[name] for name in begun.targets)
        short = begun.wish.budget is not None and max(begun.held, wanted) > begun.wish.budget
        self.promise(short, f"{name} is let go and {role} has {left} left of {begun.targets[role]}")
        self.promise(
            left >= begun.wish.limits[role][0], f"{name} is let go, which leaves {role} below minReplicas"
        )

    def _leaves_the_old_mode(self, begun: _Pass, name: str, role: str) -> None:
        """After a change of mode: either the new roles serve, or the old mode goes on serving without this one."""
        begun.gone.add(name)
        mode = {"prefill", "decode"} if role in ("prefill", "decode") else {role}
        ready = [pod for pod in begun.pods.values() if is_member(pod) and is_routable(pod)]
        before = {labels_of(pod)[names.LABEL_ROLE] for pod in ready}
        after = {
            labels_of(pod)[names.LABEL_ROLE] for pod in ready if pod["metadata"]["name"] not in begun.gone
        }
        new_serve = all(
            role in before for role, (least, _) in begun.wish.limits.items() if begun.targets[role]
        )
        self.promise(
            new_serve or not mode <= before or mode <= after,
            f"{name} is let go: neither the old mode nor the new one serves then",
        )

    # --- what a pass began from --------------------------------------------------------------------------
    def _begun(self, process: OperatorProcess) -> _Pass:
        known = self._passes.get(process)
        if known is not None and known.number == process.passes:
            return known
        service = process.service_seen
        assert service is not None
        wish = self.wish(service)
        pods = {
            name: child
            for (plural, name), child in process.children_seen.items()
            if plural == POD.plural and is_worker(child) and owner_of(child) == wish.uid
        }
        begun = _Pass(process.passes, wish, {}, pods)
        for role, (least, most) in wish.limits.items():
            of_role = members(pods.values(), wish.uid, role)
            begun.left[role] = len(of_role)
            begun.held += sum(map(gpus_held, of_role))
            pool: Any = process.children_seen.get(
                (WORKER_POOL.plural, names.pool_name(service["metadata"]["name"], role))
            )
            ours = pool is not None and owner_of(pool) == wish.uid
            asked = pool["spec"]["replicas"] if ours else len(of_role)
            begun.targets[role] = max(least, min(most, asked))
        self._passes[process] = begun
        return begun

    def wish(self, service: Manifest) -> Wish:
        key = (service["metadata"]["uid"], str(service["metadata"]["generation"]))
        if key not in self._wishes:
            self._wishes[key] = Wish.of(service)
        return self._wishes[key]


def _key(process: OperatorProcess) -> tuple[str, str]:
    assert process.service_seen is not None
    metadata = process.service_seen["metadata"]
    return metadata["namespace"], metadata["name"]


def _meets(write: Write, live: Manifest) -> bool:
    """Will the server do it? What it would refuse is no broken promise."""
    asked = write.body if write.verb == "delete" else write.body.get("metadata") or {}
    return all(
        not asked.get(key) or asked[key] == live["metadata"][key] for key in ("uid", "resourceVersion")
    )


def _version_known(process: OperatorProcess, write: Write) -> str | None:
    """The version of the object in the process's World."""
    kind: Kind = write.kind
    place = (kind.plural, "team", write.name)
    known = process.world._objects.get(place)
    return None if known is None else known["metadata"].get("resourceVersion")
