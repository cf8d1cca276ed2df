"""The worker of one Pod: a loop that reconciles its containers with its spec, from admission until it is removed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from datetime import UTC, datetime
from typing import Any

from kajitori.embedded import names
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.network.links import NetworkError
from kajitori.embedded.kubelet.network.names import rewrite
from kajitori.embedded.kubelet.network.packet_paths import NetworkPods
from kajitori.embedded.kubelet.pods.admission import Refusal
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.records import PodFolders, PodRecord
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.pods.starter import Starter
from kajitori.embedded.kubelet.pods.status import Reporter, build_status, rejected_status
from kajitori.embedded.kubelet.pods.steps import RestartBackoff, Steps, next_steps
from kajitori.embedded.kubelet.pods.supervision import Supervisor
from kajitori.embedded.kubelet.pods.waiting import PREPARATION_ERRORS, RETRY_SECONDS, StartWaits
from kajitori.embedded.kubelet.shim import main as shim
from kajitori.errors import Conflict, KajitoriError, NotFound
from kajitori.kube import resources

log = logging.getLogger(__name__)

FORCED_GRACE_SECONDS = 2.0
"""Grace period of a Pod that vanished from the API server because it was deleted with force."""


class PodWorker:
    """Runs one Pod. Other parts of the kubelet report changes to it; `run` does the work."""

    def __init__(self, context: Context, pod: Manifest, record: PodRecord | None = None) -> None:
        self.context = context
        self.pod = pod
        self.uid = pods.uid(pod)
        self.folders = PodFolders(context.settings.root_dir, pod)
        self.is_admitted = record is not None
        """Whether the Pod was admitted, by this kubelet or an earlier one, so that there is a record of it."""
        self.record = record or PodRecord(pod=pod)
        init, main = pods.init_containers(pod), pods.main_containers(pod)
        self.slots = {spec["name"]: Slot(spec, self.uid, self.folders, is_init=True) for spec in init}
        self.slots |= {spec["name"]: Slot(spec, self.uid, self.folders) for spec in main}
        self._to_adopt = list(self.slots.values()) if record is not None else []
        self._starter = Starter(context, self.folders)
        self._supervisor = Supervisor(context.events, self.record, lambda: self.pod, self._note_probe)
        self._waits = StartWaits(context, self.record, lambda: self.pod, self.fail)
        self._network_pods = NetworkPods(context.settings.root_dir, context.adapter)
        self._gone = False
        self._wake = asyncio.Event()
        self._reporter = Reporter(context.cluster)
        self._resync_at = 0.0
        self._mounts_checked = False
        self._recorded_system_oom: set[int] = set()
        self._taken_down = False
        self._backoff = RestartBackoff(
            context.settings.backoff_initial_seconds,
            context.settings.backoff_max_seconds,
            context.settings.backoff_reset_seconds,
        )

    # ------------------------------------------------------------------------------------------ changes from outside

    def update(self, pod: Manifest) -> None:
        """Take the Pod as the API server has it now, unless a newer version is known."""
        earlier = self.pod["metadata"].get("annotations")
        if self._take(pod):
            if self.pod["metadata"].get("annotations") != earlier:
                self.write_names()  # it may be in other networks
            self.wake()

    def listed(self, pod: Manifest) -> None:
        """Take the Pod from a list of all Pods, even if it is older than the known version.

        An API server that was restored from a backup lacks later reports, so they are sent again. (If an answer
        overtook the list, the watch delivers the newer version at once.)"""
        if pods.version_number(pod) < pods.version_number(self.pod):
            self.pod = pod
            self._reporter.forget()
            self.wake()
        else:
            self.update(pod)

    def _take(self, pod: Manifest) -> bool:
        """Take the Pod if it is not older than the known version, and return whether it was taken. An answer to a
        request may arrive after the watch event of a later change."""
        if pods.version_number(pod) < pods.version_number(self.pod):
            return False
        self.pod = pod
        return True

    def removed(self) -> None:
        """Record that the API server has deleted the Pod."""
        self._gone = True
        self.wake()

    def wake(self) -> None:
        """Run another comparison soon."""
        self._wake.set()

    def fail(self, reason: str, message: str) -> None:
        """End all containers and set the Pod to Failed, by the kubelet's own decision."""
        if not self.record.failed_reason and not self.record.final_phase:
            self.record.failed_reason, self.record.failed_message = reason, message
            self._save()
            self.context.events.record(self.pod, reason, message, warning=True)
            self.wake()

    def write_names(self) -> None:
        """Bring the names of other Pods in the Pod's hosts file up to date. Does nothing before it has one."""
        if self.active:
            rewrite(self.folders.hosts, self._starter.names(self.pod))

    @property
    def is_adopted(self) -> bool:
        """Whether the worker knows the containers that an earlier kubelet left."""
        return not self._to_adopt

    @property
    def active(self) -> bool:
        """Whether a container runs or may still be started."""
        return not self.record.final_phase

    # ------------------------------------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Return when nothing of the Pod is left on this machine and the API server has deleted it."""
        try:
            while True:
                self._wake.clear()
                try:
                    wait_seconds = await self._sync()
                except KajitoriError as error:
                    # The API server does not answer: containers keep running, and the report follows later.
                    log.info("%s: %s", pods.key(self.pod), error.message)
                    wait_seconds = RETRY_SECONDS
                except Exception:
                    # Whatever the error is (a full disk, a bug), the Pod still runs and still needs its worker.
                    log.exception("%s could not be brought up to date", pods.key(self.pod))
                    wait_seconds = RETRY_SECONDS
                if wait_seconds is None:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._wake.wait()
        finally:
            self._close()

    def _close(self) -> None:
        """Close the containers, and let go of the parts that refer to this worker.

        Otherwise the worker of each Pod would stay in memory until the garbage collector looks at old objects, which it
        seldom does in a process with many.
        """
        for slot in self.slots.values():
            slot.close()
        self.slots.clear()
        del self._supervisor, self._waits

    async def _sync(self) -> float | None:
        """Compare and act once. Return the seconds until the next comparison, None when the Pod is done."""
        while self._to_adopt:
            slot = self._to_adopt[-1]
            await slot.adopt(self.wake)
            self._to_adopt.pop()
            if slot.running:
                self._supervisor.begin_probes(slot)
        if self.record.final_phase or self._gone:
            return await self._end()
        if not self.is_admitted and not await self._admit():
            return await self._end()
        self._check_deadline()
        if self.record.failed_reason or pods.is_being_deleted(self.pod):
            return await self._end()
        return await self._advance()

    async def _admit(self) -> bool:
        """Admit the Pod to this node: choose its GPUs and attach it to the network. Return whether it may run here."""
        pod, status = self.pod, self.pod.get("status") or {}
        if pods.is_final(pod):
            self.record.final_phase = str(status["phase"])
            return False
        self.record.started_at = self.context.clock()
        self.record.pod_ip = self.context.address
        if pods.is_being_deleted(pod):
            self.record.final_phase = "Failed"
            return False
        if status.get("phase") == "Running" and pods.restart_policy(pod) == "Never":
            message = "it ran before, but this node has no record of its containers"
            return self._refuse(Refusal("ContainerStatusUnknown", message))
        refused, identifiers = self.context.admit(pod)
        if refused is not None:
            return self._refuse(refused)
        self.record.gpus = identifiers
        try:
            await self._attach()
        except NetworkError as error:
            self.context.events.record(pod, error.code, error.message, warning=True)
            raise
        self._save()
        self.is_admitted = True
        if identifiers:
            patch = {"metadata": {"uid": self.uid, "annotations": {names.ANNOTATION_GPUS: ",".join(identifiers)}}}
            with contextlib.suppress(KajitoriError):  # the record counts, not the annotation
                name, namespace = pods.name_and_namespace(pod)
                await self.context.cluster.patch(resources.PODS, name, patch, namespace)
        return True

    def _refuse(self, refused: Refusal) -> bool:
        """End the Pod as Failed without starting it. Return False, the answer of `_admit`."""
        self.record.failed_reason, self.record.failed_message = refused.reason, refused.message
        self.context.events.record(self.pod, refused.reason, refused.message, warning=True)
        self._conclude("Failed")
        self.is_admitted = True
        return False

    def _check_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds and self.context.clock() >= self.record.started_at + float(seconds):
            self.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")

    async def _advance(self) -> float | None:
        """Start and stop containers as the spec and their states demand, and report the phase. Return the seconds until
        the next comparison, None when the Pod is done."""
        now = self.context.clock()
        waits = [max(0.05, await self._refresh())]
        steps = self._next_steps(now)
        while steps.start and not self.context.draining:
            retry_seconds = max([await self._start(self.slots[name]) for name in steps.start])
            if self.record.failed_reason:
                return await self._end()
            if retry_seconds:
                waits.append(retry_seconds)
                break
            steps = self._next_steps(self.context.clock())
        for name, seconds in steps.backing_off.items():
            self._waits.back_off(self.slots[name], seconds)
        for name in steps.stop:
            self._supervisor.stop(self.slots[name], pods.grace_seconds(self.pod), "Stopping sidecar")
        if steps.phase in pods.FINAL_PHASES:
            self._conclude(steps.phase)
            return await self._end()
        await self._report(steps.phase, steps.initialized)
        if steps.wake_at is not None:
            waits.append(max(0.05, steps.wake_at - now))
        if self.pod["spec"].get("activeDeadlineSeconds"):
            ends_at = self.record.started_at + float(self.pod["spec"]["activeDeadlineSeconds"])
            waits.append(max(0.05, ends_at - now))
        return min(waits)

    def _record_system_oom(self) -> None:
        """Record the Event before the status is written, since OOMKilled in the status does not show whether the
        container or the machine ran out of memory."""
        for slot in self.slots.values():
            state = slot.state
            if state is None or slot.running or not state.within_limit:
                continue
            if state.pid not in self._recorded_system_oom:
                self._recorded_system_oom.add(state.pid)
                self.context.events.record_system_oom(state.pid)

    def _next_steps(self, now: float) -> Steps:
        self._record_system_oom()
        restarts = self.record.restarts_in_a_row
        observed = {name: slot.observed(restarts.get(name, 0)) for name, slot in self.slots.items()}
        return next_steps(self.pod, observed, self._backoff, now)

    async def _refresh(self) -> float:
        """Refresh ConfigMaps, Secrets and tokens in volumes, at intervals. Return the seconds until the next time."""
        now = self.context.ticks()
        if now < self._resync_at:
            return self._resync_at - now
        if self._resync_at and self.pod["spec"].get("volumes"):
            with contextlib.suppress(KajitoriError):
                await self._starter.refresh_volumes(self.pod, self.record)
        self._resync_at = now + self.context.settings.resync_seconds
        return self.context.settings.resync_seconds

    # ------------------------------------------------------------------------------------------ starting

    async def _attach(self) -> bool:
        """Attach the Pod to its network. Return whether its address has changed.

        The address changes if the network had to be recreated and the node has another range by then.
        """
        if self.pod["spec"].get("hostNetwork"):
            return False
        _, address = await self.context.network.attach(self.uid)
        if address == self.record.pod_ip:
            return False
        self.record.pod_ip = address
        self._network_pods.write_interface(self.pod, self.context.network.interface(self.uid), address)
        return True

    async def _start(self, slot: Slot) -> float:
        """Start the container's next attempt. Return the seconds until the next try, 0 if it was started."""
        try:
            launch = await self._prepare(slot)
        except (*PREPARATION_ERRORS, OSError) as error:
            return self._waits.after(slot, error)
        if slot.attempt >= 0:
            observed = slot.observed(self.record.restarts_in_a_row.get(slot.name, 0))
            self.record.restarts_in_a_row[slot.name] = self._backoff.next_restarts_in_a_row(observed)
            self._save()
        slot.waiting_reason = slot.waiting_message = ""
        slot.end_probes()
        try:
            state = await slot.launch(launch, self.wake)
        except OSError as error:
            return self._waits.wait_for(slot, "CreateContainerError", str(error), RETRY_SECONDS)
        if state.status == shim.FAILED:
            self.context.events.record(self.pod, "Failed", f"Error: {state.message}", warning=True)
        else:
            self.context.events.record(self.pod, "Started", f"Started container {slot.name}")
            self._supervisor.begin_probes(slot)
            self._supervisor.run_start_hook(slot)
        return 0.0

    async def _prepare(self, slot: Slot) -> Any:
        """Prepare volumes, network and image, and return the launch document of the container's next attempt.

        Raises the errors that `_start` turns into reasons for waiting.
        """
        if not self._mounts_checked:
            await self._starter.refresh_volumes(self.pod, self.record)
            for note in self._starter.check_mounts(self.pod):
                self.context.events.record(self.pod, "MountNote", note)
            self._mounts_checked = True
        if await self._attach():
            self._save()
        await self._starter.ensure_image(self.pod, slot, self._say)
        return await self._starter.launch(self.pod, self.record, slot)

    def _say(self, reason: str, message: str, is_warning: bool) -> None:
        """Record an Event about the Pod."""
        self.context.events.record(self.pod, reason, message, warning=is_warning)

    # ------------------------------------------------------------------------------------------ ending

    async def _end(self) -> float | None:
        """End all containers, report it, and delete the Pod from the API server if its deletion was requested.

        Return the seconds until the next comparison, None when nothing of the Pod is left.
        """
        # 1. Ask running containers to end.
        running = [slot for slot in self.slots.values() if slot.running]
        if running:
            await self._stop_running(running)
            return self.context.settings.resync_seconds
        # 2. Give the Pod its final phase, and release what it holds on this node.
        if not self.record.final_phase:
            codes = [slot.state.exit_code if slot.state else None for slot in self.slots.values() if not slot.is_init]
            has_succeeded = not self.record.failed_reason and all(code == 0 for code in codes)
            self._conclude("Succeeded" if has_succeeded else "Failed")
        self.context.release(self.uid)
        if self._gone:
            await self._detach()
            await self._clean_up()
            return None
        if not self._taken_down:
            await asyncio.to_thread(self.context.volumes.remove, self.pod, self.folders.volumes)
            await self._detach()
            self._taken_down = True
        # 3. Report the phase, and remove the Pod if that was requested.
        if not await self._report(self.record.final_phase, True):
            self._gone = True
            return 0.0
        self._release_versions()
        if pods.is_being_deleted(self.pod):
            with contextlib.suppress(NotFound, Conflict):
                name, namespace = pods.name_and_namespace(self.pod)
                await self.context.cluster.remove(resources.PODS, name, namespace, uid=self.uid)
            if self.pod["metadata"].get("finalizers"):  # its log can be read until somebody removes the last one
                return self.context.settings.resync_seconds
            await self._clean_up()
            return None
        return self.context.settings.resync_seconds

    async def _stop_running(self, running: list[Slot]) -> None:
        """Ask running containers to end, sidecars after all others, and report the phase meanwhile."""
        grace_seconds = FORCED_GRACE_SECONDS if self._gone else pods.grace_seconds(self.pod)
        if self.record.failed_reason == "Evicted":
            grace_seconds = 0.0
        sidecars = [slot for slot in running if slot.is_init and pods.is_sidecar(slot.spec)]
        for slot in [slot for slot in running if slot not in sidecars] or sidecars:
            self._supervisor.stop(slot, grace_seconds, f"Stopping container {slot.name}")
        if not self._gone:
            has_begun = any(slot.attempt >= 0 for slot in self.slots.values() if not slot.is_init)
            await self._report("Running" if has_begun else "Pending", has_begun)

    def _release_versions(self) -> None:
        """Let all parts refer to the newest version of the Pod. An ended Pod stays until its run is deleted, which may
        be days, and each older version takes 10 kB of memory."""
        self.record.pod = self.pod
        for spec in (*pods.init_containers(self.pod), *pods.main_containers(self.pod)):
            if (slot := self.slots.get(spec["name"])) is not None:
                slot.spec = spec
                slot.end_probes()

    async def _detach(self) -> None:
        """Detach the Pod from its network."""
        await self.context.network.detach(self.uid)
        self._network_pods.forget(self.uid)

    def _conclude(self, phase: str) -> None:
        """Record the Pod's final phase; none of its containers starts any more."""
        self.record.final_phase = phase
        for slot in self.slots.values():
            slot.waiting_reason = slot.waiting_message = ""
        self._save()

    async def _clean_up(self) -> None:
        """Remove all files of the Pod. In a thread, since there may be a million of them."""

        def remove() -> None:
            self.context.volumes.remove(self.pod, self.folders.volumes)
            shutil.rmtree(self.folders.logs, ignore_errors=True)
            self.folders.remove_messages()
            # This folder goes last: it has the record, with which the next kubelet can finish the removal.
            shutil.rmtree(self.folders.own, ignore_errors=True)

        await asyncio.to_thread(remove)

    # ------------------------------------------------------------------------------------------ reporting

    async def _report(self, phase: str, initialized: bool) -> bool:
        """Write the status if it has changed. Return False if the API server has deleted the Pod."""
        if self.record.failed_reason and all(slot.attempt < 0 for slot in self.slots.values()):
            status = rejected_status(
                self.pod, self.record.failed_reason, self.record.failed_message, self.record.started_at
            )
        elif pods.is_final(self.pod) and not self.is_admitted:
            return True  # the Pod ended before this kubelet knew it: another kubelet wrote its status
        else:
            status = build_status(
                self.pod,
                phase=phase,
                containers={name: slot.view() for name, slot in self.slots.items()},
                initialized=initialized,
                host_ip=self.context.address,
                pod_ip=self.record.pod_ip,
                started_at=self.record.started_at,
                now=datetime.now(UTC),
                reason=self.record.failed_reason,
                message=self.record.failed_message,
            )
        answer = await self._reporter.report(self.pod, status)
        if answer is None:
            return False
        # If the watch was faster, its copy stays: the watch keeps that one in any case.
        if pods.uid(answer) == self.uid and pods.version_number(answer) > pods.version_number(self.pod):
            self._take(answer)
        return True

    def _note_probe(self) -> None:
        """Save the results of probes before they are reported, so that a later kubelet begins with them."""
        self._save()
        self.wake()

    def _save(self) -> None:
        """Write the record, with which a later kubelet adopts the Pod."""
        self.record.pod = self.pod
        self.folders.save(self.record)
