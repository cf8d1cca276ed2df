"""Numbers of the fields of Kubernetes' types in their protobuf form.

The number of a field is its place in the list; `-` is an unused number, `+type` an embedded type whose fields belong to
the object itself. The numbers are those of k8s.io/api's generated.proto files and never change.
"""

from __future__ import annotations

FIELDS: dict[str, str] = {
    "admissionregistration_v1.AuditAnnotation": "key valueExpression",
    "admissionregistration_v1.ExpressionWarning": "- fieldRef warning",
    "admissionregistration_v1.MatchCondition": "name expression",
    "admissionregistration_v1.MatchResources": (
        "namespaceSelector objectSelector resourceRules excludeResourceRules - - matchPolicy"
    ),
    "admissionregistration_v1.NamedRuleWithOperations": ("resourceNames +admissionregistration_v1.RuleWithOperations"),
    "admissionregistration_v1.ParamKind": "apiVersion kind",
    "admissionregistration_v1.ParamRef": "name namespace selector parameterNotFoundAction",
    "admissionregistration_v1.Rule": "apiGroups apiVersions resources scope",
    "admissionregistration_v1.RuleWithOperations": "operations +admissionregistration_v1.Rule",
    "admissionregistration_v1.TypeChecking": "expressionWarnings",
    "admissionregistration_v1.ValidatingAdmissionPolicy": "metadata spec status",
    "admissionregistration_v1.ValidatingAdmissionPolicyBinding": "metadata spec",
    "admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec": (
        "policyName paramRef matchResources validationActions"
    ),
    "admissionregistration_v1.ValidatingAdmissionPolicySpec": (
        "paramKind matchConstraints validations failurePolicy auditAnnotations matchConditions variables"
    ),
    "admissionregistration_v1.ValidatingAdmissionPolicyStatus": "observedGeneration typeChecking conditions",
    "admissionregistration_v1.Validation": "expression message reason messageExpression",
    "admissionregistration_v1.Variable": "name expression",
    "authentication_v1.BoundObjectReference": "kind apiVersion name",
    "authentication_v1.SelfSubjectReview": "metadata status",
    "authentication_v1.SelfSubjectReviewStatus": "userInfo",
    "authentication_v1.TokenRequest": "metadata spec status",
    "authentication_v1.TokenRequestSpec": "audiences - boundObjectRef expirationSeconds",
    "authentication_v1.TokenRequestStatus": "token expirationTimestamp",
    "authentication_v1.TokenReview": "metadata spec status",
    "authentication_v1.TokenReviewSpec": "token audiences",
    "authentication_v1.TokenReviewStatus": "authenticated user error audiences",
    "authentication_v1.UserInfo": "username uid groups extra",
    "authorization_v1.FieldSelectorAttributes": "rawSelector requirements",
    "authorization_v1.LabelSelectorAttributes": "rawSelector requirements",
    "authorization_v1.LocalSubjectAccessReview": "metadata spec status",
    "authorization_v1.NonResourceAttributes": "path verb",
    "authorization_v1.NonResourceRule": "verbs nonResourceURLs",
    "authorization_v1.ResourceAttributes": (
        "namespace verb group version resource subresource name fieldSelector labelSelector"
    ),
    "authorization_v1.ResourceRule": "verbs apiGroups resources resourceNames",
    "authorization_v1.SelfSubjectAccessReview": "metadata spec status",
    "authorization_v1.SelfSubjectAccessReviewSpec": "resourceAttributes nonResourceAttributes",
    "authorization_v1.SelfSubjectRulesReview": "metadata spec status",
    "authorization_v1.SelfSubjectRulesReviewSpec": "namespace",
    "authorization_v1.SubjectAccessReview": "metadata spec status",
    "authorization_v1.SubjectAccessReviewSpec": "resourceAttributes nonResourceAttributes user groups extra uid",
    "authorization_v1.SubjectAccessReviewStatus": "allowed reason evaluationError denied",
    "authorization_v1.SubjectRulesReviewStatus": "resourceRules nonResourceRules incomplete evaluationError",
    "coordination_v1.Lease": "metadata spec",
    "coordination_v1.LeaseSpec": (
        "holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy preferredHolder"
    ),
    "core_v1.AWSElasticBlockStoreVolumeSource": "volumeID fsType partition readOnly",
    "core_v1.Affinity": "nodeAffinity podAffinity podAntiAffinity",
    "core_v1.AppArmorProfile": "type localhostProfile",
    "core_v1.AttachedVolume": "name devicePath",
    "core_v1.AzureDiskVolumeSource": "diskName diskURI cachingMode fsType readOnly kind",
    "core_v1.AzureFilePersistentVolumeSource": "secretName shareName readOnly secretNamespace",
    "core_v1.AzureFileVolumeSource": "secretName shareName readOnly",
    "core_v1.Binding": "metadata target",
    "core_v1.CSIPersistentVolumeSource": (
        "driver volumeHandle readOnly fsType volumeAttributes controllerPublishSecretRef nodeStageSecretRef "
        "nodePublishSecretRef controllerExpandSecretRef nodeExpandSecretRef"
    ),
    "core_v1.CSIVolumeSource": "driver readOnly fsType volumeAttributes nodePublishSecretRef",
    "core_v1.Capabilities": "add drop",
    "core_v1.CephFSPersistentVolumeSource": "monitors path user secretFile secretRef readOnly",
    "core_v1.CephFSVolumeSource": "monitors path user secretFile secretRef readOnly",
    "core_v1.CinderPersistentVolumeSource": "volumeID fsType readOnly secretRef",
    "core_v1.CinderVolumeSource": "volumeID fsType readOnly secretRef",
    "core_v1.ClientIPConfig": "timeoutSeconds",
    "core_v1.ClusterTrustBundleProjection": "name signerName labelSelector path optional",
    "core_v1.ConfigMap": "metadata data binaryData immutable",
    "core_v1.ConfigMapEnvSource": "+core_v1.LocalObjectReference optional",
    "core_v1.ConfigMapKeySelector": "+core_v1.LocalObjectReference key optional",
    "core_v1.ConfigMapNodeConfigSource": "namespace name uid resourceVersion kubeletConfigKey",
    "core_v1.ConfigMapProjection": "+core_v1.LocalObjectReference items - optional",
    "core_v1.ConfigMapVolumeSource": "+core_v1.LocalObjectReference items defaultMode optional",
    "core_v1.Container": (
        "name image command args workingDir ports env resources volumeMounts livenessProbe readinessProbe "
        "lifecycle terminationMessagePath imagePullPolicy securityContext stdin stdinOnce tty envFrom "
        "terminationMessagePolicy volumeDevices startupProbe resizePolicy restartPolicy restartPolicyRules"
    ),
    "core_v1.ContainerExtendedResourceRequest": "containerName resourceName requestName",
    "core_v1.ContainerImage": "names sizeBytes",
    "core_v1.ContainerPort": "name hostPort containerPort protocol hostIP",
    "core_v1.ContainerResizePolicy": "resourceName restartPolicy",
    "core_v1.ContainerRestartRule": "action exitCodes",
    "core_v1.ContainerRestartRuleOnExitCodes": "operator values",
    "core_v1.ContainerState": "waiting running terminated",
    "core_v1.ContainerStateRunning": "startedAt",
    "core_v1.ContainerStateTerminated": "exitCode signal reason message startedAt finishedAt containerID",
    "core_v1.ContainerStateWaiting": "reason message",
    "core_v1.ContainerStatus": (
        "name state lastState ready restartCount image imageID containerID started allocatedResources resources "
        "volumeMounts user allocatedResourcesStatus stopSignal"
    ),
    "core_v1.ContainerUser": "linux",
    "core_v1.DaemonEndpoint": "Port",
    "core_v1.DownwardAPIProjection": "items",
    "core_v1.DownwardAPIVolumeFile": "path fieldRef resourceFieldRef mode",
    "core_v1.DownwardAPIVolumeSource": "items defaultMode",
    "core_v1.EmptyDirVolumeSource": "medium sizeLimit",
    "core_v1.EndpointAddress": "ip targetRef hostname nodeName",
    "core_v1.EndpointPort": "name port protocol appProtocol",
    "core_v1.EndpointSubset": "addresses notReadyAddresses ports",
    "core_v1.Endpoints": "metadata subsets",
    "core_v1.EnvFromSource": "prefix configMapRef secretRef",
    "core_v1.EnvVar": "name value valueFrom",
    "core_v1.EnvVarSource": "fieldRef resourceFieldRef configMapKeyRef secretKeyRef fileKeyRef",
    "core_v1.EphemeralContainer": "+core_v1.EphemeralContainerCommon targetContainerName",
    "core_v1.EphemeralContainerCommon": (
        "name image command args workingDir ports env resources volumeMounts livenessProbe readinessProbe "
        "lifecycle terminationMessagePath imagePullPolicy securityContext stdin stdinOnce tty envFrom "
        "terminationMessagePolicy volumeDevices startupProbe resizePolicy restartPolicy restartPolicyRules"
    ),
    "core_v1.EphemeralVolumeSource": "volumeClaimTemplate",
    "core_v1.Event": (
        "metadata involvedObject reason message source firstTimestamp lastTimestamp count type eventTime series "
        "action related reportingComponent reportingInstance"
    ),
    "core_v1.EventSeries": "count lastObservedTime",
    "core_v1.EventSource": "component host",
    "core_v1.ExecAction": "command",
    "core_v1.FCVolumeSource": "targetWWNs lun fsType readOnly wwids",
    "core_v1.FileKeySelector": "volumeName path key optional",
    "core_v1.FlexPersistentVolumeSource": "driver fsType secretRef readOnly options",
    "core_v1.FlexVolumeSource": "driver fsType secretRef readOnly options",
    "core_v1.FlockerVolumeSource": "datasetName datasetUUID",
    "core_v1.GCEPersistentDiskVolumeSource": "pdName fsType partition readOnly",
    "core_v1.GRPCAction": "port service",
    "core_v1.GitRepoVolumeSource": "repository revision directory",
    "core_v1.GlusterfsPersistentVolumeSource": "endpoints path readOnly endpointsNamespace",
    "core_v1.GlusterfsVolumeSource": "endpoints path readOnly",
    "core_v1.HTTPGetAction": "path port host scheme httpHeaders",
    "core_v1.HTTPHeader": "name value",
    "core_v1.HostAlias": "ip hostnames",
    "core_v1.HostIP": "ip",
    "core_v1.HostPathVolumeSource": "path type",
    "core_v1.ISCSIPersistentVolumeSource": (
        "targetPortal iqn lun iscsiInterface fsType readOnly portals chapAuthDiscovery - secretRef chapAuthSession "
        "initiatorName"
    ),
    "core_v1.ISCSIVolumeSource": (
        "targetPortal iqn lun iscsiInterface fsType readOnly portals chapAuthDiscovery - secretRef chapAuthSession "
        "initiatorName"
    ),
    "core_v1.ImageVolumeSource": "reference pullPolicy",
    "core_v1.ImageVolumeStatus": "imageRef",
    "core_v1.KeyToPath": "key path mode",
    "core_v1.Lifecycle": "postStart preStop stopSignal",
    "core_v1.LifecycleHandler": "exec httpGet tcpSocket sleep",
    "core_v1.LimitRange": "metadata spec",
    "core_v1.LimitRangeItem": "type max min default defaultRequest maxLimitRequestRatio",
    "core_v1.LimitRangeSpec": "limits",
    "core_v1.LinuxContainerUser": "uid gid supplementalGroups",
    "core_v1.LoadBalancerIngress": "ip hostname ipMode ports",
    "core_v1.LoadBalancerStatus": "ingress",
    "core_v1.LocalObjectReference": "name",
    "core_v1.LocalVolumeSource": "path fsType",
    "core_v1.ModifyVolumeStatus": "targetVolumeAttributesClassName status",
    "core_v1.NFSVolumeSource": "server path readOnly",
    "core_v1.Namespace": "metadata spec status",
    "core_v1.NamespaceCondition": "type status - lastTransitionTime reason message",
    "core_v1.NamespaceSpec": "finalizers",
    "core_v1.NamespaceStatus": "phase conditions",
    "core_v1.Node": "metadata spec status",
    "core_v1.NodeAddress": "type address",
    "core_v1.NodeAffinity": (
        "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution"
    ),
    "core_v1.NodeAllocatableMappedResources": "name quantity",
    "core_v1.NodeAllocatableOverheadResources": "name perPod perContainer",
    "core_v1.NodeAllocatableResourceClaimStatus": "resourceClaimName containers - mapping overhead",
    "core_v1.NodeCondition": "type status lastHeartbeatTime lastTransitionTime reason message",
    "core_v1.NodeConfigSource": "- configMap",
    "core_v1.NodeConfigStatus": "assigned active lastKnownGood error",
    "core_v1.NodeDaemonEndpoints": "kubeletEndpoint",
    "core_v1.NodeFeatures": "supplementalGroupsPolicy",
    "core_v1.NodeRuntimeHandler": "name features",
    "core_v1.NodeRuntimeHandlerFeatures": "recursiveReadOnlyMounts userNamespaces",
    "core_v1.NodeSelector": "nodeSelectorTerms",
    "core_v1.NodeSelectorRequirement": "key operator values",
    "core_v1.NodeSelectorTerm": "matchExpressions matchFields",
    "core_v1.NodeSpec": "podCIDR externalID providerID unschedulable taints configSource podCIDRs",
    "core_v1.NodeStatus": (
        "capacity allocatable phase conditions addresses daemonEndpoints nodeInfo images volumesInUse "
        "volumesAttached config runtimeHandlers features declaredFeatures"
    ),
    "core_v1.NodeSwapStatus": "capacity",
    "core_v1.NodeSystemInfo": (
        "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeletVersion kubeProxyVersion "
        "operatingSystem architecture swap"
    ),
    "core_v1.ObjectFieldSelector": "apiVersion fieldPath",
    "core_v1.ObjectReference": "kind namespace name uid apiVersion resourceVersion fieldPath",
    "core_v1.PersistentVolume": "metadata spec status",
    "core_v1.PersistentVolumeClaim": "metadata spec status",
    "core_v1.PersistentVolumeClaimCondition": "type status lastProbeTime lastTransitionTime reason message",
    "core_v1.PersistentVolumeClaimSpec": (
        "accessModes resources volumeName selector storageClassName volumeMode dataSource dataSourceRef "
        "volumeAttributesClassName"
    ),
    "core_v1.PersistentVolumeClaimStatus": (
        "phase accessModes capacity conditions allocatedResources - allocatedResourceStatuses "
        "currentVolumeAttributesClassName modifyVolumeStatus"
    ),
    "core_v1.PersistentVolumeClaimTemplate": "metadata spec",
    "core_v1.PersistentVolumeClaimVolumeSource": "claimName readOnly",
    "core_v1.PersistentVolumeSource": (
        "gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd iscsi cinder cephfs fc flocker "
        "flexVolume azureFile vsphereVolume quobyte azureDisk photonPersistentDisk portworxVolume scaleIO local "
        "storageos csi"
    ),
    "core_v1.PersistentVolumeSpec": (
        "capacity +core_v1.PersistentVolumeSource accessModes claimRef persistentVolumeReclaimPolicy "
        "storageClassName mountOptions volumeMode nodeAffinity volumeAttributesClassName"
    ),
    "core_v1.PersistentVolumeStatus": "phase message reason lastPhaseTransitionTime",
    "core_v1.PhotonPersistentDiskVolumeSource": "pdID fsType",
    "core_v1.Pod": "metadata spec status",
    "core_v1.PodAffinity": (
        "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution"
    ),
    "core_v1.PodAffinityTerm": (
        "labelSelector namespaces topologyKey namespaceSelector matchLabelKeys mismatchLabelKeys"
    ),
    "core_v1.PodAntiAffinity": (
        "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution"
    ),
    "core_v1.PodCertificateProjection": (
        "signerName keyType maxExpirationSeconds credentialBundlePath keyPath certificateChainPath userAnnotations"
    ),
    "core_v1.PodCondition": "type status lastProbeTime lastTransitionTime reason message observedGeneration",
    "core_v1.PodDNSConfig": "nameservers searches options",
    "core_v1.PodDNSConfigOption": "name value",
    "core_v1.PodExtendedResourceClaimStatus": "requestMappings resourceClaimName",
    "core_v1.PodIP": "ip",
    "core_v1.PodOS": "name",
    "core_v1.PodReadinessGate": "conditionType",
    "core_v1.PodResourceClaim": "name - resourceClaimName resourceClaimTemplateName",
    "core_v1.PodResourceClaimStatus": "name resourceClaimName",
    "core_v1.PodSchedulingGate": "name",
    "core_v1.PodSchedulingGroup": "podGroupName",
    "core_v1.PodSecurityContext": (
        "seLinuxOptions runAsUser runAsNonRoot supplementalGroups fsGroup runAsGroup sysctls windowsOptions "
        "fsGroupChangePolicy seccompProfile appArmorProfile supplementalGroupsPolicy seLinuxChangePolicy"
    ),
    "core_v1.PodSpec": (
        "volumes containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy "
        "nodeSelector serviceAccountName serviceAccount nodeName hostNetwork hostPID hostIPC securityContext "
        "imagePullSecrets hostname subdomain affinity schedulerName initContainers automountServiceAccountToken "
        "tolerations hostAliases priorityClassName priority dnsConfig shareProcessNamespace readinessGates "
        "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints "
        "ephemeralContainers setHostnameAsFQDN os hostUsers schedulingGates resourceClaims resources "
        "hostnameOverride - schedulingGroup"
    ),
    "core_v1.PodStatus": (
        "phase conditions message reason hostIP podIP startTime containerStatuses qosClass initContainerStatuses "
        "nominatedNodeName podIPs ephemeralContainerStatuses resize resourceClaimStatuses hostIPs "
        "observedGeneration extendedResourceClaimStatus allocatedResources resources "
        "nodeAllocatableResourceClaimStatuses"
    ),
    "core_v1.PodTemplate": "metadata template",
    "core_v1.PodTemplateSpec": "metadata spec",
    "core_v1.PortStatus": "port protocol error",
    "core_v1.PortworxVolumeSource": "volumeID fsType readOnly",
    "core_v1.PreferredSchedulingTerm": "weight preference",
    "core_v1.Probe": (
        "+core_v1.ProbeHandler initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold "
        "terminationGracePeriodSeconds"
    ),
    "core_v1.ProbeHandler": "exec httpGet tcpSocket grpc",
    "core_v1.ProjectedVolumeSource": "sources defaultMode",
    "core_v1.QuobyteVolumeSource": "registry volume readOnly user group tenant",
    "core_v1.RBDPersistentVolumeSource": "monitors image fsType pool user keyring secretRef readOnly",
    "core_v1.RBDVolumeSource": "monitors image fsType pool user keyring secretRef readOnly",
    "core_v1.ResourceClaim": "name request",
    "core_v1.ResourceFieldSelector": "containerName resource divisor",
    "core_v1.ResourceHealth": "resourceID health - - - message",
    "core_v1.ResourceQuota": "metadata spec status",
    "core_v1.ResourceQuotaSpec": "hard scopes scopeSelector",
    "core_v1.ResourceQuotaStatus": "hard used",
    "core_v1.ResourceRequirements": "limits requests claims",
    "core_v1.ResourceStatus": "name resources",
    "core_v1.SELinuxOptions": "user role type level",
    "core_v1.ScaleIOPersistentVolumeSource": (
        "gateway system secretRef sslEnabled protectionDomain storagePool storageMode volumeName fsType readOnly"
    ),
    "core_v1.ScaleIOVolumeSource": (
        "gateway system secretRef sslEnabled protectionDomain storagePool storageMode volumeName fsType readOnly"
    ),
    "core_v1.ScopeSelector": "matchExpressions",
    "core_v1.ScopedResourceSelectorRequirement": "scopeName operator values",
    "core_v1.SeccompProfile": "type localhostProfile",
    "core_v1.Secret": "metadata data type stringData immutable",
    "core_v1.SecretEnvSource": "+core_v1.LocalObjectReference optional",
    "core_v1.SecretKeySelector": "+core_v1.LocalObjectReference key optional",
    "core_v1.SecretProjection": "+core_v1.LocalObjectReference items - optional",
    "core_v1.SecretReference": "name namespace",
    "core_v1.SecretVolumeSource": "secretName items defaultMode optional",
    "core_v1.SecurityContext": (
        "capabilities privileged seLinuxOptions runAsUser runAsNonRoot readOnlyRootFilesystem "
        "allowPrivilegeEscalation runAsGroup procMount windowsOptions seccompProfile appArmorProfile"
    ),
    "core_v1.Service": "metadata spec status",
    "core_v1.ServiceAccount": "metadata secrets imagePullSecrets automountServiceAccountToken",
    "core_v1.ServiceAccountTokenProjection": "audience expirationSeconds path",
    "core_v1.ServicePort": "name protocol port targetPort nodePort appProtocol",
    "core_v1.ServiceSpec": (
        "ports selector clusterIP type externalIPs - sessionAffinity loadBalancerIP loadBalancerSourceRanges "
        "externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig - - "
        "ipFamilyPolicy clusterIPs ipFamilies allocateLoadBalancerNodePorts loadBalancerClass "
        "internalTrafficPolicy trafficDistribution"
    ),
    "core_v1.ServiceStatus": "loadBalancer conditions",
    "core_v1.SessionAffinityConfig": "clientIP",
    "core_v1.SleepAction": "seconds",
    "core_v1.StorageOSPersistentVolumeSource": "volumeName volumeNamespace fsType readOnly secretRef",
    "core_v1.StorageOSVolumeSource": "volumeName volumeNamespace fsType readOnly secretRef",
    "core_v1.Sysctl": "name value",
    "core_v1.TCPSocketAction": "port host",
    "core_v1.Taint": "key value effect timeAdded",
    "core_v1.Toleration": "key operator value effect tolerationSeconds",
    "core_v1.TopologySelectorLabelRequirement": "key values",
    "core_v1.TopologySelectorTerm": "matchLabelExpressions",
    "core_v1.TopologySpreadConstraint": (
        "maxSkew topologyKey whenUnsatisfiable labelSelector minDomains nodeAffinityPolicy nodeTaintsPolicy "
        "matchLabelKeys"
    ),
    "core_v1.TypedLocalObjectReference": "apiGroup kind name",
    "core_v1.TypedObjectReference": "apiGroup kind name namespace",
    "core_v1.Volume": "name +core_v1.VolumeSource",
    "core_v1.VolumeDevice": "name devicePath",
    "core_v1.VolumeMount": "name readOnly mountPath subPath mountPropagation subPathExpr recursiveReadOnly",
    "core_v1.VolumeMountStatus": "name mountPath readOnly recursiveReadOnly volumeStatus",
    "core_v1.VolumeNodeAffinity": "required",
    "core_v1.VolumeProjection": "secret downwardAPI configMap serviceAccountToken clusterTrustBundle podCertificate",
    "core_v1.VolumeResourceRequirements": "limits requests",
    "core_v1.VolumeSource": (
        "hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs "
        "persistentVolumeClaim rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile configMap "
        "vsphereVolume quobyte azureDisk photonPersistentDisk portworxVolume scaleIO projected storageos csi "
        "ephemeral image"
    ),
    "core_v1.VolumeStatus": "image",
    "core_v1.VsphereVirtualDiskVolumeSource": "volumePath fsType storagePolicyName storagePolicyID",
    "core_v1.WeightedPodAffinityTerm": "weight podAffinityTerm",
    "core_v1.WindowsSecurityContextOptions": "gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess",
    "discovery_v1.Endpoint": "addresses conditions hostname targetRef deprecatedTopology nodeName zone hints",
    "discovery_v1.EndpointConditions": "ready serving terminating",
    "discovery_v1.EndpointHints": "forZones forNodes",
    "discovery_v1.EndpointPort": "name protocol port appProtocol",
    "discovery_v1.EndpointSlice": "metadata endpoints ports addressType",
    "discovery_v1.ForNode": "name",
    "discovery_v1.ForZone": "name",
    "events_v1.Event": (
        "metadata eventTime series reportingController reportingInstance action reason regarding related note type "
        "deprecatedSource deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedCount"
    ),
    "events_v1.EventSeries": "count lastObservedTime",
    "meta_v1.Condition": "type status observedGeneration lastTransitionTime reason message",
    "meta_v1.DeleteOptions": (
        "gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun "
        "ignoreStoreReadErrorWithClusterBreakingPotential"
    ),
    "meta_v1.FieldSelectorRequirement": "key operator values",
    "meta_v1.LabelSelector": "matchLabels matchExpressions",
    "meta_v1.LabelSelectorRequirement": "key operator values",
    "meta_v1.ManagedFieldsEntry": "manager operation apiVersion time - fieldsType fieldsV1 subresource",
    "meta_v1.ObjectMeta": (
        "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp "
        "deletionGracePeriodSeconds labels annotations ownerReferences finalizers - - managedFields"
    ),
    "meta_v1.OwnerReference": "kind - name uid apiVersion controller blockOwnerDeletion",
    "meta_v1.Preconditions": "uid resourceVersion",
    "networking_v1.IPBlock": "cidr except",
    "networking_v1.NetworkPolicy": "metadata spec",
    "networking_v1.NetworkPolicyEgressRule": "ports to",
    "networking_v1.NetworkPolicyIngressRule": "ports from",
    "networking_v1.NetworkPolicyPeer": "podSelector namespaceSelector ipBlock",
    "networking_v1.NetworkPolicyPort": "protocol port endPort",
    "networking_v1.NetworkPolicySpec": "podSelector ingress egress policyTypes",
    "policy_v1.Eviction": "metadata deleteOptions",
    "policy_v1.PodDisruptionBudget": "metadata spec status",
    "policy_v1.PodDisruptionBudgetSpec": "minAvailable selector maxUnavailable unhealthyPodEvictionPolicy",
    "policy_v1.PodDisruptionBudgetStatus": (
        "observedGeneration disruptedPods disruptionsAllowed currentHealthy desiredHealthy expectedPods conditions"
    ),
    "scheduling_v1.PriorityClass": "metadata value globalDefault description preemptionPolicy",
    "storage_v1.StorageClass": (
        "metadata provisioner parameters reclaimPolicy mountOptions allowVolumeExpansion volumeBindingMode "
        "allowedTopologies"
    ),
}
