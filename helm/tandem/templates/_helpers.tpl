{{- define "tandem.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tandem.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tandem.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tandem.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels of an object of one component: call with (list . "operator"). */ -}}
{{- define "tandem.labels" -}}
{{- $root := index . 0 -}}
{{ include "tandem.selector" . }}
app.kubernetes.io/part-of: tandem
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{- define "tandem.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "tandem.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "tandem.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{ $image.repository }}:{{ default $root.Chart.AppVersion $image.tag }}
{{- end -}}

{{- /* The pod of a control-plane component: call with a dict of root, component, command, args, settings, port. */ -}}
{{- define "tandem.deployment" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "tandem.fullname" $root) .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels:
      {{- include "tandem.selector" (list $root .component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "tandem.labels" (list $root .component) | nindent 8 }}
        {{- with $root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .component }}
          image: {{ include "tandem.image" (list $root $root.Values.image) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [{{ .command }}]
          args:
            {{- .args | nindent 12 }}
            {{- range .settings.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
          ports:
            - {name: http, containerPort: {{ .port }}}
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: 5
            timeoutSeconds: 5
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
      volumes:
        - name: tmp
          emptyDir: {}
      {{- with $root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
{{- end -}}

{{- /* ServiceAccount, Role or ClusterRole, and binding: call with a dict of root, component, rules, leases. */ -}}
{{- define "tandem.rbac" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "tandem.fullname" $root) .component -}}
{{- $scope := ternary "" "Cluster" $root.Values.namespaced -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
  {{- with $root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}Role
metadata:
  name: {{ $name }}
  {{- if $root.Values.namespaced }}
  namespace: {{ $root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}RoleBinding
metadata:
  name: {{ $name }}
  {{- if $root.Values.namespaced }}
  namespace: {{ $root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $scope }}Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
---
# The Lease lives in the release's namespace, whatever is watched.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-lease
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [tandem-{{ .component }}], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-lease
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}-lease}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- end -}}
