/** Annotations of a Prometheus query, and their marks on a time series: in Grafana's program a plugin that the library lacks. */
import type { GrafanaTheme2 } from "@grafana/data";
import type { UPlotConfigBuilder } from "@grafana/ui";
import type { Answered } from "./answers";

/** Unix milliseconds; a region where the steps follow upon each other. */
export interface Mark {
  from: number;
  to: number;
  color: string;
}

/** Where the query's value is above 0; neighbouring steps are one region, as Grafana's datasource joins them. */
export function marksOf(answered: Answered): Mark[] {
  return answered.annotations.flatMap(({ annotation, answer, stepSeconds }) =>
    answer.result.flatMap((series) => {
      const times = (series.values ?? []).filter(([, value]) => Number(value) > 0).map(([at]) => at);
      const regions: Mark[] = [];
      for (const at of times) {
        const last = regions.at(-1);
        if (last && at * 1000 - last.to <= stepSeconds * 1000) {
          last.to = at * 1000;
        } else {
          regions.push({ from: at * 1000, to: at * 1000, color: annotation.iconColor });
        }
      }
      return regions;
    }),
  );
}

/** Grafana's look: a dashed line at each end, a light field between them, a triangle below. */
export function drawMarks(builder: UPlotConfigBuilder, marks: Mark[], theme: GrafanaTheme2): void {
  builder.addHook("draw", (plot) => {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const bottom = bbox.top + bbox.height;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height + 6 * ratio);
    ctx.clip();
    for (const mark of marks) {
      const color = theme.visualization.getColorByName(mark.color);
      const [left, right] = [mark.from, mark.to].map((at) => Math.round(plot.valToPos(at, "x", true)));
      ctx.fillStyle = ctx.strokeStyle = color;
      ctx.lineWidth = 2 * ratio;
      ctx.setLineDash([5 * ratio, 5 * ratio]);
      for (const at of new Set([left, right])) {
        ctx.beginPath();
        ctx.moveTo(at, bbox.top);
        ctx.lineTo(at, bottom);
        ctx.stroke();
      }
      ctx.globalAlpha = 0.1;
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.globalAlpha = 1;
      ctx.beginPath();
      if (left === right) {
        ctx.moveTo(left - 4 * ratio, bottom + 5 * ratio);
        ctx.lineTo(left + 4 * ratio, bottom + 5 * ratio);
        ctx.lineTo(left, bottom);
        ctx.fill();
      } else {
        ctx.fillRect(left, bottom, right - left, 5 * ratio);
      }
    }
    ctx.restore();
  });
}
