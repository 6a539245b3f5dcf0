/** What questions.py asked Prometheus: a dashboard's JSON, and the answers to its queries as they came. */
import type { FieldConfigSource, DataTransformerConfig } from "@grafana/data";

export interface Target {
  refId: string;
  legendFormat: string;
  format?: string;
}

export interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: Target[];
  fieldConfig: FieldConfigSource;
  // As the panel's own kind defines them.
  options: Record<string, unknown>;
  transformations?: DataTransformerConfig[];
}

export interface Answer {
  expr: string;
  resultType: "matrix" | "vector";
  result: Series[];
}

/** `values` of a range, `value` of a moment; times in seconds, numbers as text. */
export interface Series {
  metric: Record<string, string>;
  values?: [number, string][];
  value?: [number, string];
}

export interface AnnotationQuery {
  name: string;
  iconColor: string;
  step: string;
}

export interface Answered {
  dashboard: { title: string; panels: Panel[] };
  /** Unix seconds. */
  from: number;
  to: number;
  step: number;
  variables: Record<string, string>;
  answers: Record<string, Record<string, Answer>>;
  annotations: { annotation: AnnotationQuery; answer: Answer; stepSeconds: number }[];
}
