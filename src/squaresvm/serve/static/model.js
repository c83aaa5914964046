import { ask, byId, counted, drawing, element, figure, fill, milliseconds, moment, pairs, percent, plain, power, table } from "./common.js";

const name = decodeURIComponent(location.pathname.split("/").pop());
const base = `/models/${encodeURIComponent(name)}`;
const ACTIONS = { train: "trained on", learn: "learned", forget: "forgot", save: "saved from Python with" };
let report = null;

function problem(error) {
  byId("problem").textContent = error ? error.message : "";
}

const isClassifier = (model) => model.classes !== null;
const scoreName = (model) => `${report.loo_is_exact ? "exact leave-one-out" : "leave-one-out (fixed active set)"} ${isClassifier(model) ? "accuracy" : "R²"}`;
const baselineName = (model, main) => (isClassifier(model) ? `share of the largest class; standard error of the accuracy ${percent(main.error)}` : "R² of always predicting the mean");
const score = (model, value) => (value === null ? "–" : isClassifier(model) ? percent(value) : value.toFixed(3));

function showAbout(model) {
  document.title = `${model.name} - squaresvm`;
  byId("title").textContent = model.name;
  const numbers = model.kernel ? ` with ${model.kernel} kernel, C = ${plain(model.C)}${model.gamma === null ? "" : `, gamma = ${plain(model.gamma)}`}` : "";
  byId("summary").textContent = `${model.estimator}${numbers}.`;
  const rows = [["model", model.estimator], ["kernel", model.kernel || "–"], ["C", plain(model.C)]];
  if (model.gamma !== null) rows.push(["gamma", plain(model.gamma, 6)]);
  rows.push(["rows held", model.rows.toLocaleString("en")], ["columns", model.columns ? model.columns.join(", ") : String(model.n_columns)]);
  if (model.classes) rows.push(["classes", model.classes.join(", ")]);
  rows.push(["not yet in the file", model.unsaved ? `${counted(model.unsaved, "request")}, safe in the journal` : "nothing"]);
  fill("about", pairs(rows));
}

function showReport(model) {
  const certificate = report.certificate;
  const figures = [figure(report.rows.toLocaleString("en"), "rows held"), figure(score(model, report.loo_score), scoreName(model)),
    ...report.leave_one_out.slice(0, 1).map((main) => figure(score(model, main.baseline), baselineName(model, main))),
    figure(power(certificate.residual), `residual of the certificate: ${certificate.status}`)];
  if (report.brier !== null) figures.push(figure(report.brier.toFixed(3), "Brier score of the probabilities, rows left out"));
  fill("figures", ...figures);
  fill("certificate", pairs([["status", certificate.status], ["residual", power(certificate.residual)],
    ["duality gap", power(certificate.gap)], ["objective", plain(certificate.objective, 8)]]));
  showSuspects(model);
  showCalibration();
  showMargins(model);
  const history = report.history.map((event) => [moment(event.time), `${ACTIONS[event.action]} ${counted(event.rows, "row")}`,
    event.action === "forget" ? "" : event.left.toLocaleString("en")]);
  fill("history", table(["time (UTC)", "request", "still held"], history, "", "wide snug"));
}

function showSuspects(model) {
  if (!report.suspects.length) {
    fill("suspects", element("p", { className: "soft" }, "None: for every row, the model without it predicts its label."));
    return;
  }
  byId("suspects-title").textContent = isClassifier(model) ? "Rows that look mislabelled" : "Rows with the largest residuals";
  const rows = report.suspects.map((row) => [String(row.id), row.label, row.expected, (isClassifier(model) ? row.value.toFixed(3) : plain(row.value, 6)).replace("-", "−"),
    element("button", { type: "button", className: "plain slim", onclick: () => forget([row.id]), "aria-label": `Forget row ${row.id}` }, "Forget")]);
  const text = isClassifier(model) ? "The model without the row contradicts its label by this margin. Exact, without a refit."
    : "Farthest from the prediction of the model without the row.";
  const ids = [...new Set(report.suspects.map((row) => row.id))]; // An id may name several rows.
  const all = element("button", { type: "button", className: "plain", onclick: () => forget(ids) },
    `Forget all ${report.suspects.length}`);
  const columns = isClassifier(model) ? ["id", "label", "without the row", "margin", ""] : ["id", "value", "without the row", "residual", ""];
  const parts = [table(columns, rows, text, "wide snug")];
  if (isClassifier(model) && report.suspects.length > 1) parts.push(element("div", { className: "row" }, all));
  fill("suspects", ...parts);
}

