"""The Pods of a run, and the objects beside them: template, mounts, first step, launcher, disruption budget.

Begin with `template.pod_template`, which makes the parts that all members share, and with `manifests.MemberPods`, which
makes the Pod of each member.
"""
