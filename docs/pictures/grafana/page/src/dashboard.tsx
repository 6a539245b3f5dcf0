/** Panels on Grafana's grid: 24 columns, rows of 30 px with 8 px between them; one column where the page is narrow. */
import { Suspense } from "react";
import { dateTimeFormat } from "@grafana/data";
import { Icon, PanelChrome, useTheme2 } from "@grafana/ui";
import { marksOf } from "./annotations";
import type { Answered, Panel } from "./answers";
import { PanelBody } from "./panels";

const COLUMNS = 24;
const ROW = 30;
const GAP = 8;
const MARGIN = 16;
// Below it Grafana stacks the panels (theme.breakpoints.values.md).
const NARROW = 769;

export function Dashboard({ answered, width }: { answered: Answered; width: number }) {
  const theme = useTheme2();
  const marks = marksOf(answered);
  const inner = width - 2 * MARGIN;
  const column = (inner + GAP) / COLUMNS;
  const panels = answered.dashboard.panels;
  const narrow = width < NARROW;
  const place = (panel: Panel) => {
    const { x, y, w, h } = panel.gridPos;
    const size = { width: narrow ? inner : w * column - GAP, height: h * (ROW + GAP) - GAP };
    return { left: x * column, top: y * (ROW + GAP), ...size };
  };
  const lowest = Math.max(...panels.map((panel) => place(panel).top + place(panel).height));
  return (
    <div style={{ padding: MARGIN, background: theme.colors.background.canvas }}>
      <Head answered={answered} />
      <div style={narrow ? { display: "flex", flexDirection: "column", gap: GAP } : { position: "relative", height: lowest }}>
        {panels.map((panel) => {
          const { left, top, ...size } = place(panel);
          return (
            <div key={panel.id} style={narrow ? size : { position: "absolute", left, top, ...size }}>
              {panel.type === "row" ? (
                <div style={{ display: "flex", alignItems: "center", gap: 8, height: "100%", fontWeight: 500, fontSize: 16 }}>
                  <Icon name="angle-down" />
                  {panel.title}
                </div>
              ) : (
                <PanelChrome title={panel.title} description={panel.description || undefined} padding={padding(panel)} {...size}>
                  {(width: number, height: number) => (
                    <Suspense>
                      <PanelBody panel={panel} answered={answered} marks={marks} width={width} height={height} />
                    </Suspense>
                  )}
                </PanelChrome>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function padding(panel: Panel): "none" | "md" {
  return panel.type === "table" ? "none" : "md";
}

function Head({ answered }: { answered: Answered }) {
  const theme = useTheme2();
  const at = (seconds: number) => dateTimeFormat(seconds * 1000, { format: "HH:mm", timeZone: "utc" });
  const chosen = [...Object.entries(answered.variables), ["", `${at(answered.from)} to ${at(answered.to)} UTC`]];
  return (
    <div style={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 12, paddingBottom: 12 }}>
      <span style={{ fontSize: 18, fontWeight: 500, flexGrow: 1 }}>{answered.dashboard.title}</span>
      {chosen.map(([name, value]) => (
        <span key={name} style={{ border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, display: "flex" }}>
          {name && <span style={{ padding: "4px 8px", background: theme.colors.background.secondary }}>{name}</span>}
          <span style={{ padding: "4px 8px", background: theme.colors.background.primary }}>{value}</span>
        </span>
      ))}
    </div>
  );
}
