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

{{- /* Reference of an image: call with (list . .Values.image). */ -}}
{{- define "tandem.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $root.Values.global.imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default $root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- /* Name of a component's ServiceAccount: call with (list . "operator"). */ -}}
{{- define "tandem.account" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $default := printf "%s-%s" (include "tandem.fullname" $root) $component -}}
{{- index $root.Values.serviceAccount (printf "%sName" $component) | default (ternary $default "default" $root.Values.serviceAccount.create) -}}
{{- end -}}

{{- /* Is this kind known to the cluster: call with (list . "monitoring.coreos.com/v1" "PodMonitor"). Not empty: yes. */ -}}
{{- define "tandem.knows" -}}
{{- $root := index . 0 -}}
{{- if $root.Capabilities.APIVersions.Has (printf "%s/%s" (index . 1) (index . 2)) }}yes{{ end -}}
{{- end -}}

{{- /* What the pods of the control plane have in common: call with the root. */ -}}
{{- define "tandem.pod" -}}
{{- $root := . -}}
{{- with concat $root.Values.global.imagePullSecrets $root.Values.imagePullSecrets | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* The Deployment of a component: call with a dict of root, component, command, args, settings, port, secrets
       (mount path -> {name, key}). */ -}}
{{- define "tandem.deployment" -}}
{{- $root := .root -}}
{{- $component := .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "tandem.fullname" $root }}-{{ $component }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" (list $root $component) | nindent 4 }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels:
      {{- include "tandem.selector" (list $root $component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- $labels := include "tandem.labels" (list $root $component) | fromYaml }}
        {{- toYaml (merge $labels $root.Values.podLabels) | nindent 8 }}
      {{- with $root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "tandem.account" (list $root $component) }}
      {{- include "tandem.pod" $root | nindent 6 }}
      {{- with $root.Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{ toYaml . | nindent 10 | trim }}
          {{- if not .labelSelector }}
          labelSelector:
            matchLabels:
              {{- include "tandem.selector" (list $root $component) | nindent 14 }}
          {{- end }}
        {{- end }}
      {{- end }}
      containers:
        - name: {{ $component }}
          image: {{ include "tandem.image" (list $root $root.Values.image) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [{{ .command }}]
          args:
            {{- toYaml (concat .args .settings.extraArgs) | nindent 12 }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            {{- with .settings.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
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
            {{- toYaml $root.Values.containerSecurityContext | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range $name, $secret := .secrets }}
            - {name: {{ $name }}, mountPath: /etc/tandem/{{ $name }}, readOnly: true}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- range $name, $secret := .secrets }}
        - name: {{ $name }}
          secret:
            secretName: {{ $secret.name }}
            items: [{key: {{ $secret.key | quote }}, path: {{ $name }}}]
        {{- end }}
{{- end -}}

{{- /* The Service of a component's probes and metrics: call with (list . "operator"). */ -}}
{{- define "tandem.service" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "tandem.fullname" $root }}-{{ $component }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "tandem.selector" . | nindent 4 }}
  ports:
    - {name: http, port: 80, targetPort: http}
{{- end -}}

{{- /* ServiceAccount, Role or ClusterRole, and binding: call with a dict of root, component, rules. */ -}}
{{- define "tandem.rbac" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "tandem.fullname" $root) .component -}}
{{- $account := include "tandem.account" (list $root .component) -}}
{{- $scope := ternary "" "Cluster" $root.Values.namespaced -}}
{{- if $root.Values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tandem.labels" (list $root .component) | nindent 4 }}
  {{- with $root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
---
{{ end -}}
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
  - {kind: ServiceAccount, name: {{ $account }}, namespace: {{ $root.Release.Namespace }}}
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
  - {kind: ServiceAccount, name: {{ $account }}, namespace: {{ $root.Release.Namespace }}}
{{- end -}}
