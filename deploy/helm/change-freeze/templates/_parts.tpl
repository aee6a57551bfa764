{{/* Labels of a component: (list . "api"). */}}
{{- define "labels" -}}
{ app.kubernetes.io/name: {{ (index . 0).Release.Name }}, app.kubernetes.io/component: {{ index . 1 }} }
{{- end }}

{{- define "image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "pod" -}}
automountServiceAccountToken: false
securityContext: { runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001, seccompProfile: { type: RuntimeDefault } }
{{- end }}

{{- define "container" -}}
image: {{ include "image" . | quote }}
securityContext: { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }
{{- end }}

{{/* What the pods of a deployment share: (list . "api"). */}}
{{- define "deployment" -}}
topologySpreadConstraints: # a host that is lost takes one of two
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "labels" . }}
terminationGracePeriodSeconds: 60
volumes:
  - { name: temporary, emptyDir: {} }
  - { name: github-app, secret: { secretName: {{ (index . 0).Values.secrets.githubApp }}, defaultMode: 0440 } }
{{- end }}

{{- define "mounts" -}}
envFrom:
  - secretRef: { name: {{ .Values.secrets.environment }} }
volumeMounts:
  - { name: temporary, mountPath: /tmp }
  - { name: github-app, mountPath: /etc/change-freeze, readOnly: true }
{{- end }}
