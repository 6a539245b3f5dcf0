/**
 * Which properties a field may have, and what they are where a dashboard says nothing.
 *
 * The library brings the machinery (applyFieldOverrides and the processors); the list itself stands in Grafana's
 * program (public/app/core/components/OptionsUI/registry.tsx and the panels' own modules), so it is told again here.
 */
import {
  booleanOverrideProcessor,
  displayNameOverrideProcessor,
  FieldConfigOptionsRegistry,
  FieldType,
  identityOverrideProcessor,
  numberOverrideProcessor,
  stringOverrideProcessor,
  ThresholdsMode,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
  type Field,
  type FieldConfigPropertyItem,
  type FieldConfigSource,
  type ThresholdsConfig,
} from "@grafana/data";

type Process = FieldConfigPropertyItem["process"];
const numeric = (field: Field) => field.type === FieldType.number;
const every = () => true;

const STANDARD: [string, unknown, FieldConfigPropertyItem["shouldApply"]][] = [
  ["displayName", displayNameOverrideProcessor, every],
  ["unit", unitOverrideProcessor, every],
  ["min", numberOverrideProcessor, numeric],
  ["max", numberOverrideProcessor, numeric],
  ["fieldMinMax", booleanOverrideProcessor, numeric],
  ["decimals", numberOverrideProcessor, numeric],
  ["noValue", stringOverrideProcessor, every],
  ["thresholds", thresholdsOverrideProcessor, every],
  ["mappings", valueMappingsOverrideProcessor, every],
  ["color", identityOverrideProcessor, every],
  ["filterable", booleanOverrideProcessor, every],
];

/** Of the panels' own properties: those that a dashboard may set here. */
const CUSTOM: Record<string, string[]> = {
  timeseries: [
    "drawStyle", "lineInterpolation", "lineWidth", "lineStyle", "fillOpacity", "gradientMode", "spanNulls", "showPoints",
    "pointSize", "stacking", "axisPlacement", "axisLabel", "axisSoftMin", "axisSoftMax", "axisWidth", "axisGridShow",
    "axisCenteredZero", "axisColorMode", "scaleDistribution", "thresholdsStyle", "hideFrom", "transform",
  ],
  table: ["width", "minWidth", "align", "cellOptions", "inspect", "filterable", "hidden"],
  stat: [],
};

/** A time series' defaults in Grafana's program, packages/grafana-schema and public/app/plugins/panel/timeseries. */
const DEFAULTS: Record<string, { color: string; custom: Record<string, unknown> }> = {
  timeseries: {
    color: "palette-classic",
    custom: {
      drawStyle: "line", lineInterpolation: "linear", lineWidth: 1, fillOpacity: 0, gradientMode: "none",
      spanNulls: false, showPoints: "auto", pointSize: 5, stacking: { mode: "none", group: "A" },
      axisPlacement: "auto", axisGridShow: true, axisCenteredZero: false, axisColorMode: "text",
      scaleDistribution: { type: "linear" }, thresholdsStyle: { mode: "off" },
      hideFrom: { legend: false, tooltip: false, viz: false },
    },
  },
  stat: { color: "thresholds", custom: {} },
  table: { color: "thresholds", custom: { align: "auto", cellOptions: { type: "auto" }, inspect: false } },
};
/** Grafana's for every panel: green, and red from 80 on. */
const THRESHOLDS: ThresholdsConfig = {
  mode: ThresholdsMode.Absolute,
  steps: [
    { value: -Infinity, color: "green" },
    { value: 80, color: "red" },
  ],
};

export function registryOf(kind: string): FieldConfigOptionsRegistry {
  const item = (id: string, path: string, process: Process, shouldApply: FieldConfigPropertyItem["shouldApply"]) =>
    ({ id, path, name: id, process, shouldApply, isCustom: id !== path, editor: none, override: none }) as FieldConfigPropertyItem;
  return new FieldConfigOptionsRegistry(() => [
    ...STANDARD.map(([id, process, applies]) => item(id, id, process as Process, applies)),
    ...CUSTOM[kind].map((id) => item(`custom.${id}`, id, identityOverrideProcessor as Process, every)),
  ]);
}

function none(): null {
  return null; // nothing is edited here
}

/** The panel's own, with Grafana's defaults where it says nothing. JSON writes the lowest threshold's value as null. */
export function withDefaults(kind: string, config: FieldConfigSource): FieldConfigSource {
  const { color, custom } = DEFAULTS[kind];
  const { defaults, overrides } = config;
  const thresholds = structuredClone(defaults.thresholds ?? THRESHOLDS);
  thresholds?.steps.forEach((step) => (step.value = step.value ?? -Infinity));
  return {
    overrides,
    defaults: {
      color: { mode: color },
      mappings: [],
      ...defaults,
      thresholds,
      custom: { ...custom, ...defaults.custom },
    },
  } as FieldConfigSource;
}
