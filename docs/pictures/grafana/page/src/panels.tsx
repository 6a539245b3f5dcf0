/** One panel: its frames, configured by Grafana's own code, in Grafana's own component. */
import { use } from "react";
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  dateTime,
  EventBusSrv,
  FieldMatcherID,
  FieldType,
  fieldMatchers,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  transformDataFrame,
  VizOrientation,
  type DataFrame,
  type DisplayValueAlignmentFactors,
  type FieldDisplay,
  type GrafanaTheme2,
  type TimeRange,
} from "@grafana/data";
import type { VizLegendOptions } from "@grafana/schema";
import { BigValue, PanelContextProvider, TimeSeries, useTheme2, VizRepeater, type PanelContext } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import { lastValueFrom } from "rxjs";
import { drawMarks, type Mark } from "./annotations";
import type { Answered, Panel } from "./answers";
import { registryOf, withDefaults } from "./fieldConfig";
import { framesOf } from "./frames";

const TIME_ZONE = "utc";
const CONTEXT: PanelContext = { eventsScope: "panel", eventBus: new EventBusSrv() };

export function timeRangeOf(answered: Answered): TimeRange {
  const [from, to] = [dateTime(answered.from * 1000), dateTime(answered.to * 1000)];
  return { from, to, raw: { from, to } };
}

interface Props {
  panel: Panel;
  answered: Answered;
  marks: Mark[];
  width: number;
  height: number;
}

/** Transformed frames come as a promise; a panel has the same one for as long as it is shown. */
const transformed = new Map<number, Promise<DataFrame[]>>();

function transformedFrames(panel: Panel, answered: Answered): Promise<DataFrame[]> {
  if (!transformed.has(panel.id)) {
    const steps = (panel.transformations ?? []).map((one) => ({ ...one }));
    transformed.set(panel.id, lastValueFrom(transformDataFrame(steps, framesOf(panel, answered), { interpolate: (text) => text })));
  }
  return transformed.get(panel.id)!;
}

export function PanelBody({ panel, answered, marks, width, height }: Props) {
  const theme = useTheme2();
  const frames = configured(panel, use(transformedFrames(panel, answered)), theme);
  const timeRange = timeRangeOf(answered);
  switch (panel.type) {
    case "timeseries":
      return (
        <PanelContextProvider value={CONTEXT}>
          <TimeSeries
            frames={drawable(frames)}
            structureRev={1}
            timeRange={timeRange}
            timeZone={TIME_ZONE}
            width={width}
            height={height}
            legend={panel.options.legend as VizLegendOptions}
            options={panel.options}
            fields={{
              x: fieldMatchers.get(FieldMatcherID.firstTimeField).get({}),
              y: fieldMatchers.get(FieldMatcherID.byTypes).get(new Set(["number"])),
            }}
          >
            {(builder) => {
              drawMarks(builder, marks, theme);
              return null;
            }}
          </TimeSeries>
        </PanelContextProvider>
      );
    case "stat":
      return <Stat panel={panel} frames={frames} width={width} height={height} timeRange={timeRange} />;
    case "table":
      return (
        <PanelContextProvider value={CONTEXT}>
          <TableNG
            data={frames[0]}
            width={width}
            height={height}
            timeRange={timeRange}
            noHeader={panel.options.showHeader === false}
            cellHeight={panel.options.cellHeight as never}
            sortBy={panel.options.sortBy as never}
            structureRev={1}
          />
        </PanelContextProvider>
      );
    default:
      throw new Error(`no component for panels of type ${panel.type}`);
  }
}

/** A line has a gap where there is no number, as Grafana's panel prepares it (prepareGraphableFields). */
function drawable(frames: DataFrame[]): DataFrame[] {
  return frames.map((frame) => ({
    ...frame,
    fields: frame.fields.map((field) =>
      field.type === FieldType.number
        ? { ...field, values: field.values.map((value) => (Number.isFinite(value) ? value : null)) }
        : field,
    ),
  }));
}

function configured(panel: Panel, data: DataFrame[], theme: GrafanaTheme2): DataFrame[] {
  const frames = applyFieldOverrides({
    data,
    fieldConfig: withDefaults(panel.type, panel.fieldConfig),
    fieldConfigRegistry: registryOf(panel.type),
    replaceVariables: (text) => text,
    theme,
    timeZone: TIME_ZONE,
  });
  cacheFieldDisplayNames(frames);
  return frames;
}

function Stat({ panel, frames, width, height, timeRange }: {
  panel: Panel; frames: DataFrame[]; width: number; height: number; timeRange: TimeRange;
}) {
  const theme = useTheme2();
  const options = panel.options;
  const values = getFieldDisplayValues({
    fieldConfig: withDefaults(panel.type, panel.fieldConfig),
    reduceOptions: options.reduceOptions as never,
    replaceVariables: (text) => text,
    theme,
    data: frames,
    sparkline: options.graphMode !== "none",
    timeZone: TIME_ZONE,
  });
  for (const value of values) {
    if (value.sparkline) {
      value.sparkline.timeRange = timeRange;
    }
  }
  return (
    <VizRepeater<FieldDisplay, DisplayValueAlignmentFactors>
      getValues={() => values}
      getAlignmentFactors={(found) => getDisplayValueAlignmentFactors(found)}
      renderValue={({ value, width, height, alignmentFactors, count }) => (
        <BigValue
          value={value.display}
          count={count}
          sparkline={value.sparkline}
          colorMode={options.colorMode as never}
          graphMode={options.graphMode as never}
          justifyMode={(options.justifyMode ?? "auto") as never}
          textMode={options.textMode as never}
          alignmentFactors={alignmentFactors}
          width={width}
          height={height}
          theme={theme}
        />
      )}
      width={width}
      height={height}
      source={frames}
      renderCounter={0}
      itemSpacing={3}
      autoGrid
      orientation={VizOrientation.Auto}
    />
  );
}
