/** Prometheus' answers as DataFrames, in the shape that Grafana's Prometheus datasource gives them. */
import { createDataFrame, FieldType, renderLegendFormat, type DataFrame, type Field } from "@grafana/data";
import type { Answer, Answered, Panel, Series, Target } from "./answers";

/** One frame per series, or for a table one frame with a column per label. */
export function framesOf(panel: Panel, answered: Answered): DataFrame[] {
  const targets = panel.targets ?? [];
  return targets.flatMap((target) => {
    const answer = answered.answers[panel.id][target.refId];
    return target.format === "table"
      ? [table(target, answer, targets.length > 1)]
      : answer.result.map((series) => frame(target, series, answered.step));
  });
}

function points(series: Series): [number, string][] {
  return series.values ?? (series.value ? [series.value] : []);
}

function number(text: string): number {
  return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

function time(seconds: number[], stepSeconds: number): Partial<Field> & { name: string } {
  // The interval tells where a line has a gap.
  return {
    name: "Time",
    type: FieldType.time,
    values: seconds.map((one) => one * 1000),
    config: { interval: stepSeconds * 1000 },
  };
}

function frame(target: Target, series: Series, stepSeconds: number): DataFrame {
  const { __name__: name, ...labels } = series.metric;
  const legend = target.legendFormat === "__auto" ? "" : renderLegendFormat(target.legendFormat, series.metric);
  const found = points(series);
  return createDataFrame({
    refId: target.refId,
    fields: [
      time(found.map(([at]) => at), stepSeconds),
      {
        name: name ?? "Value",
        type: FieldType.number,
        labels,
        values: found.map(([, value]) => number(value)),
        config: legend ? { displayNameFromDS: legend } : {},
      },
    ],
  });
}

/** Columns: time, the labels by name, the value. */
function table(target: Target, answer: Answer, several: boolean): DataFrame {
  const rows = answer.result.flatMap((series) => points(series).map(([at, value]) => ({ series, at, value })));
  const labels = [...new Set(answer.result.flatMap((series) => Object.keys(series.metric)))].sort();
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: "Time", type: FieldType.time, values: rows.map((row) => row.at * 1000) },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        config: { filterable: true },
        values: rows.map((row) => row.series.metric[label] ?? ""),
      })),
      {
        name: several ? `Value #${target.refId}` : "Value",
        type: FieldType.number,
        values: rows.map((row) => number(row.value)),
      },
    ],
  });
}
