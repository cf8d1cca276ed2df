"""From options of `kaji run` to a spec's members and the resources of each."""

from __future__ import annotations

import re

from kajitori.client.submit.filling import SpecFilling
from kajitori.client.submit.run_options import RunWords


def ask_for_resources(spec: SpecFilling, words: RunWords, *, whole: bool) -> None:
    """Write into the spec the number of members, and the GPUs, cores and memory of each. `whole` is False if the file
    of the run could not be read."""
    _ask_for_members(spec, words.replicas)
    if words.array is not None and words.replicas is None:
        spec.document.pop("replicas", None)  # from the run's file
        spec.document.pop("minReplicas", None)
    spec.put("array", words.array, "--array")
    spec.put("stopAt", words.stop_at, "--stop-at")
    _ask_for_gpus(spec, words, whole=whole)
    spec.put_resource("gpuType", words.gpu_type, "--gpu-type")
    if "spec.resources.gpuType" in spec.sources:
        spec.hints["spec.resources.gpuType", "NoGpuCount"] = "add --gpus, or --whole-node"
    spec.put_resource("cpu", words.cpus, "--cpus")
    spec.put_size("memory", words.memory, "--memory")
    spec.put_size("shm", words.shm_size, "--shm-size")
    _ask_for_ipc(spec, words)
    if words.whole_node:
        spec.put_resource("wholeNode", True, "--whole-node")


def _ask_for_ipc(spec: SpecFilling, words: RunWords) -> None:
    """Give a member a large /dev/shm for `--ipc host`, which users of PyTorch write for their data loaders."""
    if words.ipc in (None, "", "private", "shareable", "none"):
        return
    if words.ipc != "host":
        hint = "leave it out; processes of one member share memory anyway"
        spec.complain("--ipc", "members share memory with no other container", words.ipc or "", hint)
        return
    resources = spec.mapping("resources") if "resources" in spec.document else {}
    note = "note: --ipc host: a member has a /dev/shm of its own"
    if resources.get("shm") is not None:
        note += "; --shm-size says how large"
    elif resources.get("memory") is not None and "spec.resources.memory" not in spec.complained:
        spec.put_resource("shm", resources["memory"], "--ipc host")
        note += ", which may take all of its memory"
    else:
        note += "; say how large: --shm-size 8g"
    spec.notes.append(note)


def _ask_for_members(spec: SpecFilling, text: str | None) -> None:
    """A number, or the fewest and the most: `8-32`."""
    if text is None:
        return
    spec.document.pop("minReplicas", None)  # from the run's file
    both = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", text, re.ASCII)
    if both is None:
        spec.put_number("replicas", text, "--replicas", hint="write a number, such as 3, or a range, such as 8-32")
        return
    fewest, most = int(both[1]), int(both[2])
    spec.put("minReplicas", fewest, "--replicas")
    spec.put("replicas", most, "--replicas")
    if fewest > most:
        spec.complained |= {"spec.replicas", "spec.minReplicas"}
        message = f"{text!r:.80}: a range goes upwards, from the fewest members to the most"
        spec.complain("--replicas", message, text, f"write {most}-{fewest}" if most else "write 1-3, say")
    elif fewest < 1:
        spec.complained |= {"spec.replicas", "spec.minReplicas"}
        hint = f"write 1-{most}" if most > 1 else "write a number, such as 3, or a range, such as 8-32"
        spec.complain("--replicas", f"{text!r:.80}: a gang has at least one member", text, hint)


def _ask_for_gpus(spec: SpecFilling, words: RunWords, *, whole: bool) -> None:
    text = words.gpus
    if text is None:
        return
    wanted = text.strip("\"'").removeprefix("count=").removeprefix("gpu:")
    resources = spec.mapping("resources")
    typed = re.fullmatch(r"([A-Za-z][-._A-Za-z0-9]*):([0-9]{1,15}|all)", wanted, re.ASCII)
    if typed is not None:  # as Slurm has it
        if words.gpu_type not in (None, typed[1]):
            spec.complained |= {"spec.resources.gpu", "spec.resources.gpuType"}
            message = f"{text!r:.80} names another type than --gpu-type {words.gpu_type}"
            spec.complain("--gpus", message, text, f"leave one of them out: --gpus {typed[2]} --gpu-type {typed[1]}")
            return
        spec.put_resource("gpuType", typed[1], f"--gpus {text}")
        wanted = typed[2]
    if wanted == "all" and (words.gpu_type is not None or typed is not None or resources.get("gpuType") or not whole):
        resources.pop("gpu", None)
        spec.put_resource("wholeNode", True, "--gpus all")
        return
    if wanted.isascii() and wanted.isdigit():
        spec.put_resource("gpu", int(wanted), "--gpus")
        return
    message, hint = (
        f"{text!r:.80} is not a number of GPUs",
        "say how many each member gets: --gpus 8; with a type: --gpus h100:8",
    )
    if wanted == "all":
        message = "all GPUs of a node, but nodes differ"
        hint = "say of which nodes: --gpus all --gpu-type TYPE; or how many: --gpus 8"
    elif "device=" in wanted:
        message, hint = f"{text!r:.80}: which GPUs it gets is the cluster's choice", "say how many: --gpus 2"
    spec.put_resource("gpu", text, "--gpus")
    spec.complained.add("spec.resources.gpu")
    spec.complain("--gpus", message, text, hint)