function showCalibration() {
  byId("calibration").parentElement.hidden = report.calibration === null;
  if (report.calibration === null) return;
  const [predicted, observed, counts] = report.calibration;
  const x = (p) => 44 + 300 * p, y = (p) => 214 - 200 * p, most = Math.max(...counts);
  const parts = [drawing("rect", { x: 44, y: 14, width: 300, height: 200, fill: "none", stroke: "var(--line)" }),
    drawing("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), stroke: "var(--soft)", "stroke-dasharray": "4 4" })];
  for (const t of [0, 0.5, 1]) {
    parts.push(drawing("text", { x: x(t), y: 230, "text-anchor": "middle" }, String(t)), drawing("text", { x: 38, y: y(t) + 4, "text-anchor": "end" }, String(t)));
  }
  parts.push(drawing("text", { x: x(0.5), y: 247, "text-anchor": "middle" }, "predicted"));
  parts.push(drawing("text", { x: -114, y: 12, transform: "rotate(-90)", "text-anchor": "middle" }, "observed"));
  predicted.forEach((p, at) => {
    const dot = drawing("circle", { cx: x(p), cy: y(observed[at]), r: 3 + 8 * Math.sqrt(counts[at] / most), fill: "var(--accent)", "fill-opacity": 0.65 });
    dot.append(drawing("title", {}, `${counts[at]} rows: predicted ${p.toFixed(2)}, observed ${observed[at].toFixed(2)}`));
    parts.push(dot);
  });
  fill("calibration", drawing("svg", { viewBox: "0 0 356 252", role: "img", "aria-label": "Predicted probability against observed share" }, ...parts));
}

function showMargins(model) {
  const found = report.margins;
  byId("margins").parentElement.hidden = found === null;
  if (found === null) return;
  byId("margins-title").textContent = isClassifier(model) ? "How clear are the decisions?" : "How far off is it?";
  byId("margins-text").textContent = isClassifier(model) ? "Decision value of each row's own label less the largest of the others, by the model without the row. Below zero, that model contradicts the label."
    : "Value less the prediction of the model without the row.";
  const low = Math.min(found.edges[0], 0), high = Math.max(found.edges.at(-1), 0), most = Math.max(...found.counts);
  const x = (value) => 16 + (324 * (value - low)) / (high - low);
  const parts = found.counts.map((count, at) => {
    const left = x(found.edges[at]), right = x(found.edges[at + 1]), height = (180 * count) / most;
    const colour = isClassifier(model) && found.edges[at + 1] <= 0 ? "var(--warn)" : "var(--accent)";
    const bar = drawing("rect", { x: left + 0.75, y: 214 - height, width: Math.max(right - left - 1.5, 1), height, rx: 1.5, fill: colour, "fill-opacity": 0.8 });
    bar.append(drawing("title", {}, `${count} rows from ${found.edges[at].toFixed(2)} to ${found.edges[at + 1].toFixed(2)}`));
    return bar;
  });
  parts.push(drawing("line", { x1: 16, y1: 214, x2: 340, y2: 214, stroke: "var(--line)" }),
    drawing("line", { x1: x(0), y1: 14, x2: x(0), y2: 214, stroke: "var(--soft)", "stroke-dasharray": "4 4" }));
  const ticks = [...new Set([low, 0, high])].filter((t) => t === 0 || Math.abs(x(t) - x(0)) > 50);
  const anchor = (t) => (t === 0 ? "middle" : t === low ? "start" : "end"); // Long numbers stay inside.
  for (const t of ticks) parts.push(drawing("text", { x: x(t), y: 230, "text-anchor": anchor(t) }, plain(t, 2)));
  parts.push(drawing("text", { x: 178, y: 247, "text-anchor": "middle" }, isClassifier(model) ? "margin" : "residual"),
    drawing("text", { x: 16, y: 10 }, `highest bar: ${counted(most, "row")}`));
  fill("margins", drawing("svg", { viewBox: "0 0 356 252", role: "img", "aria-label": "Histogram of margins, each row left out" }, ...parts));
}

async function showReceipts() {
  const { receipts } = await ask(`${base}/receipts?limit=20`);
  if (!receipts.length) {
    fill("receipts", element("p", { className: "soft" }, "No request has changed this model here yet."));
    return;
  }
  const rows = receipts.map((receipt) => [receipt.number, moment(receipt.time), receipt.kind, receipt.rows, receipt.remaining,
    power(receipt.residual), milliseconds(receipt.seconds), receipt.erased ? moment(receipt.erased) : "at the next save"]);
  fill("receipts", table(["no.", "time (UTC)", "request", "rows", "held after", "residual", "took", "erased (UTC)"], rows, "Latest requests", "wide tight"));
}

async function show() {
  const model = await ask(base);
  if (!model.ready) throw new Error(model.fault || "The model is being loaded.");
  if (!model.learns) {
    byId("title").textContent = model.name;
    byId("summary").textContent = `${model.estimator}: here it only predicts. Rows are learned and forgotten from Python or on the command line.`;
    return null;
  }
  showAbout(model);
  if (byId("all").hidden) byId("waiting").textContent = "Leaving each row out ...";
  report = await ask(`${base}/report`);
  showReport(model);
  await showReceipts();
  byId("waiting").textContent = "";
  byId("all").hidden = false;
  return model;
}

async function forget(ids) {
  const before = report;
  byId("send").disabled = true;
  try {
    const receipt = await ask(`${base}/forget`, { ids }, { "idempotency-key": crypto.randomUUID() });
    problem(null);
    const model = await show();
    byId("done").textContent = `Forgot ${counted(receipt.rows, "row")} in ${milliseconds(receipt.seconds)}. Receipt no. ${receipt.number}: residual ${power(receipt.residual)} on ${receipt.sampled ? `${receipt.checked} samples` : "all rows"}.`;
    const line = (title, pick) => [title, pick(before), pick(report)];
    fill("change", table(["", "before", "after"], [
      line("rows held", (found) => found.rows.toLocaleString("en")),
      line(scoreName(model), (found) => score(model, found.loo_score)),
      line("residual", (found) => power(found.certificate.residual)),
      line("objective", (found) => plain(found.certificate.objective, 6)),
    ], "Before and after"));
    byId("ids").value = "";
  } catch (error) {
    problem(error);
    byId("done").textContent = "";
    byId("problem").scrollIntoView({ block: "nearest" });
  }
  byId("send").disabled = false;
}

byId("forget").addEventListener("submit", (event) => {
  event.preventDefault();
  const ids = byId("ids").value.split(",").map((text) => text.trim()).filter(Boolean);
  if (ids.length) forget(ids);
});

byId("verify").addEventListener("click", async () => {
  byId("verify").disabled = true;
  byId("verdict").textContent = "Checking ...";
  try {
    const found = await ask(`${base}/verify`);
    byId("verdict").textContent = found.ok ? `The file holds what it claims: residual ${power(found.residual)} on all ${counted(found.rows, "row")}, by code that shares nothing with what made it.`
      : `What the file claims is false: ${found.faults.join(" ")}`;
  } catch (error) {
    byId("verdict").textContent = error.message;
  }
  byId("verify").disabled = false;
});

show().catch((error) => {
  byId("title").textContent = name;
  byId("summary").textContent = byId("waiting").textContent = "";
  problem(error);
});
