/** `index.html?answers=FILE&theme=dark|light`: the dashboard of that file. The page says `data-drawn` once it stands. */
import "@fontsource/inter/latin-400.css";
import "@fontsource/inter/latin-500.css";
import { createRoot } from "react-dom/client";
import { createTheme, standardTransformers, standardTransformersRegistry, ThemeContext } from "@grafana/data";
import { initPluginTranslations } from "@grafana/i18n";
import { GlobalStyles } from "@grafana/ui";
import type { Answered } from "./answers";
import { Dashboard } from "./dashboard";

// Some that the library names twice share an id; either will do.
const transformers = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
standardTransformersRegistry.setInit(
  () =>
    [...transformers.values()].map((one) => ({
      id: one.id,
      name: one.name,
      transformation: () => Promise.resolve(one),
      editor: () => null,
    })) as never,
);

async function main(): Promise<void> {
  const asked = new URLSearchParams(location.search);
  const mode = asked.get("theme") === "light" ? "light" : "dark";
  const answered: Answered = await (await fetch(asked.get("answers")!)).json();
  await initPluginTranslations("grafana-ui");
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 14px Inter`)));
  const root = document.getElementById("root")!;
  createRoot(root).render(
    <ThemeContext.Provider value={createTheme({ colors: { mode } })}>
      <GlobalStyles />
      <Dashboard answered={answered} width={window.innerWidth} />
    </ThemeContext.Provider>,
  );
}

void main();
