import { ask, byId, element, fill, plain, table } from "./common.js";

function line(model) {
  const link = element("a", { href: `/ui/${encodeURIComponent(model.name)}` }, model.name);
  if (!model.ready) return [link, element("span", { className: "warn" }, model.fault || "loading"), "", ""];
  const kind = model.kernel ? `${model.estimator}, ${model.kernel}, C = ${plain(model.C)}` : model.estimator;
  const classes = model.classes ? model.classes.slice(0, 6).join(", ") + (model.classes.length > 6 ? ", ..." : "") : "values";
  return [link, kind, model.rows === null ? "none kept" : model.rows.toLocaleString("en"), classes];
}

async function show() {
  const { models } = await ask("/models");
  if (models.length) fill("models", table(["name", "model", "rows", "predicts"], models.map(line)));
  else fill("models", element("p", {}, "There is no file *.model in the folder yet: squaresvm train makes one."));
}

try {
  await show();
  setInterval(() => show().catch(() => {}), 5000);
} catch (error) {
  byId("problem").textContent = error.message;
}
